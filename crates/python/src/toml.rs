//! A TOML reader that reports line and column of every key. Python's `tomllib` does not provide them, and error
//! messages need them.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use toml_edit::{Document, Item, TableLike, Value};

create_exception!(
    _native,
    TomlError,
    PyValueError,
    "Text that is not TOML: `args` are (message, line, column)."
);

/// The document as dicts, lists and scalars, and the position `(line, column)`, counted from 1, of every key and
/// element by its path, as in `("figure", 0, "kind")`. Dates become strings.
#[pyfunction]
pub fn read_toml<'py>(py: Python<'py>, text: &str) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let document = Document::parse(text).map_err(|error| {
        let (line, column) = Places::of(text).at(error.span().map_or(0, |span| span.start));
        TomlError::new_err((error.message().to_owned(), line, column))
    })?;
    let mut reader = Reader { text: Places::of(text), path: Vec::new(), places: PyDict::new(py) };
    let data = reader.table(py, document.as_table())?;
    Ok((data, reader.places))
}

/// Computes lines and columns. Keys are usually requested in the order of the text, so that counting continues from
/// the previous position. Counting from the beginning each time takes minutes for a list of a million numbers.
struct Places<'a> {
    text: &'a str,
    /// The last requested offset with its line and column, both from 1.
    last: (usize, usize, usize),
    /// Offsets of the lines.
    lines: Vec<usize>,
}

impl<'a> Places<'a> {
    fn of(text: &'a str) -> Places<'a> {
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Places { text, last: (0, 1, 1), lines: std::iter::once(0).chain(starts).collect() }
    }

    /// Line and column, from 1 and in characters, of a byte offset.
    fn at(&mut self, offset: usize) -> (usize, usize) {
        let offset = if self.text.is_char_boundary(offset) { offset } else { self.text.len() };
        let line = self.lines.partition_point(|start| *start <= offset);
        let (from, before) = match self.last {
            (last, same, column) if same == line && last <= offset => (last, column),
            _ => (self.lines[line - 1], 1),
        };
        let column = before + self.text[from..offset].chars().count();
        self.last = (offset, line, column);
        (line, column)
    }
}

struct Reader<'py, 'a> {
    text: Places<'a>,
    path: Vec<Bound<'py, PyAny>>,
    places: Bound<'py, PyDict>,
}

impl<'py> Reader<'py, '_> {
    /// Runs `read` for the next element of the path, and records its position.
    fn at<T>(
        &mut self,
        py: Python<'py>,
        step: Bound<'py, PyAny>,
        span: Option<std::ops::Range<usize>>,
        read: impl FnOnce(&mut Self) -> PyResult<T>,
    ) -> PyResult<T> {
        self.path.push(step);
        if let Some(span) = span {
            self.places.set_item(PyTuple::new(py, &self.path)?, self.text.at(span.start))?;
        }
        let result = read(self);
        self.path.pop();
        result
    }

    fn table(&mut self, py: Python<'py>, table: &dyn TableLike) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, item) in table.iter() {
            let span = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
            let step = name.into_pyobject(py)?.into_any();
            let value = self.at(py, step, span, |reader| reader.item(py, item))?;
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    fn item(&mut self, py: Python<'py>, item: &Item) -> PyResult<Bound<'py, PyAny>> {
        match item {
            Item::None => Ok(py.None().into_bound(py)),
            Item::Value(value) => self.value(py, value),
            Item::Table(table) => Ok(self.table(py, table)?.into_any()),
            Item::ArrayOfTables(tables) => {
                let list = PyList::empty(py);
                for (index, table) in tables.iter().enumerate() {
                    let step = index.into_pyobject(py)?.into_any();
                    list.append(self.at(py, step, table.span(), |reader| reader.table(py, table))?)?;
                }
                Ok(list.into_any())
            }
        }
    }

    fn value(&mut self, py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
        Ok(match value {
            Value::String(text) => text.value().into_pyobject(py)?.into_any(),
            Value::Integer(number) => number.value().into_pyobject(py)?.into_any(),
            Value::Float(number) => number.value().into_pyobject(py)?.into_any(),
            Value::Boolean(truth) => truth.value().into_pyobject(py)?.to_owned().into_any(),
            Value::Datetime(date) => date.value().to_string().into_pyobject(py)?.into_any(),
            Value::InlineTable(table) => self.table(py, table)?.into_any(),
            Value::Array(array) => {
                let list = PyList::empty(py);
                for (index, element) in array.iter().enumerate() {
                    let step = index.into_pyobject(py)?.into_any();
                    list.append(self.at(py, step, element.span(), |reader| reader.value(py, element))?)?;
                }
                list.into_any()
            }
        })
    }
}
