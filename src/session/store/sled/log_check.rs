//! Checks sled's log file without sled, and without changing the file.
//!
//! On opening, sled replays the segments written since its last snapshot. At an unreadable message
//! it skips the rest of the segment, or drops all later segments and overwrites them with zeros. So
//! this check runs before sled opens the file.
//!
//! Layout of sled 0.34: segments of 512 KiB. Each has a 20-byte header (crc32, log position, stable
//! position; all complemented), then messages. A message is crc32, kind, three variable-length
//! numbers (length, segment number, page), and the body. The bytes after the last message of the
//! log are undefined.

use std::{fs, fs::File, os::unix::fs::FileExt, path::Path};

use super::files;
use crate::session::store::StorageError;

const SEGMENT_LEN_BYTES: u64 = 512 << 10;
const SEGMENT_HEADER_LEN_BYTES: usize = 20;
/// The maximum length of a message header. No message begins closer to the end of a segment.
const MESSAGE_HEADER_LEN_MAX_BYTES: usize = 32;
const KIND_UNWRITTEN: u8 = 0;
const KIND_CAP: u8 = 2;
const KIND_LAST: u8 = 11;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogCheck {
    /// The log position after the last message.
    pub(super) end: u64,
    /// A sentence on the first damage, if any.
    pub(super) damage: Option<String>,
}

/// Checks the part of the file that sled will replay.
pub(super) fn check(sled_dir: &Path) -> Result<LogCheck, StorageError> {
    let path = sled_dir.join("db");
    let file = File::open(&path).map_err(files::failed("opening", &path))?;
    let replayed_from = summary_position(sled_dir)? / SEGMENT_LEN_BYTES * SEGMENT_LEN_BYTES;
    let (mut segments, mut damage) = segment_headers(&file, &path)?;
    segments.retain(|segment| segment.position >= replayed_from);
    segments.sort_by_key(|segment| segment.position);
    let mut end = replayed_from;
    let last = segments.len().saturating_sub(1);
    for (index, segment) in segments.iter().enumerate() {
        let bytes = read_at(&file, segment.offset, SEGMENT_LEN_BYTES as usize, &path)?;
        let scanned = scan_messages(&bytes, segment.position / SEGMENT_LEN_BYTES);
        end = segment.position + scanned.len as u64;
        let cut_short =
            !scanned.full && (index < last || has_later_message(&bytes, segment, scanned.len));
        if cut_short && damage.is_none() {
            let at = segment.offset + scanned.len as u64;
            damage = Some(format!("{} is damaged at byte {at}", path.display()));
        }
    }
    Ok(LogCheck { end, damage })
}

/// Returns the log position up to which sled's newest snapshot covers the file; 0 without a
/// snapshot.
fn summary_position(sled_dir: &Path) -> Result<u64, StorageError> {
    let mut newest = 0;
    for entry in fs::read_dir(sled_dir).map_err(files::failed("listing", sled_dir))? {
        let name = entry
            .map_err(files::failed("listing", sled_dir))?
            .file_name();
        let position = name.to_str().and_then(|name| name.strip_prefix("snap."));
        let position = position.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        newest = newest.max(position.unwrap_or(0));
    }
    Ok(newest)
}

struct Segment {
    /// The segment's byte offset in the file.
    offset: u64,
    /// The segment's position in the log.
    position: u64,
}

/// Returns the segments with a valid header, and a sentence on the first invalid header.
fn segment_headers(
    file: &File,
    path: &Path,
) -> Result<(Vec<Segment>, Option<String>), StorageError> {
    let len = file
        .metadata()
        .map_err(files::failed("reading the length of", path))?
        .len();
    let mut segments = Vec::new();
    let mut damage = None;
    for offset in (0..len).step_by(SEGMENT_LEN_BYTES as usize) {
        let header = read_at(file, offset, SEGMENT_HEADER_LEN_BYTES, path)?;
        match parse_segment_header(&header) {
            Some(position) => segments.push(Segment { offset, position }),
            None if header.iter().all(|byte| *byte == 0) => {}
            None => {
                damage.get_or_insert(format!(
                    "{} is damaged at byte {offset}: bad segment header",
                    path.display()
                ));
            }
        }
    }
    Ok((segments, damage))
}

fn parse_segment_header(header: &[u8]) -> Option<u64> {
    let (crc, rest) = header.split_at_checked(4)?;
    let crc = u32::from_le_bytes(crc.try_into().ok()?) ^ u32::MAX;
    if rest.len() != SEGMENT_HEADER_LEN_BYTES - 4 || crc32fast::hash(rest) != crc {
        return None;
    }
    let position = i64::from_le_bytes(rest[..8].try_into().ok()?) ^ i64::MAX;
    let position = u64::try_from(position).ok()?;
    position
        .is_multiple_of(SEGMENT_LEN_BYTES)
        .then_some(position)
}

/// Reads up to `len` bytes; fewer at the end of the file.
fn read_at(file: &File, offset: u64, len: usize, path: &Path) -> Result<Vec<u8>, StorageError> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        let read = file.read_at(&mut bytes[filled..], offset + filled as u64);
        match read.map_err(files::failed("reading", path))? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

struct ScannedSegment {
    /// Length of the header and the whole messages after it, in bytes.
    len: usize,
    /// True if no further message fits.
    full: bool,
}

/// Follows the messages of a segment up to the first unreadable one.
fn scan_messages(segment: &[u8], number: u64) -> ScannedSegment {
    let mut len = SEGMENT_HEADER_LEN_BYTES;
    let last_start = SEGMENT_LEN_BYTES as usize - MESSAGE_HEADER_LEN_MAX_BYTES;
    while len <= last_start {
        match parse_message(segment.get(len..).unwrap_or_default(), number) {
            Some((message_len, kind)) => {
                len += message_len;
                if kind == KIND_CAP {
                    return ScannedSegment { len, full: true };
                }
            }
            None => return ScannedSegment { len, full: false },
        }
    }
    ScannedSegment { len, full: true }
}

/// Returns length and kind of the undamaged message of segment `number` at the start of `bytes`.
fn parse_message(bytes: &[u8], number: u64) -> Option<(usize, u8)> {
    let stored = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    let kind = *bytes.get(4)?;
    if kind == KIND_UNWRITTEN || kind > KIND_LAST {
        return None;
    }
    let mut header_len = 5;
    let mut numbers = [0; 3];
    for value in &mut numbers {
        let (parsed, len) = parse_number(bytes.get(header_len..)?)?;
        *value = parsed;
        header_len += len;
    }
    let [body_len, segment_number, _page] = numbers;
    if segment_number != number {
        return None;
    }
    let end = header_len.checked_add(usize::try_from(body_len).ok()?)?;
    let body = bytes.get(header_len..end)?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(body);
    hasher.update(&bytes[4..header_len]);
    (hasher.finalize() ^ u32::MAX == stored).then_some((end, kind))
}

fn parse_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let byte = |index: usize| bytes.get(index).map(|byte| u64::from(*byte));
    Some(match first {
        0..=240 => (u64::from(first), 1),
        241..=248 => (240 + 256 * (u64::from(first) - 241) + byte(1)?, 2),
        249 => (2288 + 256 * byte(1)? + byte(2)?, 3),
        longer => {
            let len = usize::from(longer) - 247;
            let digits = bytes.get(1..=len)?;
            (
                digits
                    .iter()
                    .rev()
                    .fold(0, |sum, digit| sum << 8 | u64::from(*digit)),
                len + 1,
            )
        }
    })
}

/// True if a message of the same segment is readable after `from`. The log then did not end at
/// `from`.
fn has_later_message(bytes: &[u8], segment: &Segment, from: usize) -> bool {
    let number = segment.position / SEGMENT_LEN_BYTES;
    (from + 1..bytes.len()).any(|at| parse_message(&bytes[at..], number).is_some())
}
