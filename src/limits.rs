//! Every bound of the server in one place, each named with its unit.

use std::time::Duration;

/// Largest request body, after decompression, unless `--max-body-bytes` says otherwise.
pub const BODY_BYTES_MAX: usize = 100 << 20;

/// Most elements that all metadata arrays of one GGUF file may hold together: ten times what the
/// largest vocabularies (260,000 tokens with scores, types and merges) need.
pub const GGUF_METADATA_ELEMENTS_MAX: usize = 1 << 23;

/// Largest header of a safetensors file, in bytes: the bound the format's own library sets.
pub const SAFETENSORS_HEADER_BYTES_MAX: usize = 100_000_000;

/// Largest JSON or template file of a model's folder, in bytes; the largest known
/// `tokenizer.json` files are below 40 MB and are not read through this bound.
pub const MODEL_CONFIG_BYTES_MAX: u64 = 64 << 20;

/// Work of one rendering of a chat template: instructions of minijinja, or 64 bytes of text each.
/// Some seconds; Gemma 4, whose work grows with the square, gets to 2,000 messages with it.
pub const TEMPLATE_FUEL_MAX: u64 = 20_000_000;

/// Depth of nested macros, loops and blocks in a chat template; a macro counts for several.
pub const TEMPLATE_RECURSION_MAX: usize = 200;

/// Deepest nesting of a request's JSON.
pub const JSON_DEPTH_MAX: usize = 128;

/// Most values in a request's JSON. Bounds the memory that a body of many tiny values takes.
pub const JSON_VALUES_MAX: usize = 1_000_000;

/// Longest text of an error that quotes what the client sent.
pub const ERROR_CHARS_MAX: usize = 400;

/// Most pairs of `metadata`.
pub const METADATA_PAIRS_MAX: usize = 16;

/// Longest key of `metadata`.
pub const METADATA_KEY_CHARS_MAX: usize = 64;

/// Longest value of `metadata`.
pub const METADATA_VALUE_CHARS_MAX: usize = 512;

/// Most answers to one chat request.
pub const CHOICES_MAX: usize = 16;

/// Longest name of a tool, that of its namespace not counted.
pub const TOOL_NAME_CHARS_MAX: usize = 128;

/// Longest list of skipped tools that a client is told.
pub const SKIPPED_TOOLS_BYTES_MAX: usize = 256;

/// Most `stop` strings.
pub const STOP_STRINGS_MAX: usize = 4;

/// Longest `stop` string. Text that might begin one is held back, so this also bounds the delay.
pub const STOP_CHARS_MAX: usize = 256;

/// Likeliest tokens that are told of beside a chosen one.
pub const TOP_LOGPROBS_MAX: u8 = 20;

/// Events of one answer that may wait for a slow client before its generation has to wait too.
pub const TURN_EVENTS_MAX: usize = 64;

/// Longest request id taken over from a client.
pub const REQUEST_ID_BYTES_MAX: usize = 128;

/// Different unknown request fields that the log names, so that clients cannot fill it.
pub const UNKNOWN_FIELDS_NAMED_MAX: usize = 200;

/// Longest name of an unknown request field in the log.
pub const UNKNOWN_FIELD_CHARS_MAX: usize = 64;

/// Words that a byte-level tokenizer keeps per thread with their tokens.
pub const TOKENIZER_CACHED_WORDS_MAX: usize = 4096;

/// Text that a tokenizer reads as one: longer texts are cut. The library's regular expressions
/// panic after ten million steps back, of which a run of white space takes a few for each byte.
pub const TOKENIZER_PART_BYTES_MAX: usize = 2 << 20;

/// Most ids of a vocabulary beyond the number of its tokens. A file with more is broken; the loader
/// rejects it instead of allocating a table of that size.
pub const TOKENIZER_UNUSED_IDS_MAX: usize = 1 << 16;

/// Bytes of a snapshot that are written, read and checked as one.
pub const SNAPSHOT_PIECE_BYTES: usize = 4 << 20;

/// Bytes of keys and values that may wait to be written; one snapshot that is larger may wait alone.
pub const SNAPSHOT_QUEUE_BYTES_MAX: u64 = 256 << 20;

/// Snapshots that may wait to be written, and reads that may wait for a thread.
pub const SNAPSHOT_QUEUE_LEN_MAX: usize = 64;

/// Fewer tokens than this are sooner read by the model than found on the disk.
pub const SNAPSHOT_TOKENS_MIN: usize = 16;

/// Largest header of a snapshot.
pub const SNAPSHOT_HEADER_BYTES_MAX: u64 = 16 << 20;

/// Space that snapshots leave on their disk, for the session log.
pub const SNAPSHOT_DISK_FREE_BYTES_MIN: u64 = 512 << 20;

/// Lifetime of an unstored turn's snapshot, if the request asks for one.
pub const SNAPSHOT_UNSTORED_MS: i64 = 24 * 60 * 60 * 1000;

/// Most bytes of cached parents: tokens and items of the chains that recent turns continued.
pub const PARENT_CACHE_BYTES_MAX: usize = 64 << 20;

/// Most bytes of cached prompts, as templates rendered them, for turns that continue them.
pub const PARENT_PROMPT_CACHE_BYTES_MAX: usize = 16 << 20;

/// About the longest that a step which reads prompts keeps answers waiting: seven tokens a second still
/// read fluently.
pub const DECODE_GAP_MAX: Duration = Duration::from_millis(150);
