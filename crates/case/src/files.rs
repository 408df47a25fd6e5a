//! Reading of the files to which a case refers: topologies, traces of a link's rate, distributions of sizes.

/// A function that returns the text of a file.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> std::io::Result<String>;

/// The largest allowed size of a file, in bytes.
const LARGEST_FILE: u64 = 64 << 20;

/// Returns the text of a regular file of at most 64 MiB. Other files are errors, because reading a pipe or a
/// device might never end.
///
/// # Errors
/// The error of the operating system; `InvalidInput` if the file is not regular or too large.
pub fn read_file(path: &std::path::Path) -> std::io::Result<String> {
    let about = std::fs::metadata(path)?;
    let wrong = |why: &str| Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
    if !about.is_file() {
        return wrong("it is not a regular file");
    }
    if about.len() > LARGEST_FILE {
        return wrong("it has more than 64 MiB");
    }
    std::fs::read_to_string(path)
}
