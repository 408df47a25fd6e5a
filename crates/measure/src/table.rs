//! Columns of plain values in a Parquet file. Four types of columns suffice, so Arrow is not used.
//!
//! The bytes of a file are a function of its rows: they contain no time stamp and no machine name.

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A column of a table. Absent values are null in the file.
#[derive(Clone, PartialEq, Debug)]
pub enum ColumnData {
    /// Integers below 2^63.
    Whole(Vec<Option<u64>>),
    /// Floating-point numbers; NaN is absent.
    Real(Vec<f64>),
    /// Texts.
    Text(Vec<ByteArray>),
    /// Texts that may be absent.
    Maybe(Vec<Option<String>>),
    /// Booleans.
    Flag(Vec<bool>),
}

/// Named columns of equal length.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ParquetTable(pub Vec<(String, ColumnData)>);

/// A Parquet file with these columns, which must have equal lengths.
///
/// # Errors
/// Numbers of 2^63 or more.
pub fn parquet(columns: Vec<(String, ColumnData)>) -> std::result::Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let table = ParquetTable(columns);
    let header = table.0.iter().map(|(name, values)| (name.clone(), values.empty())).collect();
    ParquetTable::write_table(&ParquetTable(header), std::iter::once(table), &mut out)
        .map_err(|e| e.to_string())?;
    Ok(out)
}

/// Number of rows of a row group, which a reader holds in memory at once.
const GROUP: usize = 1 << 18;

/// Returns some rows of a table.
pub(crate) type RowSource<'a> = dyn Fn(Range<usize>) -> ParquetTable + 'a;

fn groups(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(GROUP).map(move |first| first..rows.min(first + GROUP))
}

/// FNV-1a over 64-bit words with a rotation after each word, so that every bit influences every bit of the checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Checksum(pub u64);

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    /// Adds a number.
    pub fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29);
    }

    /// Adds bytes and their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }
}

impl ColumnData {
    fn len(&self) -> usize {
        match self {
            ColumnData::Whole(v) => v.len(),
            ColumnData::Real(v) => v.len(),
            ColumnData::Text(v) => v.len(),
            ColumnData::Maybe(v) => v.len(),
            ColumnData::Flag(v) => v.len(),
        }
    }

    fn empty(&self) -> ColumnData {
        match self {
            ColumnData::Whole(_) => ColumnData::Whole(Vec::new()),
            ColumnData::Real(_) => ColumnData::Real(Vec::new()),
            ColumnData::Text(_) => ColumnData::Text(Vec::new()),
            ColumnData::Maybe(_) => ColumnData::Maybe(Vec::new()),
            ColumnData::Flag(_) => ColumnData::Flag(Vec::new()),
        }
    }

    fn schema(&self, name: &str) -> Result<Arc<Type>> {
        let (physical, repetition) = match self {
            ColumnData::Whole(_) => (Physical::INT64, Repetition::OPTIONAL),
            ColumnData::Real(_) => (Physical::DOUBLE, Repetition::OPTIONAL),
            ColumnData::Text(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED),
            ColumnData::Maybe(_) => (Physical::BYTE_ARRAY, Repetition::OPTIONAL),
            ColumnData::Flag(_) => (Physical::BOOLEAN, Repetition::REQUIRED),
        };
        let converted =
            if physical == Physical::BYTE_ARRAY { ConvertedType::UTF8 } else { ConvertedType::NONE };
        Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_converted_type(converted)
            .build()
            .map(Arc::new)
    }

    fn digest(&self, sum: &mut Checksum) {
        sum.word(self.len() as u64);
        match self {
            ColumnData::Whole(v) => v.iter().for_each(|x| sum.word(x.unwrap_or(u64::MAX))),
            ColumnData::Real(v) => v.iter().for_each(|x| sum.word(x.to_bits())),
            ColumnData::Text(v) => v.iter().for_each(|x| sum.bytes(x.data())),
            ColumnData::Maybe(v) => {
                for x in v {
                    sum.bytes(x.as_deref().map_or(b"\0", str::as_bytes));
                }
            }
            ColumnData::Flag(v) => v.iter().for_each(|x| sum.word(u64::from(*x))),
        }
    }

    fn write(&self, column: &mut SerializedColumnWriter<'_>) -> Result<()> {
        match self {
            ColumnData::Whole(v) => {
                let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                let signed = |x: u64| i64::try_from(x).map_err(|_| bad(format!("{x} is beyond 2^63")));
                let values = v.iter().flatten().map(|x| signed(*x)).collect::<Result<Vec<i64>>>()?;
                column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            ColumnData::Real(v) => {
                let levels: Vec<i16> = v.iter().map(|x| i16::from(!x.is_nan())).collect();
                let values: Vec<f64> = v.iter().copied().filter(|x| !x.is_nan()).collect();
                column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
            ColumnData::Text(v) => {
                column.typed::<ByteArrayType>().write_batch(v, None, None)?;
            }
            ColumnData::Maybe(v) => {
                let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                let values: Vec<ByteArray> =
                    v.iter().flatten().map(|x| ByteArray::from(x.as_str())).collect();
                column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
            ColumnData::Flag(v) => {
                column.typed::<BoolType>().write_batch(v, None, None)?;
            }
        }
        Ok(())
    }
}

fn bad(why: String) -> ParquetError {
    ParquetError::General(why)
}

impl ParquetTable {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.0.first().map_or(0, |(_, values)| values.len())
    }

    /// Writes a file with `rows` rows, one row group at a time, so that a long log is not in memory twice. An empty
    /// table still declares its columns.
    pub fn write(rows: usize, part: &RowSource<'_>, out: &mut Vec<u8>) -> std::result::Result<(), String> {
        ParquetTable::write_table(&part(0..0), groups(rows).map(part), out).map_err(|e| e.to_string())
    }

    /// Adds the names and values of the columns to a checksum.
    pub fn digest(rows: usize, part: &RowSource<'_>, sum: &mut Checksum) {
        for table in groups(rows).map(part) {
            for (name, values) in &table.0 {
                sum.bytes(name.as_bytes());
                values.digest(sum);
            }
        }
    }

    fn write_table(
        header: &ParquetTable,
        groups: impl Iterator<Item = ParquetTable>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let fields = header.0.iter().map(|(name, values)| values.schema(name));
        let schema = Type::group_type_builder("row").with_fields(fields.collect::<Result<_>>()?).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("tcpassay".to_owned())
            .build();
        let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        for group in groups {
            group.write_group(writer.next_row_group()?)?;
        }
        writer.close()?;
        Ok(())
    }

    fn write_group(&self, mut group: SerializedRowGroupWriter<'_, &mut Vec<u8>>) -> Result<()> {
        let rows = self.rows();
        for (name, values) in &self.0 {
            assert_eq!(values.len(), rows, "column {name} is as long as the others");
            let mut column = group.next_column()?.expect("the schema has this column");
            values.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Reads a table. The order of columns does not matter, and unknown columns are allowed.
    pub fn read(path: &Path) -> Result<ParquetTable> {
        let file = File::open(path).map_err(|e| ParquetError::External(Box::new(e)))?;
        let reader = SerializedFileReader::new(file)?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let mut table = ParquetTable::default();
        for column in schema.columns() {
            let values = match column.physical_type() {
                Physical::INT64 => ColumnData::Whole(Vec::new()),
                Physical::DOUBLE => ColumnData::Real(Vec::new()),
                Physical::BYTE_ARRAY => ColumnData::Text(Vec::new()),
                Physical::BOOLEAN => ColumnData::Flag(Vec::new()),
                other => return Err(bad(format!("column {} has the type {other}", column.name()))),
            };
            table.0.push((column.name().to_owned(), values));
        }
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group)?;
            for (at, (name, values)) in table.0.iter_mut().enumerate() {
                read_column(name, group.get_column_reader(at)?, values)?;
            }
        }
        let rows = table.rows();
        match table.0.iter().find(|(_, values)| values.len() != rows) {
            Some((name, _)) => Err(bad(format!("column {name} is not as long as the others"))),
            None => Ok(table),
        }
    }

    /// Whether there is a column of this name.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }

    fn find(&self, name: &str) -> Result<&ColumnData> {
        let found = self.0.iter().find(|(have, _)| have == name);
        found.map(|(_, values)| values).ok_or_else(|| bad(format!("there is no column {name}")))
    }

    /// The integers of a column.
    pub fn whole(&self, name: &str) -> Result<&[Option<u64>]> {
        match self.find(name)? {
            ColumnData::Whole(values) => Ok(values),
            _ => Err(bad(format!("column {name} does not contain integers"))),
        }
    }

    /// The integers of a column without nulls, converted to `T`.
    pub fn required<T: TryFrom<u64>>(&self, name: &str) -> Result<Vec<T>> {
        let fits = |x: &Option<u64>| x.and_then(|x| T::try_from(x).ok());
        let values = self.whole(name)?.iter().map(fits).collect::<Option<Vec<T>>>();
        values.ok_or_else(|| bad(format!("column {name} has a value that is absent or too large")))
    }

    /// The texts of a column.
    pub fn text(&self, name: &str) -> Result<Vec<&str>> {
        match self.find(name)? {
            ColumnData::Text(values) => values.iter().map(|value| value.as_utf8()).collect(),
            _ => Err(bad(format!("column {name} does not contain text"))),
        }
    }

    /// The flags of a column.
    pub fn flag(&self, name: &str) -> Result<&[bool]> {
        match self.find(name)? {
            ColumnData::Flag(values) => Ok(values),
            _ => Err(bad(format!("column {name} does not contain booleans"))),
        }
    }
}

fn read_column(name: &str, reader: ColumnReader, into: &mut ColumnData) -> Result<()> {
    match (reader, into) {
        (ColumnReader::Int64ColumnReader(reader), ColumnData::Whole(into)) => {
            for value in read_values(reader)? {
                let unsigned =
                    |x: i64| u64::try_from(x).map_err(|_| bad(format!("column {name} contains {x}")));
                into.push(value.map(unsigned).transpose()?);
            }
        }
        (ColumnReader::DoubleColumnReader(reader), ColumnData::Real(into)) => {
            into.extend(read_values(reader)?.into_iter().map(|x| x.unwrap_or(f64::NAN)));
        }
        (ColumnReader::ByteArrayColumnReader(reader), ColumnData::Text(into)) => {
            for value in read_values(reader)? {
                let value = value.ok_or_else(|| bad(format!("column {name} has a missing text")))?;
                value.as_utf8().map_err(|e| bad(format!("column {name}: {e}")))?;
                into.push(value);
            }
        }
        (ColumnReader::BoolColumnReader(reader), ColumnData::Flag(into)) => {
            let values = read_values(reader)?.into_iter().collect::<Option<Vec<bool>>>();
            into.extend(values.ok_or_else(|| bad(format!("column {name} has a missing boolean")))?);
        }
        _ => return Err(bad(format!("column {name} changes its type"))),
    }
    Ok(())
}

fn read_values<T: DataType>(mut reader: ColumnReaderImpl<T>) -> Result<Vec<Option<T::T>>> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let mut rows = 0;
    loop {
        let (read, _, _) = reader.read_records(GROUP, Some(&mut levels), None, &mut values)?;
        rows += read;
        if read == 0 {
            break;
        }
    }
    if levels.is_empty() {
        // Required columns have no definition levels.
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    let column: Vec<Option<T::T>> =
        levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect();
    if column.len() == rows { Ok(column) } else { Err(bad("a column has rows without levels".to_owned())) }
}
