//! Ids of sessions.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The id of a session, and of the response that its turn may store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    /// Returns the id with these bits.
    pub fn from_bits(bits: u128) -> Self {
        Self(bits.to_be_bytes())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for SessionId {
    type Err = NotAnId;

    /// Accepts exactly 32 lower-case hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let digits = text.as_bytes();
        if digits.len() != 32 {
            return Err(NotAnId);
        }
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Ok(Self(id))
    }
}

fn hex_digit(digit: u8) -> Result<u8, NotAnId> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NotAnId),
    }
}

/// The text is not 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is 32 lower-case hexadecimal digits")]
pub struct NotAnId;

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SessionId = SessionId([0xab; 16]);

    #[test]
    fn only_displayed_ids_parse() {
        let text = "ab".repeat(16);
        assert_eq!(text.parse(), Ok(ID));
        assert_eq!(ID.to_string(), text);
        for wrong in [
            "",
            &text[1..],
            &text.to_uppercase(),
            &format!("{}g", &text[1..]),
        ] {
            assert_eq!(wrong.parse::<SessionId>(), Err(NotAnId), "{wrong}");
        }
    }
}
