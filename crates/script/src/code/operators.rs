//! Operators and functions of expressions.

use super::syntax::Operator;
use super::value::{CodeError, CodeValue, real, too_large, truth, unsupported};

pub(super) fn unary(op: Operator, a: &CodeValue) -> Result<CodeValue, CodeError> {
    Ok(match (op, a) {
        (Operator::Not, a) => CodeValue::Int(i64::from(!truth(a))),
        (Operator::Sub, CodeValue::Int(n)) => CodeValue::Int(n.checked_neg().ok_or_else(too_large)?),
        (Operator::Sub, a) => CodeValue::Real(-real(a)?),
        (Operator::Invert, CodeValue::Int(n)) => CodeValue::Int(!n),
        (Operator::Add, a) => a.clone(),
        (_, a) => return Err(CodeError::Invalid(format!("the unary operator is not defined for `{a}`"))),
    })
}

pub(super) fn binary(op: Operator, a: &CodeValue, b: &CodeValue) -> Result<CodeValue, CodeError> {
    if let (CodeValue::Int(a), CodeValue::Int(b)) = (a, b) {
        return whole(op, *a, *b);
    }
    if let (Operator::Mod, CodeValue::Text(text)) = (op, a) {
        return Ok(percents(text, b));
    }
    if let (Operator::Add, CodeValue::Text(_), _) | (Operator::Add, _, CodeValue::Text(_)) = (op, a, b) {
        return Ok(CodeValue::Text(format!("{a}{b}")));
    }
    if matches!(a, CodeValue::List(_))
        || matches!(b, CodeValue::List(_))
        || (op == Operator::Mul && is_text(a) != is_text(b))
    {
        return unsupported("an operation on lists, or a repeated string".to_owned());
    }
    let (x, y) = (real(a)?, real(b)?);
    let zero = || CodeError::Invalid("a division by zero".to_owned());
    Ok(CodeValue::Real(match op {
        Operator::Add => x + y,
        Operator::Sub => x - y,
        Operator::Mul => x * y,
        Operator::Div | Operator::FloorDiv | Operator::Mod if y == 0.0 => return Err(zero()),
        Operator::Div => x / y,
        Operator::FloorDiv => (x / y).floor(),
        Operator::Mod => x - y * (x / y).floor(),
        Operator::Pow => x.powf(y),
        _ => return Err(CodeError::Invalid(format!("the operator is not defined for `{a}` and `{b}`"))),
    }))
}

fn is_text(v: &CodeValue) -> bool {
    matches!(v, CodeValue::Text(_))
}

#[expect(clippy::cast_precision_loss, reason = "as Python does")]
fn whole(op: Operator, a: i64, b: i64) -> Result<CodeValue, CodeError> {
    let zero = || CodeError::Invalid("a division by zero".to_owned());
    let shift = || u32::try_from(b).ok().filter(|&n| n < 63).ok_or_else(too_large);
    let made = match op {
        Operator::Add => a.checked_add(b),
        Operator::Sub => a.checked_sub(b),
        Operator::Mul => a.checked_mul(b),
        Operator::Div | Operator::FloorDiv | Operator::Mod if b == 0 => return Err(zero()),
        // `i64::MIN / -1` exceeds 64 bits.
        Operator::Div if a.checked_rem(b) == Some(0) => a.checked_div(b),
        Operator::Div => return Ok(CodeValue::Real(a as f64 / b as f64)),
        Operator::FloorDiv => {
            a.checked_div_euclid(b).map(|q| if b < 0 && a.rem_euclid(b) != 0 { q - 1 } else { q })
        }
        Operator::Mod => {
            let r = a.wrapping_rem_euclid(b);
            Some(if b < 0 && r != 0 { r + b } else { r })
        }
        Operator::BitOr => Some(a | b),
        Operator::BitXor => Some(a ^ b),
        Operator::BitAnd => Some(a & b),
        Operator::Shl => a.checked_mul(1 << shift()?),
        Operator::Shr if b >= 63 => Some(a >> 63),
        Operator::Shr => Some(a >> shift()?),
        Operator::Pow => u32::try_from(b).ok().and_then(|n| a.checked_pow(n)),
        _ => return Err(CodeError::Invalid("the operator is not defined for numbers".to_owned())),
    };
    made.map(CodeValue::Int).ok_or_else(too_large)
}

/// Equality as in Python: an integer may equal a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "a number with decimals has no more")]
fn equal(a: &CodeValue, b: &CodeValue) -> bool {
    match (a, b) {
        (CodeValue::List(a), CodeValue::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (CodeValue::Int(whole), CodeValue::Real(real)) | (CodeValue::Real(real), CodeValue::Int(whole)) => {
            (*whole as f64).partial_cmp(real) == Some(std::cmp::Ordering::Equal)
        }
        _ => a == b,
    }
}

pub(super) fn compare(op: Operator, a: &CodeValue, b: &CodeValue) -> Result<bool, CodeError> {
    match (op, a, b) {
        (Operator::In | Operator::NotIn, _, CodeValue::List(items)) => {
            return Ok(items.iter().any(|item| equal(a, item)) == (op == Operator::In));
        }
        (Operator::In | Operator::NotIn, CodeValue::Text(part), CodeValue::Text(text)) => {
            return Ok(text.contains(part.as_str()) == (op == Operator::In));
        }
        (Operator::Eq | Operator::Ne, CodeValue::List(_), _)
        | (Operator::Eq | Operator::Ne, _, CodeValue::List(_)) => {
            return Ok(equal(a, b) == (op == Operator::Eq));
        }
        (Operator::Lt | Operator::Le | Operator::Gt | Operator::Ge, CodeValue::List(_), _)
        | (Operator::Lt | Operator::Le | Operator::Gt | Operator::Ge, _, CodeValue::List(_)) => {
            return unsupported("the order of lists".to_owned());
        }
        _ => {}
    }
    let order = match (a, b) {
        (CodeValue::Int(a), CodeValue::Int(b)) => Some(a.cmp(b)),
        (CodeValue::Text(a), CodeValue::Text(b)) => Some(a.cmp(b)),
        (CodeValue::Int(_) | CodeValue::Real(_), CodeValue::Int(_) | CodeValue::Real(_)) => {
            real(a)?.partial_cmp(&real(b)?)
        }
        _ => None,
    };
    Ok(match op {
        Operator::Eq => order.is_some_and(std::cmp::Ordering::is_eq),
        Operator::Ne => !order.is_some_and(std::cmp::Ordering::is_eq),
        Operator::Lt => order.is_some_and(std::cmp::Ordering::is_lt),
        Operator::Le => order.is_some_and(std::cmp::Ordering::is_le),
        Operator::Gt => order.is_some_and(std::cmp::Ordering::is_gt),
        Operator::Ge => order.is_some_and(std::cmp::Ordering::is_ge),
        _ => return Err(CodeError::Invalid(format!("`{b}` is not a list"))),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "what does not fit is refused")]
pub(super) fn function(name: &str, args: &[CodeValue]) -> Result<CodeValue, CodeError> {
    let items = match args {
        [CodeValue::List(items)] => items.as_slice(),
        _ => args,
    };
    let wrong = || CodeError::Invalid(format!("`{name}` of {} values", args.len()));
    let best = |op: Operator| {
        let mut best = items.first().cloned().ok_or_else(wrong)?;
        for v in items {
            if compare(op, v, &best)? {
                best = v.clone();
            }
        }
        Ok(best)
    };
    match (name, args) {
        ("min", _) => best(Operator::Lt),
        ("max", _) => best(Operator::Gt),
        ("abs", [CodeValue::Int(n)]) => n.checked_abs().map(CodeValue::Int).ok_or_else(too_large),
        ("abs", [v]) => Ok(CodeValue::Real(real(v)?.abs())),
        ("int", [CodeValue::Text(t)]) => t.trim().parse().map(CodeValue::Int).map_err(|_| wrong()),
        ("int", [CodeValue::Int(n)]) => Ok(CodeValue::Int(*n)),
        ("int", [v]) => match real(v)?.trunc() {
            x if x.abs() < 9.2e18 => Ok(CodeValue::Int(x as i64)),
            _ => Err(too_large()),
        },
        ("float", [v]) => Ok(CodeValue::Real(real(v)?)),
        ("bool", [v]) => Ok(CodeValue::Int(i64::from(truth(v)))),
        ("str", [v]) => Ok(CodeValue::Text(v.to_string())),
        ("len", [CodeValue::List(items)]) => {
            Ok(CodeValue::Int(i64::try_from(items.len()).map_err(|_| wrong())?))
        }
        ("len", [CodeValue::Text(t)]) => {
            Ok(CodeValue::Int(i64::try_from(t.chars().count()).map_err(|_| wrong())?))
        }
        _ => Err(wrong()),
    }
}

/// `"a %d b %s" % (x, y)`. Every directive is replaced by the text of its argument.
fn percents(text: &str, args: &CodeValue) -> CodeValue {
    let mut args = match args {
        CodeValue::List(items) => items.clone(),
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
    CodeValue::Text(made)
}

/// `"a {} b".format(x)`. Every `{...}` is replaced by the next argument.
pub(super) fn braces(text: &str, args: &[CodeValue]) -> CodeValue {
    let mut args = args.iter();
    let mut made = String::new();
    let mut parts = text.split('{');
    made.push_str(parts.next().unwrap_or(""));
    for part in parts {
        let after = part.split_once('}').map_or(part, |(_, after)| after);
        made.push_str(&args.next().map(ToString::to_string).unwrap_or_default());
        made.push_str(after);
    }
    CodeValue::Text(made)
}
