//! A snapshot's file: safetensors, whose metadata say what it is, and checksums behind the numbers.
//!
//! ```text
//! | length u64 | header: JSON | piece 0 | piece 1 | … | crc32c |
//! ```
//!
//! A piece is a tensor `[token][layer][keys, values][head][element]` of up to 4 MiB. The last tensor
//! has a crc32c of everything before the pieces and one of each piece, and ends the file: what was cut
//! short has it in the wrong place. Tokens themselves are not in the file.

use std::ops::Range;

use serde_json::{Map, Value, json};

use super::{
    super::{Retention, SnapshotId},
    hash::Namespace,
};
use crate::{
    cache::CacheScope,
    limits,
    model::exec::{KvElementType, KvLayout},
};

/// Format version. Files of another version are ignored.
const VERSION: &str = "1";

/// The metadata of a snapshot file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: SnapshotId,
    /// Snapshot with the tokens before `tokens`.
    pub(crate) base: Option<SnapshotId>,
    pub(crate) realm: Namespace,
    /// The tokens of the sequence that the file holds.
    pub(crate) tokens: Range<usize>,
    /// [`RollingHash`](super::hash::RollingHash) of all tokens before `tokens.end`.
    pub(crate) rolling: u64,
    /// SHA-256 of the same tokens.
    pub(crate) token_hash: [u8; 32],
    pub(crate) keep: Retention,
    pub(crate) layout: KvLayout,
}

/// One piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PieceAt {
    /// Tokens of the sequence.
    pub(crate) tokens: Range<usize>,
    /// The byte range of the chunk, after the header.
    pub(crate) bytes: Range<u64>,
}

/// Tokens of one piece, the last one may have fewer.
fn piece_tokens(layout: KvLayout) -> usize {
    (limits::SNAPSHOT_PIECE_BYTES / layout.bytes_per_token().max(1)).max(1)
}

impl Header {
    /// The pieces, in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = PieceAt> + use<> {
        let (tokens, width) = (self.tokens.clone(), self.layout.bytes_per_token() as u64);
        let step = piece_tokens(self.layout);
        tokens.clone().step_by(step).map(move |start| {
            let end = tokens.end.min(start + step);
            let place = |token: usize| (token - tokens.start) as u64 * width;
            PieceAt {
                tokens: start..end,
                bytes: place(start)..place(end),
            }
        })
    }

    /// Returns the bytes of all chunks.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.tokens.len() as u64 * self.layout.bytes_per_token() as u64
    }

    /// Returns the bytes of the checksums.
    pub(crate) fn checksum_bytes(&self) -> u64 {
        4 * (1 + self.pieces().count() as u64)
    }

    /// Encodes the bytes before the first chunk.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut header = Map::new();
        header.insert("__metadata__".to_owned(), self.metadata());
        let KvLayout {
            layers,
            heads,
            head_dim,
            element,
        } = self.layout;
        for (number, piece) in self.pieces().enumerate() {
            let tensor = json!({
                "dtype": element.name(),
                "shape": [piece.tokens.len(), layers, 2, heads, head_dim],
                "data_offsets": [piece.bytes.start, piece.bytes.end],
            });
            header.insert(format!("kv.{number}"), tensor);
        }
        let (start, len) = (self.data_bytes(), self.checksum_bytes());
        let checksums = json!({
            "dtype": "U32",
            "shape": [len / 4],
            "data_offsets": [start, start + len],
        });
        header.insert("crc32c".to_owned(), checksums);
        let mut text = Value::Object(header).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.append(&mut text);
        bytes
    }

    fn metadata(&self) -> Value {
        let (kind, until_ms) = match self.keep {
            Retention::WithResponse => ("response", String::new()),
            Retention::UntilMs(ms) => ("time", ms.to_string()),
        };
        json!({
            "stemma_snapshot": VERSION,
            "id": self.id.to_string(),
            "base": self.base.map(|base| base.to_string()).unwrap_or_default(),
            "model": hex(&self.realm.model),
            "scope": format!("{:016x}", self.realm.scope.0),
            "first_token": self.tokens.start.to_string(),
            "end_token": self.tokens.end.to_string(),
            "rolling": format!("{:016x}", self.rolling),
            "token_hash": hex(&self.token_hash),
            "kept_with": kind,
            "until_ms": until_ms,
            "layers": self.layout.layers.to_string(),
            "heads": self.layout.heads.to_string(),
            "head_dim": self.layout.head_dim.to_string(),
            "element": self.layout.element.name(),
        })
    }

    /// Decodes `bytes`, which are everything before the chunks. Accepts only exactly the bytes that
    /// [`Self::encode`] writes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let text = bytes.get(8..).ok_or("it is too short")?;
        let value: Value =
            serde_json::from_slice(text).map_err(|error| format!("its header: {error}"))?;
        let fields = Fields(&value["__metadata__"]);
        match fields.text("stemma_snapshot")? {
            VERSION => {}
            other => return Err(format!("its format is {other}, not {VERSION}")),
        }
        let header = fields.header()?;
        let described = header.pieces().count() <= bytes.len() / PIECE_TEXT_MIN;
        match described && header.encode() == bytes {
            true => Ok(header),
            false => Err("its header does not agree with itself".to_owned()),
        }
    }
}

/// Metadata fields of a file.
struct Fields<'a>(&'a Value);

impl<'a> Fields<'a> {
    fn header(&self) -> Result<Header, String> {
        let base = match self.text("base")? {
            "" => None,
            _ => Some(SnapshotId(self.hexadecimal("base")?)),
        };
        let tokens = self.number("first_token")?..self.number("end_token")?;
        let layout = KvLayout {
            layers: self.number("layers")?,
            heads: self.number("heads")?,
            head_dim: self.number("head_dim")?,
            element: self.element()?,
        };
        let sizes = [layout.layers, layout.heads, layout.head_dim];
        // These bounds prevent overflow in products.
        if tokens.is_empty()
            || tokens.end > TOKENS_MAX
            || sizes.iter().any(|&size| size == 0 || size > SIZE_MAX)
        {
            return Err("its sizes cannot be".to_owned());
        }
        Ok(Header {
            id: SnapshotId(self.hexadecimal("id")?),
            base,
            realm: Namespace {
                model: self.hash("model")?,
                scope: CacheScope(self.small("scope")?),
            },
            tokens,
            rolling: self.small("rolling")?,
            token_hash: self.hash("token_hash")?,
            keep: match self.text("kept_with")? {
                "response" => Retention::WithResponse,
                _ => Retention::UntilMs(self.parsed("until_ms")?),
            },
            layout,
        })
    }

    fn text(&self, name: &str) -> Result<&'a str, String> {
        self.0[name]
            .as_str()
            .ok_or_else(|| format!("its header has no `{name}`"))
    }

    fn parsed<T: std::str::FromStr>(&self, name: &str) -> Result<T, String> {
        let text = self.text(name)?;
        text.parse().map_err(|_| wrong(name))
    }

    fn number(&self, name: &str) -> Result<usize, String> {
        self.parsed(name)
    }

    fn hexadecimal(&self, name: &str) -> Result<u128, String> {
        u128::from_str_radix(self.text(name)?, 16).map_err(|_| wrong(name))
    }

    fn small(&self, name: &str) -> Result<u64, String> {
        u64::try_from(self.hexadecimal(name)?).map_err(|_| wrong(name))
    }

    fn hash(&self, name: &str) -> Result<[u8; 32], String> {
        let text = self.text(name)?;
        let mut hash = [0; 32];
        for (index, byte) in hash.iter_mut().enumerate() {
            let digits = text.get(2 * index..2 * index + 2);
            let parsed = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            *byte = parsed.ok_or_else(|| wrong(name))?;
        }
        Ok(hash)
    }

    fn element(&self) -> Result<KvElementType, String> {
        let all = [KvElementType::F16, KvElementType::Bf16, KvElementType::F32];
        let name = self.text("element")?;
        let found = all.into_iter().find(|element| element.name() == name);
        found.ok_or_else(|| wrong("element"))
    }
}

/// More layers, heads and elements of a head than any model has.
const SIZE_MAX: usize = 1 << 12;
/// Upper bound on the context length in tokens.
const TOKENS_MAX: usize = 1 << 22;
/// Fewer bytes than the description of a piece takes.
const PIECE_TEXT_MIN: usize = 32;

fn wrong(name: &str) -> String {
    format!("its header's `{name}` makes no sense")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
