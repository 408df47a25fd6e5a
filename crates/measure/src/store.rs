//! Recordings on disk. A folder is written completely or not at all.
//!
//! | file | content |
//! | --- | --- |
//! | `recording.json` | header, environment, hosts, flows, devices, counters; names and checksums of the other files |
//! | `latency.parquet` | distributions: `(kind, entity, value_ns, count)` |
//! | `series.parquet` | `(time_ns, entity, one column per metric)` |
//! | `deliveries.parquet`, `completions.parquet`, `events.parquet` | one row per item |
//! | `packets.pcapng` | packets, for Wireshark |
//!
//! The bytes are a function of the recording. `recording.json` ends with its own checksum ([`seal`]).

use crate::recording::Recording;
use crate::seal::{checksum, is_whole, seal};
use crate::table::{Checksum, ParquetTable, RowSource};
use crate::{pcapng, tables};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tcpassay_units::Dur;

/// Version of the format of the folder.
const FORMAT: u64 = 2;

/// An error while writing or reading a recording: the file and the cause.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct StoreError {
    /// The file or folder.
    pub path: PathBuf,
    /// The cause.
    pub why: String,
}

impl StoreError {
    fn new(path: &Path, why: &impl ToString) -> StoreError {
        StoreError { path: path.to_owned(), why: why.to_string() }
    }
}

/// The further content of `recording.json`.
#[derive(Deserialize)]
struct Index {
    format: u64,
    files: BTreeMap<String, FileEntry>,
    series_interval_ns: Option<u64>,
}

/// The entry of another file in `recording.json`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct FileEntry {
    rows: u64,
    /// [`checksum`] of its bytes. It is verified first, because the Parquet reader may crash on damaged files.
    xxh3: String,
}

impl FileEntry {
    fn of(bytes: &[u8], rows: usize) -> FileEntry {
        FileEntry { rows: rows as u64, xxh3: checksum(bytes) }
    }
}

/// Receives a table: the name of its file, the number of rows, and a function that returns some of them.
type TableVisitor<'a> = dyn FnMut(&'static str, usize, &RowSource<'_>) -> Result<(), StoreError> + 'a;

/// Receives the name and the content of a file of a recording.
type FileSink<'a> = dyn FnMut(&str, &[u8]) -> std::io::Result<()> + 'a;

impl Recording {
    /// Writes the recording to the folder `dir`, replacing a recording that exists there. The files are first written
    /// to a temporary folder beside it, so that `dir` never contains an incomplete recording.
    ///
    /// # Errors
    /// A folder that cannot be written, or a `dir` that contains anything other than a recording.
    pub fn write(&self, dir: &Path) -> Result<(), StoreError> {
        self.write_as(dir, true)
    }

    /// As [`Recording::write`]; `events` selects whether the event log is written.
    ///
    /// # Errors
    /// As for [`Recording::write`].
    pub fn write_as(&self, dir: &Path, events: bool) -> Result<(), StoreError> {
        let Some(name) = dir.file_name() else {
            return Err(StoreError::new(dir, &"a recording needs a folder with a name"));
        };
        if dir.exists() && !dir.join("recording.json").is_file() && !is_empty_dir(dir) {
            return Err(StoreError::new(dir, &"it exists already and is not a recording"));
        }
        let beside = |suffix: &str| {
            let mut beside = std::ffi::OsString::from(".");
            beside.push(name);
            beside.push(suffix);
            dir.with_file_name(beside)
        };
        let (partial, replaced) = (beside(".partial"), beside(".replaced"));
        let cannot = |e: std::io::Error| StoreError::new(dir, &format!("cannot be written: {e}"));
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(cannot)?;
        }
        fs::create_dir_all(&partial).map_err(cannot)?;
        self.encode(&partial, events, &mut |name, bytes| fs::write(partial.join(name), bytes))?;
        remove(&replaced)?;
        if dir.exists() {
            fs::rename(dir, &replaced).map_err(|e| StoreError::new(dir, &e))?;
        }
        fs::rename(&partial, dir).map_err(|e| StoreError::new(dir, &e))?;
        remove(&replaced)
    }

    /// The text of `recording.json` without the list of other files. Nothing is written.
    ///
    /// # Errors
    /// Values that JSON cannot represent.
    pub fn index(&self) -> Result<String, StoreError> {
        let body =
            self.json(&BTreeMap::new()).map_err(|e| StoreError::new(Path::new("recording.json"), &e))?;
        Ok(body + "\n}\n")
    }

    /// A checksum of everything except the event log, which is optional. Equal recordings have equal checksums.
    ///
    /// # Errors
    /// Values that the files cannot represent.
    pub fn digest(&self) -> Result<u64, StoreError> {
        let mut sum = Checksum::default();
        sum.bytes(self.index()?.as_bytes());
        // Every run has these two lists; as columns they would be copied several times.
        for latency in &self.latencies {
            sum.bytes(latency.kind.name().as_bytes());
            sum.bytes(latency.entity.as_bytes());
            for (value, count) in latency.histogram.counts() {
                sum.word(value.as_nanos());
                sum.word(count);
            }
        }
        for entity in self.series.iter().flat_map(|series| &series.entities) {
            sum.bytes(entity.entity.as_bytes());
            sum.word(entity.first);
            for column in &entity.columns {
                sum.bytes(column.name.as_bytes());
                sum.word(column.values.len() as u64);
                column.values.iter().for_each(|value| sum.word(value.to_bits()));
            }
        }
        self.rows(false, &mut |name, rows, part| {
            sum.bytes(name.as_bytes());
            ParquetTable::digest(rows, part, &mut sum);
            Ok(())
        })?;
        let capture = self.capture().map_err(|e| StoreError::new(Path::new(pcapng::FILE), &e))?;
        sum.bytes(&capture);
        Ok(sum.0)
    }

    /// Passes every file to `put`, with `recording.json` last; `dir` is used in error messages.
    fn encode(&self, dir: &Path, events: bool, put: &mut FileSink<'_>) -> Result<(), StoreError> {
        let mut files = BTreeMap::new();
        let mut keep = |name: &str, rows: usize, write: &dyn Fn(&mut Vec<u8>) -> Result<(), String>| {
            let fail = |e: &dyn ToString| StoreError::new(&dir.join(name), &e.to_string());
            let mut bytes = Vec::new();
            write(&mut bytes).map_err(|e| fail(&e))?;
            put(name, &bytes).map_err(|e| fail(&e))?;
            files.insert(name.to_owned(), FileEntry::of(&bytes, rows));
            Ok(())
        };
        self.tables(events, &mut |name, rows, part| {
            keep(name, rows, &|out| ParquetTable::write(rows, part, out))
        })?;
        if !self.packets.is_empty() {
            keep(pcapng::FILE, self.packets.len(), &|out| {
                *out = self.capture()?;
                Ok(())
            })?;
        }
        let fail = |e: &dyn ToString| StoreError::new(&dir.join("recording.json"), &e.to_string());
        let text = seal(&self.json(&files).map_err(|e| fail(&e))?);
        put("recording.json", text.as_bytes()).map_err(|e| fail(&e))
    }

    /// Passes every table that is not empty to `show`: the name of its file, its number of rows, and a function that
    /// returns some of them.
    fn tables(&self, events: bool, show: &mut TableVisitor<'_>) -> Result<(), StoreError> {
        if !self.latencies.is_empty() {
            let rows = tables::latency_rows(&self.latencies);
            show("latency.parquet", rows.len(), &|of| tables::from_latencies(&rows[of]))?;
        }
        if let Some(series) = &self.series {
            let rows = tables::series_rows(series);
            let names = tables::series_names(series);
            let part = |of: Range<usize>| tables::from_series(series.interval, &names, &rows[of]);
            show("series.parquet", rows.len(), &part)?;
        }
        self.rows(events, show)
    }

    /// As [`Recording::tables`], for the tables with one row per event.
    fn rows(&self, events: bool, show: &mut TableVisitor<'_>) -> Result<(), StoreError> {
        if !self.deliveries.is_empty() {
            let rows = &self.deliveries;
            show("deliveries.parquet", rows.len(), &|of| tables::from_deliveries(&rows[of]))?;
        }
        if !self.completions.is_empty() {
            let rows = &self.completions;
            show("completions.parquet", rows.len(), &|of| tables::from_completions(&rows[of]))?;
        }
        if events && !self.events.is_empty() {
            let rows = &self.events;
            show("events.parquet", rows.len(), &|of| tables::from_events(rows, of))?;
        }
        Ok(())
    }

    /// `recording.json` up to its last value, with one line per key and one line per list element, so that two files
    /// can be compared line by line.
    fn json(&self, files: &BTreeMap<String, FileEntry>) -> serde_json::Result<String> {
        let mut top = BTreeMap::new();
        top.insert("format".to_owned(), Value::from(FORMAT));
        top.insert("files".to_owned(), serde_json::to_value(files)?);
        let interval = self.series.as_ref().map(|s| s.interval.as_nanos());
        top.insert("series_interval_ns".to_owned(), serde_json::to_value(interval)?);
        let Value::Object(own) = serde_json::to_value(self)? else { unreachable!("a struct is an object") };
        top.extend(own);
        let mut lines = Vec::new();
        for (key, value) in &top {
            let text = match value {
                Value::Array(items) if !items.is_empty() => {
                    let items: Vec<String> = items.iter().map(|item| format!("  {item}")).collect();
                    format!("[\n{}\n ]", items.join(",\n"))
                }
                other => other.to_string(),
            };
            lines.push(format!(" {}: {text}", Value::from(key.as_str())));
        }
        Ok(format!("{{\n{}", lines.join(",\n")))
    }

    /// Reads the recording in the folder `dir`.
    ///
    /// # Errors
    /// A file that is missing, damaged or of another version.
    pub fn read(dir: &Path) -> Result<Recording, StoreError> {
        let path = dir.join("recording.json");
        let text = fs::read_to_string(&path).map_err(|e| StoreError::new(&path, &e))?;
        let index: Index = serde_json::from_str(&text).map_err(|e| StoreError::new(&path, &e))?;
        if index.format != FORMAT {
            let why = format!("its format is {}; this version reads {FORMAT}", index.format);
            return Err(StoreError::new(&path, &why));
        }
        if !is_whole(&text) {
            return Err(StoreError::new(&path, &"the file is damaged: its checksum does not match its text"));
        }
        let mut recording: Recording = serde_json::from_str(&text).map_err(|e| StoreError::new(&path, &e))?;
        for (name, entry) in &index.files {
            let path = dir.join(name);
            let bytes = fs::read(&path).map_err(|e| StoreError::new(&path, &e))?;
            let found = FileEntry::of(&bytes, 0);
            if found.xxh3 != entry.xxh3 {
                let why = "the file is damaged or belongs to another recording: its checksum is not that in recording.json";
                return Err(StoreError::new(&path, &why));
            }
            let read = recording.read_file(name, &path, index.series_interval_ns);
            let have = read.map_err(|why| StoreError::new(&path, &why))?;
            if have != entry.rows {
                let why = format!("the table has {have} rows, but recording.json states {}", entry.rows);
                return Err(StoreError::new(&path, &why));
            }
        }
        Ok(recording)
    }

    fn read_file(&mut self, name: &str, path: &Path, interval: Option<u64>) -> Result<u64, String> {
        let say = |e: parquet::errors::ParquetError| e.to_string();
        if name == pcapng::FILE {
            let file = fs::File::open(path).map_err(|e| e.to_string())?;
            let (interfaces, packets) = pcapng::read(BufReader::new(file))?;
            if interfaces != self.interfaces {
                return Err("the interfaces of the capture are not those of recording.json".to_owned());
            }
            self.packets = packets;
            return Ok(self.packets.len() as u64);
        }
        let table = ParquetTable::read(path).map_err(say)?;
        match name {
            "latency.parquet" => self.latencies = tables::to_latencies(&table).map_err(say)?,
            "series.parquet" => {
                let interval = interval.ok_or("recording.json does not contain the interval")?;
                self.series = Some(tables::to_series(&table, Dur::from_nanos(interval)).map_err(say)?);
            }
            "deliveries.parquet" => self.deliveries = tables::to_deliveries(&table).map_err(say)?,
            "completions.parquet" => self.completions = tables::to_completions(&table).map_err(say)?,
            "events.parquet" => self.events = tables::to_events(&table).map_err(say)?,
            _ => return Err("recording.json lists a table that this version does not know".to_owned()),
        }
        Ok(table.rows() as u64)
    }
}

fn is_empty_dir(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

fn remove(dir: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::new(dir, &format!("cannot be removed: {e}")))
        }
        _ => Ok(()),
    }
}
