//! Parser of expressions, assignments included.

use super::syntax::{CodeExpr, Operator, Statement};
use crate::cursor::{Cursor, Parsed};

/// The maximum nesting of brackets in an expression, and of blocks.
pub(super) const MAX_DEPTH: u32 = 40;

/// The maximum number of operators, calls and lists in a statement. It also bounds the recursion of the evaluator.
const MAX_OPERATORS: u32 = 400;

/// The functions that an expression may call.
const FUNCTIONS: [&str; 8] = ["abs", "bool", "float", "int", "len", "max", "min", "str"];

pub(super) const KEYWORDS: [&str; 22] = [
    "import", "from", "if", "elif", "else", "for", "while", "def", "class", "try", "with", "return", "exec",
    "eval", "lambda", "del", "global", "raise", "yield", "None", "async", "await",
];

/// Skips white space, comments and continued lines, and newlines if `lines` is true.
pub(super) fn blank(c: &mut Cursor<'_>, lines: bool) {
    loop {
        c.take_while(|c| c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n'));
        if c.starts("#") {
            c.take_while(|c| c != '\n');
        } else if c.starts("\\") && c.rest()[1..].trim_start_matches([' ', '\t', '\r']).starts_with('\n') {
            c.take_while(|c| c != '\n');
            c.skip(1);
        } else if c.starts("\\") && c.rest()[1..].trim().is_empty() {
            c.skip(c.rest().len());
        } else {
            return;
        }
    }
}

/// The parser of expressions. Inside brackets a newline is white space.
pub(super) struct ExpressionParser<'a, 'b> {
    pub(super) c: &'b mut Cursor<'a>,
    pub(super) depth: u32,
    pub(super) brackets: u32,
    /// The number of operators, calls and lists so far.
    pub(super) parts: u32,
}

impl ExpressionParser<'_, '_> {
    /// Counts an operator, a call or a list.
    fn part(&mut self) -> Parsed<()> {
        self.parts += 1;
        if self.parts > MAX_OPERATORS { self.c.fail("a simpler expression") } else { Ok(()) }
    }

    fn blank(&mut self) {
        blank(self.c, self.brackets > 0);
    }

    pub(super) fn ended(&mut self) -> bool {
        self.blank();
        self.c.at_end() || self.c.starts("\n") || self.c.starts(";")
    }

    pub(super) fn eat(&mut self, token: &str) -> bool {
        self.blank();
        let there = self.c.starts(token);
        if there {
            self.c.skip(token.len());
        }
        there
    }

    fn eat_word(&mut self, word: &str) -> bool {
        self.blank();
        let there = self.c.peek_word() == word;
        if there {
            self.c.skip(word.len());
        }
        there
    }

    pub(super) fn assignment(&mut self) -> Parsed<Statement> {
        let before = self.c.clone();
        let name = self.c.peek_word();
        if !name.is_empty() {
            self.c.skip(name.len());
            if self.eat("=") && !self.c.starts("=") {
                return Ok(Statement::Let(name.to_owned(), self.tuple()?));
            }
            for (token, op) in [
                ("+=", Operator::Add),
                ("-=", Operator::Sub),
                ("*=", Operator::Mul),
                ("//=", Operator::FloorDiv),
                ("/=", Operator::Div),
                ("%=", Operator::Mod),
                ("|=", Operator::BitOr),
                ("&=", Operator::BitAnd),
            ] {
                if self.eat(token) {
                    self.part()?;
                    let old = Box::new(CodeExpr::Name(name.to_owned()));
                    return Ok(Statement::Let(
                        name.to_owned(),
                        CodeExpr::Binary(op, old, Box::new(self.expr()?)),
                    ));
                }
            }
        }
        *self.c = before;
        self.tuple().map(Statement::Eval)
    }

    /// An expression, or a list of expressions separated by commas.
    pub(super) fn tuple(&mut self) -> Parsed<CodeExpr> {
        let first = self.expr()?;
        if !self.eat(",") {
            return Ok(first);
        }
        self.part()?;
        let mut items = vec![first];
        while !self.ended() {
            items.push(self.expr()?);
            if !self.eat(",") {
                break;
            }
        }
        Ok(CodeExpr::List(items))
    }

    pub(super) fn expr(&mut self) -> Parsed<CodeExpr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.c.fail("a simpler expression");
        }
        let then = self.either()?;
        let made = if self.eat_word("if") {
            self.part()?;
            let condition = self.either()?;
            if !self.eat_word("else") {
                return self.c.fail("`else`");
            }
            CodeExpr::If(Box::new(condition), Box::new(then), Box::new(self.expr()?))
        } else {
            then
        };
        self.depth -= 1;
        Ok(made)
    }

    fn either(&mut self) -> Parsed<CodeExpr> {
        let mut left = self.both()?;
        while self.eat_word("or") {
            self.part()?;
            left = CodeExpr::Binary(Operator::Or, Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Parsed<CodeExpr> {
        let mut left = self.negated()?;
        while self.eat_word("and") {
            self.part()?;
            left = CodeExpr::Binary(Operator::And, Box::new(left), Box::new(self.negated()?));
        }
        Ok(left)
    }

    fn negated(&mut self) -> Parsed<CodeExpr> {
        let mut nots = 0;
        while self.eat_word("not") {
            nots += 1;
            self.part()?;
        }
        let mut made = self.comparison()?;
        for _ in 0..nots {
            made = CodeExpr::Unary(Operator::Not, Box::new(made));
        }
        Ok(made)
    }

    fn comparison(&mut self) -> Parsed<CodeExpr> {
        let first = self.binary(0)?;
        let mut rest = Vec::new();
        loop {
            let op = if self.eat("==") {
                Operator::Eq
            } else if self.eat("!=") {
                Operator::Ne
            } else if self.eat("<=") {
                Operator::Le
            } else if self.eat(">=") {
                Operator::Ge
            } else if self.eat("<") {
                Operator::Lt
            } else if self.eat(">") {
                Operator::Gt
            } else if self.eat_word("in") {
                Operator::In
            } else if self.eat_word("not") {
                if !self.eat_word("in") {
                    return self.c.fail("`in`");
                }
                Operator::NotIn
            } else {
                break;
            };
            self.part()?;
            rest.push((op, self.binary(0)?));
        }
        Ok(if rest.is_empty() { first } else { CodeExpr::Compare(Box::new(first), rest) })
    }

    /// Binary operators by precedence; level 0 binds least.
    fn binary(&mut self, level: usize) -> Parsed<CodeExpr> {
        const LEVELS: [&[(&str, Operator)]; 6] = [
            &[("|", Operator::BitOr)],
            &[("^", Operator::BitXor)],
            &[("&", Operator::BitAnd)],
            &[("<<", Operator::Shl), (">>", Operator::Shr)],
            &[("+", Operator::Add), ("-", Operator::Sub)],
            &[("*", Operator::Mul), ("//", Operator::FloorDiv), ("/", Operator::Div), ("%", Operator::Mod)],
        ];
        let Some(ops) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        'more: loop {
            self.blank();
            for (token, op) in *ops {
                if self.c.starts("**") {
                    break;
                }
                if self.c.starts(token) {
                    self.c.skip(token.len());
                    self.part()?;
                    left = CodeExpr::Binary(*op, Box::new(left), Box::new(self.binary(level + 1)?));
                    continue 'more;
                }
            }
            return Ok(left);
        }
    }

    fn unary(&mut self) -> Parsed<CodeExpr> {
        let op = if self.eat("-") {
            Operator::Sub
        } else if self.eat("~") {
            Operator::Invert
        } else if self.eat("+") {
            Operator::Add
        } else {
            let base = self.atom()?;
            return if self.eat("**") {
                Ok(CodeExpr::Binary(Operator::Pow, Box::new(base), Box::new(self.unary_deeper()?)))
            } else {
                Ok(base)
            };
        };
        Ok(CodeExpr::Unary(op, Box::new(self.unary_deeper()?)))
    }

    fn unary_deeper(&mut self) -> Parsed<CodeExpr> {
        self.part()?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.c.fail("a simpler expression");
        }
        let made = self.unary();
        self.depth -= 1;
        made
    }

    fn atom(&mut self) -> Parsed<CodeExpr> {
        const WHAT: &str = "an expression of numbers, texts, names and operators";
        self.blank();
        let made = match self.c.peek() {
            Some(open @ ('(' | '[')) => {
                self.c.skip(1);
                let items = self.items(if open == '(' { ")" } else { "]" })?;
                match <[CodeExpr; 1]>::try_from(items) {
                    Ok([one]) if open == '(' => one,
                    Ok([one]) => CodeExpr::List(vec![one]),
                    Err(items) => CodeExpr::List(items),
                }
            }
            Some('"' | '\'') => self.text()?,
            Some(x) if x.is_ascii_digit() || x == '.' => self.number()?,
            _ => {
                let name = self.c.peek_word();
                if name.is_empty() || KEYWORDS.contains(&name) {
                    return self.c.fail(WHAT);
                }
                let before = self.c.clone();
                self.c.skip(name.len());
                if self.c.starts("(") {
                    if !FUNCTIONS.contains(&name) {
                        return before.fail(&format!("one of the functions {}", FUNCTIONS.join(", ")));
                    }
                    self.c.skip(1);
                    CodeExpr::Call(name.to_owned(), self.items(")")?)
                } else {
                    CodeExpr::Name(name.to_owned())
                }
            }
        };
        if self.c.starts(".format(") {
            self.c.skip(".format(".len());
            return Ok(CodeExpr::Format(Box::new(made), self.items(")")?));
        }
        if self.c.starts(".") || self.c.starts("[") {
            return self.c.fail("an operator: attributes and subscripts are not evaluated");
        }
        Ok(made)
    }

    fn items(&mut self, close: &str) -> Parsed<Vec<CodeExpr>> {
        self.part()?;
        self.brackets += 1;
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(self.expr()?);
            if !self.eat(",") {
                if !self.eat(close) {
                    return self.c.fail(&format!("`,` or `{close}`"));
                }
                break;
            }
        }
        self.brackets -= 1;
        Ok(items)
    }

    fn text(&mut self) -> Parsed<CodeExpr> {
        let quote = self.c.bump().expect("a quote was seen");
        let mut text = String::new();
        loop {
            match self.c.bump() {
                None | Some('\n') => return self.c.fail("the end of the text"),
                Some(c) if c == quote => return Ok(CodeExpr::Text(text)),
                Some('\\') => text.extend(self.c.bump().map(|c| match c {
                    'n' => '\n',
                    't' => '\t',
                    c => c,
                })),
                Some(c) => text.push(c),
            }
        }
    }

    fn number(&mut self) -> Parsed<CodeExpr> {
        let before = self.c.clone();
        if self.c.starts("0x") || self.c.starts("0X") {
            return Ok(CodeExpr::Int(self.c.number("a number of 64 bits")?));
        }
        let whole = self.c.take_while(|c| c.is_ascii_digit() || c == '.' || c == 'e');
        // The suffix `L` of long integers in Python 2.
        if self.c.starts("L") {
            self.c.skip(1);
        }
        if let Ok(n) = whole.parse::<i64>() {
            return Ok(CodeExpr::Int(n));
        }
        if whole.chars().all(|c| c.is_ascii_digit()) {
            return before.fail("a number of 64 bits");
        }
        match whole.parse::<f64>() {
            Ok(x) => Ok(CodeExpr::Real(x)),
            Err(_) => before.fail("a number"),
        }
    }
}
