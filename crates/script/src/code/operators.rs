//! Operators and functions of expressions.

use super::syntax::Op;
use super::value::{Failure, Value, beyond, real, too_large, truth};

pub(super) fn unary(op: Op, a: &Value) -> Result<Value, Failure> {
    Ok(match (op, a) {
        (Op::Not, a) => Value::Int(i64::from(!truth(a))),
        (Op::Sub, Value::Int(n)) => Value::Int(n.checked_neg().ok_or_else(too_large)?),
        (Op::Sub, a) => Value::Real(-real(a)?),
        (Op::Invert, Value::Int(n)) => Value::Int(!n),
        (Op::Add, a) => a.clone(),
        (_, a) => return Err(Failure::Wrong(format!("no such sign before `{a}`"))),
    })
}

pub(super) fn binary(op: Op, a: &Value, b: &Value) -> Result<Value, Failure> {
    if let (Value::Int(a), Value::Int(b)) = (a, b) {
        return whole(op, *a, *b);
    }
    if let (Op::Mod, Value::Text(text)) = (op, a) {
        return Ok(percents(text, b));
    }
    if let (Op::Add, Value::Text(_), _) | (Op::Add, _, Value::Text(_)) = (op, a, b) {
        return Ok(Value::Text(format!("{a}{b}")));
    }
    if matches!(a, Value::List(_))
        || matches!(b, Value::List(_))
        || (op == Op::Mul && is_text(a) != is_text(b))
    {
        return beyond("an operation on lists, or a text that is repeated".to_owned());
    }
    let (x, y) = (real(a)?, real(b)?);
    let zero = || Failure::Wrong("a division by zero".to_owned());
    Ok(Value::Real(match op {
        Op::Add => x + y,
        Op::Sub => x - y,
        Op::Mul => x * y,
        Op::Div | Op::FloorDiv | Op::Mod if y == 0.0 => return Err(zero()),
        Op::Div => x / y,
        Op::FloorDiv => (x / y).floor(),
        Op::Mod => x - y * (x / y).floor(),
        Op::Pow => x.powf(y),
        _ => return Err(Failure::Wrong(format!("no such operation on `{a}` and `{b}`"))),
    }))
}

fn is_text(v: &Value) -> bool {
    matches!(v, Value::Text(_))
}

#[expect(clippy::cast_precision_loss, reason = "as Python does")]
fn whole(op: Op, a: i64, b: i64) -> Result<Value, Failure> {
    let zero = || Failure::Wrong("a division by zero".to_owned());
    let shift = || u32::try_from(b).ok().filter(|&n| n < 63).ok_or_else(too_large);
    let made = match op {
        Op::Add => a.checked_add(b),
        Op::Sub => a.checked_sub(b),
        Op::Mul => a.checked_mul(b),
        Op::Div | Op::FloorDiv | Op::Mod if b == 0 => return Err(zero()),
        // The smallest number has no opposite: its quotient by -1 is no number of 64 bits.
        Op::Div if a.checked_rem(b) == Some(0) => a.checked_div(b),
        Op::Div => return Ok(Value::Real(a as f64 / b as f64)),
        Op::FloorDiv => {
            a.checked_div_euclid(b).map(|q| if b < 0 && a.rem_euclid(b) != 0 { q - 1 } else { q })
        }
        Op::Mod => {
            let r = a.wrapping_rem_euclid(b);
            Some(if b < 0 && r != 0 { r + b } else { r })
        }
        Op::BitOr => Some(a | b),
        Op::BitXor => Some(a ^ b),
        Op::BitAnd => Some(a & b),
        Op::Shl => a.checked_mul(1 << shift()?),
        Op::Shr if b >= 63 => Some(a >> 63),
        Op::Shr => Some(a >> shift()?),
        Op::Pow => u32::try_from(b).ok().and_then(|n| a.checked_pow(n)),
        _ => return Err(Failure::Wrong("no such operation on numbers".to_owned())),
    };
    made.map(Value::Int).ok_or_else(too_large)
}

/// Whether two values are the same, as Python has it: a whole number may equal one with decimals.
#[expect(clippy::cast_precision_loss, reason = "a number with decimals has no more")]
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Int(whole), Value::Real(real)) | (Value::Real(real), Value::Int(whole)) => {
            (*whole as f64).partial_cmp(real) == Some(std::cmp::Ordering::Equal)
        }
        _ => a == b,
    }
}

pub(super) fn compare(op: Op, a: &Value, b: &Value) -> Result<bool, Failure> {
    match (op, a, b) {
        (Op::In | Op::NotIn, _, Value::List(items)) => {
            return Ok(items.iter().any(|item| equal(a, item)) == (op == Op::In));
        }
        (Op::In | Op::NotIn, Value::Text(part), Value::Text(text)) => {
            return Ok(text.contains(part.as_str()) == (op == Op::In));
        }
        (Op::Eq | Op::Ne, Value::List(_), _) | (Op::Eq | Op::Ne, _, Value::List(_)) => {
            return Ok(equal(a, b) == (op == Op::Eq));
        }
        (Op::Lt | Op::Le | Op::Gt | Op::Ge, Value::List(_), _)
        | (Op::Lt | Op::Le | Op::Gt | Op::Ge, _, Value::List(_)) => {
            return beyond("the order of lists".to_owned());
        }
        _ => {}
    }
    let order = match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Int(_) | Value::Real(_), Value::Int(_) | Value::Real(_)) => real(a)?.partial_cmp(&real(b)?),
        _ => None,
    };
    Ok(match op {
        Op::Eq => order.is_some_and(std::cmp::Ordering::is_eq),
        Op::Ne => !order.is_some_and(std::cmp::Ordering::is_eq),
        Op::Lt => order.is_some_and(std::cmp::Ordering::is_lt),
        Op::Le => order.is_some_and(std::cmp::Ordering::is_le),
        Op::Gt => order.is_some_and(std::cmp::Ordering::is_gt),
        Op::Ge => order.is_some_and(std::cmp::Ordering::is_ge),
        _ => return Err(Failure::Wrong(format!("`{b}` is not a list"))),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "what does not fit is refused")]
pub(super) fn function(name: &str, args: &[Value]) -> Result<Value, Failure> {
    let items = match args {
        [Value::List(items)] => items.as_slice(),
        _ => args,
    };
    let wrong = || Failure::Wrong(format!("`{name}` of {} values", args.len()));
    let best = |op: Op| {
        let mut best = items.first().cloned().ok_or_else(wrong)?;
        for v in items {
            if compare(op, v, &best)? {
                best = v.clone();
            }
        }
        Ok(best)
    };
    match (name, args) {
        ("min", _) => best(Op::Lt),
        ("max", _) => best(Op::Gt),
        ("abs", [Value::Int(n)]) => n.checked_abs().map(Value::Int).ok_or_else(too_large),
        ("abs", [v]) => Ok(Value::Real(real(v)?.abs())),
        ("int", [Value::Text(t)]) => t.trim().parse().map(Value::Int).map_err(|_| wrong()),
        ("int", [Value::Int(n)]) => Ok(Value::Int(*n)),
        ("int", [v]) => match real(v)?.trunc() {
            x if x.abs() < 9.2e18 => Ok(Value::Int(x as i64)),
            _ => Err(too_large()),
        },
        ("float", [v]) => Ok(Value::Real(real(v)?)),
        ("bool", [v]) => Ok(Value::Int(i64::from(truth(v)))),
        ("str", [v]) => Ok(Value::Text(v.to_string())),
        ("len", [Value::List(items)]) => Ok(Value::Int(i64::try_from(items.len()).map_err(|_| wrong())?)),
        ("len", [Value::Text(t)]) => Ok(Value::Int(i64::try_from(t.chars().count()).map_err(|_| wrong())?)),
        _ => Err(wrong()),
    }
}

/// `"a %d b %s" % (x, y)`: each directive is replaced, whatever its kind.
fn percents(text: &str, args: &Value) -> Value {
    let mut args = match args {
        Value::List(items) => items.clone(),
        one => vec![one.clone()],
    }
    .into_iter();
    let mut made = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            made.push(c);
            continue;
        }
        match chars.by_ref().find(|c| c.is_ascii_alphabetic() || *c == '%') {
            Some('%') => made.push('%'),
            _ => made.push_str(&args.next().map(|v| v.to_string()).unwrap_or_default()),
        }
    }
    Value::Text(made)
}

/// `"a {} b".format(x)`, each argument once.
pub(super) fn braces(text: &str, args: &[Value]) -> Value {
    let mut args = args.iter();
    let mut made = String::new();
    let mut parts = text.split('{');
    made.push_str(parts.next().unwrap_or(""));
    for part in parts {
        let after = part.split_once('}').map_or(part, |(_, after)| after);
        made.push_str(&args.next().map(ToString::to_string).unwrap_or_default());
        made.push_str(after);
    }
    Value::Text(made)
}
