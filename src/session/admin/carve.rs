//! Carving: collects values from a damaged file without sled.
//!
//! An envelope begins with magic bytes, contains its key and has a checksum. So a scan of every
//! byte finds all intact envelopes. The result may include old versions of values, and values of
//! deleted sessions that are not yet overwritten.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use super::archive::ArchiveWriter;
use crate::session::{
    error::LogError,
    format::codec::{self, HEADER_LEN_BYTES, MAGIC, VALUE_LEN_MAX_BYTES},
};

const WINDOW_LEN_BYTES: usize = 1 << 20;

/// Writes every intact envelope of a file into an archive. Returns their number. The file is only
/// read. No server may have opened it since the damage, because sled overwrites damaged parts.
///
/// # Errors
/// From reading the file or writing the archive.
pub fn carve(damaged: &Path, out: impl Write) -> Result<u64, LogError> {
    let failed =
        |error: io::Error| LogError::Unavailable(format!("reading {}: {error}", damaged.display()));
    let mut file = File::open(damaged).map_err(failed)?;
    let mut archive = ArchiveWriter::carved(out)?;
    let mut window = Vec::with_capacity(WINDOW_LEN_BYTES + VALUE_LEN_MAX_BYTES);
    loop {
        let before = window.len();
        let limit = WINDOW_LEN_BYTES as u64;
        Read::by_ref(&mut file)
            .take(limit)
            .read_to_end(&mut window)
            .map_err(failed)?;
        let at_end = window.len() == before;
        // An envelope near the end of the window may continue in the next window.
        let until = if at_end {
            window.len()
        } else {
            before_last_value(&window)
        };
        let carved = carve_window(&window, until, &mut archive)?;
        if at_end {
            return archive.end();
        }
        window.drain(..carved);
    }
}

fn before_last_value(window: &[u8]) -> usize {
    window.len().saturating_sub(VALUE_LEN_MAX_BYTES)
}

/// Writes the envelopes that begin before `until`. Returns the offset where the next window begins.
fn carve_window<W: Write>(
    window: &[u8],
    until: usize,
    archive: &mut ArchiveWriter<W>,
) -> Result<usize, LogError> {
    let mut at = 0;
    while at < until {
        match whole_envelope(&window[at..]) {
            Some(envelope) => {
                archive.push(envelope)?;
                at += envelope.len();
            }
            None => at += 1,
        }
    }
    Ok(at)
}

fn whole_envelope(bytes: &[u8]) -> Option<&[u8]> {
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    let len = codec::envelope_len(bytes).ok()?;
    if !(HEADER_LEN_BYTES..=VALUE_LEN_MAX_BYTES).contains(&len) {
        return None;
    }
    let envelope = bytes.get(..len)?;
    codec::open_any(envelope).ok()?;
    Some(envelope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{
        admin::archive::Archive,
        format::record::{GcMark, seal_record},
        keys::{Key, SessionId},
        store::ReadStore as _,
    };

    #[test]
    fn envelopes_are_found_between_junk_and_over_window_ends() {
        let dir = tempfile::tempdir().unwrap();
        let (damaged, archive) = (dir.path().join("db"), dir.path().join("archive"));
        let mut bytes = Vec::new();
        let id = |n: u32| SessionId::from_bits(u128::from(n));
        let count = 40_000;
        for n in 0..count {
            bytes.extend_from_slice(&[0xa7, 0x53, 0xa7, n as u8]);
            bytes.extend_from_slice(&seal_record(&Key::gc_mark(id(n)), &GcMark {}, 1));
        }
        let half = seal_record(&Key::gc_mark(id(count)), &GcMark {}, 1);
        bytes.extend_from_slice(&half[..half.len() - 1]);
        std::fs::write(&damaged, bytes).unwrap();
        let carved = carve(&damaged, File::create(&archive).unwrap()).unwrap();
        assert_eq!(carved, u64::from(count));
        let archive = Archive::open(&archive).unwrap();
        assert!(!archive.whole);
        for n in 0..count {
            assert!(archive.get(&Key::gc_mark(id(n))).unwrap().is_some(), "{n}");
        }
    }
}
