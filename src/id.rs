//! Typed ids, and the token id that every layer from the tokenizer down speaks in.

/// Index of one token in a model's vocabulary.
pub type TokenId = u32;
