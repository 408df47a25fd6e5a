//! A position in a text that moves forward, with the primitives of the parsers.

use crate::position::{Position, SyntaxError};

/// The result of a parser.
pub(crate) type Parsed<T> = Result<T, SyntaxError>;

/// The maximum number of characters of the text in an error.
const SHOWN: usize = 20;

#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    column: u32,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0, line: 1, column: 1 }
    }

    /// A cursor on a part of another text. The part begins at `position`.
    pub fn within(text: &'a str, position: Position) -> Cursor<'a> {
        Cursor { text, at: 0, line: position.line, column: position.column }
    }

    pub fn position(&self) -> Position {
        Position { line: self.line, column: self.column }
    }

    /// The text after the cursor.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn at_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub fn starts(&self, with: &str) -> bool {
        self.rest().starts_with(with)
    }

    pub fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(c)
    }

    /// Skips `n` bytes, which must end at a character boundary.
    pub fn skip(&mut self, n: usize) {
        let end = self.at + n;
        while self.at < end {
            self.bump();
        }
    }

    /// Skips characters as long as `want` returns true, and returns them.
    pub fn take_while(&mut self, want: impl Fn(char) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&want) {
            self.bump();
        }
        &self.text[start..self.at]
    }

    /// Skips white space and comments.
    pub fn space(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            if self.starts("//") {
                self.take_while(|c| c != '\n');
            } else if self.starts("/*")
                && let Some(n) = self.rest()[2..].find("*/")
            {
                self.skip(n + 4);
            } else {
                // The parser reports an unterminated comment as a syntax error.
                return;
            }
        }
    }

    /// Skips white space, and `token` if it follows. Returns true if it did.
    pub fn eat(&mut self, token: &str) -> bool {
        self.space();
        let there = self.starts(token);
        if there {
            self.skip(token.len());
        }
        there
    }

    /// Skips white space, and the whole word `word` if it follows. Returns true if it did.
    pub fn eat_word(&mut self, word: &str) -> bool {
        self.space();
        let there = self.peek_word() == word;
        if there {
            self.skip(word.len());
        }
        there
    }

    pub fn need(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { self.fail(&format!("`{token}`")) }
    }

    /// The identifier at the cursor; empty if there is none.
    pub fn peek_word(&self) -> &'a str {
        let rest = self.rest();
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return "";
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    }

    /// Skips white space and an identifier, and returns the identifier.
    pub fn word(&mut self, what: &str) -> Parsed<&'a str> {
        self.space();
        let word = self.peek_word();
        if word.is_empty() {
            return self.fail(what);
        }
        self.skip(word.len());
        Ok(word)
    }

    /// Skips and returns an integer, decimal or hexadecimal, in the range of `T`.
    pub fn number<T: TryFrom<i128>>(&mut self, what: &str) -> Parsed<T> {
        self.space();
        let start = self.clone();
        let negative = self.peek() == Some('-');
        if negative {
            self.bump();
        }
        let value = if self.starts("0x") || self.starts("0X") {
            self.skip(2);
            i128::from_str_radix(self.take_while(|c| c.is_ascii_hexdigit()), 16)
        } else {
            self.take_while(|c| c.is_ascii_digit()).parse()
        };
        let value = value.ok().map(|v: i128| if negative { -v } else { v });
        match value.and_then(|v| T::try_from(v).ok()) {
            Some(v) => Ok(v),
            None => start.no_number(what),
        }
    }

    /// The error for a missing number. A word in capitals is taken as one that `-D` must define.
    fn no_number<T>(&self, what: &str) -> Parsed<T> {
        let word = self.peek_word();
        let capitals = word.len() > 1 && !word.contains(|c: char| c.is_ascii_lowercase());
        if capitals {
            return self
                .unsupported(&format!("the word `{word}` instead of {what}; -D {word}=VALUE defines it"));
        }
        self.fail(what)
    }

    /// Skips the text to `close` and `close` itself, and returns the text. There are no escapes.
    pub fn until(&mut self, close: &str, what: &str) -> Parsed<&'a str> {
        let Some(n) = self.rest().find(close) else {
            return self.fail(&format!("{what}, ended by `{close}`"));
        };
        let body = &self.rest()[..n];
        self.skip(n + close.len());
        Ok(body)
    }

    /// The same, but a backslash escapes the next character.
    pub fn quoted(&mut self, close: char, what: &str) -> Parsed<&'a str> {
        let mut escaped = false;
        for (n, c) in self.rest().char_indices() {
            if c == close && !escaped {
                let body = &self.rest()[..n];
                self.skip(n + c.len_utf8());
                return Ok(body);
            }
            escaped = c == '\\' && !escaped;
        }
        self.fail(&format!("{what}, ended by `{close}`"))
    }

    /// The error that `what` belongs to the language and is not supported.
    pub fn unsupported<T>(&self, what: &str) -> Parsed<T> {
        let found = String::new();
        Err(SyntaxError { position: self.position(), expected: what.to_owned(), found, unsupported: true })
    }

    /// The error that the text at the cursor is not `expected`.
    pub fn fail<T>(&self, expected: &str) -> Parsed<T> {
        let mut shown = self.clone();
        shown.space();
        let expected = expected.to_owned();
        Err(SyntaxError { position: shown.position(), expected, found: shown.here(), unsupported: false })
    }

    /// The text at the cursor, shortened.
    fn here(&self) -> String {
        if self.at_end() {
            return "the end of the script".to_owned();
        }
        let line = self.rest().lines().next().unwrap_or("");
        let word = line.split_whitespace().next().unwrap_or("");
        let short: String = word.chars().take(SHOWN).collect();
        format!("`{short}`")
    }
}
