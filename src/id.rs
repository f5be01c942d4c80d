//! Typed ids, and the token id that every layer from the tokenizer down speaks in.

use std::fmt;

/// Index of one token in a model's vocabulary.
pub type TokenId = u32;

/// Names a response: 128 random bits, written `resp_` and 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResponseId(u128);

impl ResponseId {
    /// The id made of these bits.
    pub fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The id of this response's output item at `index`, such as `msg_…_0` for the prefix `msg`.
    pub fn item(self, prefix: &str, index: usize) -> String {
        format!("{prefix}_{:032x}_{index}", self.0)
    }
}

impl fmt::Display for ResponseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resp_{:032x}", self.0)
    }
}

/// Names one HTTP request in the answer's headers and in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestId(u128);

impl RequestId {
    /// The id made of these bits.
    pub fn from_bits(bits: u128) -> Self {
        Self(bits)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "req_{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_keep_their_leading_zeros() {
        let id = ResponseId::from_bits(0xab);
        assert_eq!(id.to_string(), "resp_000000000000000000000000000000ab");
        assert_eq!(id.item("msg", 2), "msg_000000000000000000000000000000ab_2");
    }
}
