//! Files that a case names: topologies, traces of a link's rate, traffic.

/// Text of a file that a case names.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> std::io::Result<String>;

/// Bytes that a file that a case names may have.
const LARGEST_FILE: u64 = 64 << 20;

/// Text of a regular file of at most 64 MiB: reading a pipe or a device might never end.
///
/// # Errors
/// What the system says, and `InvalidInput` for what is not such a file.
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
