//! Macros that declare types of messages. A declaration is a type for serde, and its description as data, from which
//! `tools/interface.py` generates the types of Python.

use serde::Serialize;

/// A field of a message or of a record.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// The name.
    pub name: &'static str,
    /// The type, as in Rust.
    #[serde(rename = "type")]
    pub kind: String,
    /// The documentation.
    pub doc: String,
}

/// A message, or a record that messages contain.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct RecordDeclaration {
    /// The name of the type.
    pub name: &'static str,
    /// The documentation.
    pub doc: String,
    /// The fields, in the order of the declaration.
    pub fields: Vec<Field>,
}

/// The messages of one side.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct UnionDeclaration {
    /// The name of the type.
    pub name: &'static str,
    /// The documentation.
    pub doc: String,
    /// The messages.
    pub messages: Vec<RecordDeclaration>,
}

/// A set of words.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct WordsDeclaration {
    /// The name of the type.
    pub name: &'static str,
    /// The documentation.
    pub doc: String,
    /// The words.
    pub words: Vec<&'static str>,
}

/// The lines of a documentation as one text.
pub fn text(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// The name of a type without spaces.
pub fn compact(kind: &str) -> String {
    kind.split_whitespace().collect()
}

/// The description of a list of fields.
macro_rules! fields {
    ($($(#[doc = $about:literal])* $field:ident: $kind:ty),*) => {
        vec![$($crate::declare::Field {
            name: stringify!($field),
            kind: $crate::declare::compact(stringify!($kind)),
            doc: $crate::declare::text(&[$($about),*]),
        }),*]
    };
}

/// Declares the messages of one side: JSON objects with the field `kind`.
macro_rules! messages {
    ($(#[doc = $doc:literal])* enum $name:ident {
        $($(#[doc = $said:literal])* $kind:ident { $($(#[doc = $about:literal])* $field:ident: $type:ty),* $(,)? }),* $(,)?
    }) => {
        $(#[doc = $doc])*
        #[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
        #[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
        pub enum $name {
            $($(#[doc = $said])* $kind { $($(#[doc = $about])* $field: $type),* }),*
        }

        impl $name {
            /// The description of the messages.
            pub fn declaration() -> $crate::declare::UnionDeclaration {
                $crate::declare::UnionDeclaration {
                    name: stringify!($name),
                    doc: $crate::declare::text(&[$($doc),*]),
                    messages: vec![$($crate::declare::RecordDeclaration {
                        name: stringify!($kind),
                        doc: $crate::declare::text(&[$($said),*]),
                        fields: $crate::declare::fields![$($(#[doc = $about])* $field: $type),*],
                    }),*],
                }
            }
        }
    };
}

/// Declares a record that messages contain: a JSON object with exactly these fields.
macro_rules! record {
    ($(#[doc = $doc:literal])* struct $name:ident { $($(#[doc = $about:literal])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[doc = $doc])*
        #[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[doc = $about])* pub $field: $type),* }

        impl $name {
            /// The description of the record.
            pub fn declaration() -> $crate::declare::RecordDeclaration {
                $crate::declare::RecordDeclaration {
                    name: stringify!($name),
                    doc: $crate::declare::text(&[$($doc),*]),
                    fields: $crate::declare::fields![$($(#[doc = $about])* $field: $type),*],
                }
            }
        }
    };
}

/// Declares a set of words.
macro_rules! words {
    ($(#[doc = $doc:literal])* enum $name:ident { $($(#[doc = $said:literal])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[doc = $doc])*
        #[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[doc = $said])* #[serde(rename = $word)] $variant),* }

        impl $name {
            /// The word in messages.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }

            /// The description of the words.
            pub fn declaration() -> $crate::declare::WordsDeclaration {
                $crate::declare::WordsDeclaration {
                    name: stringify!($name),
                    doc: $crate::declare::text(&[$($doc),*]),
                    words: vec![$($word),*],
                }
            }
        }
    };
}

pub(crate) use {fields, messages, record, words};
