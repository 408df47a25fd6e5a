//! Frames: the length of a content (4 bytes, little-endian), its kind (1 byte), the content.
//!
//! Frames of the kind [`JSON`] are messages; frames of the kind [`BYTES`] are the bytes of files. Frames are read exactly, byte by byte
//! as they arrive, so that several processes can read from one connection after each other.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

/// The length of the header of a frame in bytes.
pub const HEADER: usize = 5;
/// The longest content of a JSON frame in bytes.
pub const LONGEST: usize = 16 << 20;
/// The longest content of a frame with bytes of a file.
pub const CHUNK: usize = 1 << 20;
/// The kind of a frame with a message.
pub const JSON: u8 = 0;
/// The kind of a frame with bytes of a file.
pub const BYTES: u8 = 1;

/// Reads a message. `None` is the end of the connection.
///
/// # Errors
/// A frame that is too long or is no message.
pub fn receive<M: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<M>> {
    let Some(content) = read_frame(from)? else { return Ok(None) };
    let wrong = |e: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, format!("a message: {e}"));
    serde_json::from_slice(&content).map(Some).map_err(wrong)
}

/// The content of a frame of JSON; `None` at the end of the connection.
fn read_frame(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; HEADER];
    match from.read_exact(&mut header) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let [a, b, c, d, kind] = header;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if kind != JSON || length > LONGEST {
        let why = format!("a frame of the kind {kind} with {length} bytes; allowed are {LONGEST} of JSON");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    // The length is not trusted with memory before the bytes are there.
    let mut content = Vec::new();
    from.take(length as u64).read_to_end(&mut content)?;
    Ok((content.len() == length).then_some(content))
}

/// Sends a message.
///
/// # Errors
/// The connection ended.
pub fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let content = serde_json::to_vec(message)?;
    write_frame(to, JSON, &content)?;
    to.flush()
}

/// Sends the bytes of a file.
///
/// # Errors
/// The connection ended.
pub fn send_bytes(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(CHUNK).try_for_each(|chunk| write_frame(to, BYTES, chunk))?;
    to.flush()
}

fn write_frame(to: &mut impl Write, kind: u8, content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a message above 4 GiB"))?;
    let [a, b, c, d] = length.to_le_bytes();
    to.write_all(&[a, b, c, d, kind])?;
    to.write_all(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FromController;
    use proptest::prelude::*;

    fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, kind, content).unwrap();
        bytes
    }

    fn read(mut bytes: &[u8]) -> io::Result<Option<FromController>> {
        receive(&mut bytes)
    }

    #[test]
    fn frames_are_read_exactly_one_after_the_other() {
        let mut bytes = frame(JSON, br#"{"kind":"clock"}"#);
        bytes.extend(frame(JSON, br#"{"kind":"start","at":7}"#));
        let mut from = &bytes[..];
        assert_eq!(receive(&mut from).unwrap(), Some(FromController::Clock {}));
        assert_eq!(receive(&mut from).unwrap(), Some(FromController::Start { at: 7 }));
        assert_eq!(receive::<FromController>(&mut from).unwrap(), None);
    }

    #[test]
    fn a_frame_that_ends_early_is_the_end_of_the_connection() {
        let bytes = frame(JSON, br#"{"kind":"clock"}"#);
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]).unwrap(), None, "{end}");
        }
    }

    #[test]
    fn lengths_kinds_and_contents_that_are_no_message_are_errors() {
        for bytes in [
            vec![0xff, 0xff, 0xff, 0xff, JSON],
            frame(BYTES, b"{}"),
            frame(7, b"{}"),
            frame(JSON, b"nonsense"),
            frame(JSON, br#"{"kind":"format_disk"}"#),
            frame(JSON, br#"{"kind":"start","at":-1}"#),
            frame(JSON, br#"{"kind":"start","at":1,"more":2}"#),
            frame(JSON, "[".repeat(100_000).as_bytes()),
        ] {
            assert!(read(&bytes).is_err(), "{:?}", &bytes[..bytes.len().min(40)]);
        }
    }

    #[test]
    fn a_file_is_sent_in_frames_of_a_mebibyte() {
        let mut bytes = Vec::new();
        send_bytes(&mut bytes, &vec![1; CHUNK + 3]).unwrap();
        assert_eq!(bytes.len(), CHUNK + 3 + 2 * 5);
        assert_eq!(bytes[..5], [0, 0, 16, 0, BYTES]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_the_end_or_an_error_and_no_more_than_one_frame_is_read(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut from = &bytes[..];
            let message = receive::<FromController>(&mut from);
            let read = bytes.len() - from.len();
            prop_assert!(read <= bytes.len());
            if matches!(message, Ok(Some(_))) {
                let length = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                prop_assert_eq!(read, HEADER + length as usize);
            }
        }

        #[test]
        fn a_valid_message_with_changed_bytes_is_a_message_or_an_error(
            changes in prop::collection::vec((0usize..1000, any::<u8>()), 1..6),
        ) {
            let mut bytes = frame(JSON, br#"{"kind":"inspect","interfaces":["eth1","eth2"]}"#);
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            if let Ok(Some(message)) = read(&bytes) {
                let kept = matches!(message, FromController::Inspect { .. });
                prop_assert!(kept, "{message:?}");
            }
        }
    }
}
