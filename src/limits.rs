//! Every bound of the server in one place, each named with its unit.

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
