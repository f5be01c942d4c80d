//! Typed ids, and the token id that every layer from the tokenizer down speaks in.

use std::{fmt, str::FromStr};

/// Index of one token in a model's vocabulary.
pub type TokenId = u32;

/// Names a response: 48 bits of time and 80 random ones, written `resp_` and 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResponseId(u128);

impl ResponseId {
    /// The id made of these bits.
    pub fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// An id for a response of this moment, in milliseconds since 1970. As the time leads, what is
    /// written together lies together in the session log. It decides no order.
    pub fn new(at_ms: i64, random: u128) -> Self {
        Self((at_ms as u128) << 80 | random & ((1 << 80) - 1))
    }

    /// The bits that it is made of.
    pub fn bits(self) -> u128 {
        self.0
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

impl FromStr for ResponseId {
    type Err = NotAResponseId;

    /// Accepts exactly what [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Self, NotAResponseId> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        text.strip_prefix("resp_")
            .filter(|digits| digits.len() == 32 && digits.bytes().all(is_digit))
            .and_then(|digits| u128::from_str_radix(digits, 16).ok())
            .map(Self)
            .ok_or(NotAResponseId)
    }
}

/// A text does not name a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a response's id is `resp_` and 32 lower-case hexadecimal digits")]
pub struct NotAResponseId;

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

    #[test]
    fn the_time_leads() {
        let id = ResponseId::new(0x0123_4567_89ab, u128::MAX);
        assert_eq!(id.to_string(), "resp_0123456789abffffffffffffffffffff");
        assert_ne!(id, ResponseId::new(0x0123_4567_89ab, u128::MAX - 1));
    }

    #[test]
    fn only_what_is_written_is_read() {
        let id = ResponseId::from_bits(u128::MAX - 5);
        assert_eq!(id.to_string().parse(), Ok(id));
        let digits = "0".repeat(31);
        for text in [
            "resp_1".to_owned(),
            "resp_".to_owned(),
            format!("resp_{digits}A"),
            format!("resp_+{digits}"),
            format!("msg_{digits}0"),
        ] {
            assert_eq!(text.parse::<ResponseId>(), Err(NotAResponseId), "{text}");
        }
    }
}
