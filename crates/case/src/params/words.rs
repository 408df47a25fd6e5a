//! Words of parameters with their typed values.

use super::kind::Setting;

/// The words of a parameter, each with its value. A table declares the two together, so that a
/// parsed value is never compared with a text again.
#[derive(Debug)]
pub struct Words<T: 'static, const N: usize> {
    names: [&'static str; N],
    values: [T; N],
}

impl<T: Copy, const N: usize> Words<T, N> {
    /// The words in the order in which messages and documentation list them.
    pub const fn new(pairs: [(&'static str, T); N]) -> Words<T, N> {
        let mut names = [""; N];
        let mut values = [pairs[0].1; N];
        let mut i = 0;
        while i < N {
            (names[i], values[i]) = pairs[i];
            i += 1;
        }
        Words { names, values }
    }

    /// The words alone.
    pub const fn names(&'static self) -> &'static [&'static str] {
        &self.names
    }

    /// The values, in the order of the words.
    pub const fn values(&self) -> &[T] {
        &self.values
    }

    /// The value of a setting that is one of the words. Panics on any other setting: the parser accepts nothing else.
    pub fn of(&self, setting: &Setting) -> T {
        let at = match setting {
            Setting::Word(word) => self.names.iter().position(|name| name == word),
            _ => None,
        };
        self.values[at.unwrap_or_else(|| panic!("{setting} is not one of {:?}", self.names))]
    }
}

impl<T: Copy + PartialEq, const N: usize> Words<T, N> {
    /// The word of a value. Panics if the value has no word.
    pub fn name_of(&self, value: T) -> &'static str {
        let at = self.values.iter().position(|known| *known == value);
        self.names[at.expect("each value of the type has a word")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_values_are_converted_in_both_directions() {
        static COLORS: Words<u8, 2> = Words::new([("red", 1), ("blue", 2)]);
        assert_eq!(COLORS.names(), ["red", "blue"]);
        assert_eq!(COLORS.of(&Setting::Word("blue")), 2);
        assert_eq!(COLORS.name_of(1), "red");
    }
}
