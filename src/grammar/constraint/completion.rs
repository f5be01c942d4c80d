//! Shortest completion: brings a grammar from its state to an end in few tokens.

use llguidance::{
    Matcher,
    toktrie::{TokTrie, TokenId},
};

/// Tokens from the limit within which completions are planned. With more room left, nothing has to
/// end yet.
pub(crate) const WITHIN: usize = 512;

/// The same in bytes.
const BYTES_MAX: usize = 4 * WITHIN;

/// Most bytes tried in one search, which costs less than a mask of a large vocabulary.
const TRIES_MAX: usize = 4096;

/// Order of the bytes to try if several may follow and none closes anything: first those that start
/// short values, then letters. Among equals the byte that was used longest ago comes first.
const ORDER: &[u8] = b"0123456789-tf[{abcdeghijklmnopqrsuvwxyz@.:/ ";

/// Returns tokens that bring a grammar to an end; empty if it may end already. `None` if no end is
/// found.
///
/// The tokens are few, but not always the fewest. The search goes byte by byte. It prefers a byte
/// that closes a string, a list or an object, then one that starts a short value. Among the rest it
/// takes the byte that was used longest ago, so that it leaves recursive alternatives.
pub(crate) fn short(matcher: &mut Matcher) -> Option<Vec<TokenId>> {
    let environment = matcher.tok_env().ok()?;
    let trie = environment.tok_trie();
    let mut way = ClosingPath {
        probe: matcher.clone(),
        trie,
        bytes: Vec::new(),
        tries: 0,
    };
    while !way.is_over()? {
        way.go_on()?;
    }
    let tokens = tokens(&way.bytes, trie)?;
    (tokens.len() <= WITHIN && ends_with(matcher, &tokens)).then_some(tokens)
}

/// True if a grammar may end behind these tokens.
pub(crate) fn ends_with(matcher: &mut Matcher, tokens: &[TokenId]) -> bool {
    let Ok(environment) = matcher.tok_env() else {
        return false;
    };
    let end = environment.tok_trie().eos_token();
    let all = [tokens, &[end]].concat();
    matcher
        .validate_tokens(&all)
        .is_ok_and(|valid| valid == all.len())
}

/// A copy of a matcher on its way to an end.
struct ClosingPath<'a> {
    probe: Matcher,
    trie: &'a TokTrie,
    /// Bytes written so far; control tokens in the trie's notation.
    bytes: Vec<u8>,
    tries: usize,
}

impl ClosingPath<'_> {
    /// Returns true if the grammar may end here; `None` if it cannot continue.
    fn is_over(&mut self) -> Option<bool> {
        if self.probe.is_stopped() {
            return self.probe.stop_reason().is_ok().then_some(true);
        }
        let over = self.probe.is_accepting().ok()?;
        let goes_on = self.bytes.len() < BYTES_MAX && self.tries < TRIES_MAX;
        (over || goes_on).then_some(over)
    }

    /// Writes the next required byte, or one of the possible ones.
    fn go_on(&mut self) -> Option<()> {
        let forced = self.probe.compute_ff_bytes();
        match forced.is_empty() {
            true => {
                let byte = self.choose()?;
                self.write(&[byte])
            }
            false => self.write(&forced),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Option<()> {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            let (token, length) = match first {
                TokTrie::SPECIAL_TOKEN_MARKER => control(rest)?,
                byte => (self.trie.token_id_at_bytes(&[byte])?, 1),
            };
            self.probe.consume_token(token).ok()?;
            self.bytes.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
        }
        Some(())
    }

    /// True if a byte may follow.
    fn can(&mut self, byte: u8) -> bool {
        self.tries += 1;
        let Some(token) = self.trie.token_id_at_bytes(&[byte]) else {
            return false;
        };
        let valid = self.probe.validate_tokens(&[token]);
        valid.is_ok_and(|valid| valid == 1)
    }

    fn any(&mut self, bytes: &[u8]) -> Option<u8> {
        bytes.iter().copied().find(|&byte| self.can(byte))
    }

    fn choose(&mut self) -> Option<u8> {
        // Within a text brackets and separators are letters as any.
        let in_text = self.can(b'x') && self.can(b'#');
        let closing = if in_text { None } else { self.any(b"}]") };
        if closing.is_none() && self.can(b'"') {
            return Some(b'"');
        }
        if closing.is_some() {
            return closing;
        }
        if !in_text && let Some(separator) = self.any(b",:") {
            return Some(separator);
        }
        // `null` in place of an object, a list or a number.
        if self.can(b'n') && self.any(b"{[-0").is_some() && !self.can(b'x') {
            return Some(b'n');
        }
        let mut all: Vec<u8> = ORDER.to_vec();
        all.extend((0..=u8::MAX).filter(|byte| !ORDER.contains(byte)));
        let last = |byte: &u8| self.bytes.iter().rposition(|written| written == byte);
        all.sort_by_cached_key(last);
        self.any(&all)
    }
}

/// Returns a control token at the beginning, and the length of its notation: the marker and its
/// number in brackets.
fn control(bytes: &[u8]) -> Option<(TokenId, usize)> {
    let end = bytes.iter().position(|&byte| byte == b']')?;
    let digits = bytes.get(2..end)?;
    let token = str::from_utf8(digits).ok()?.parse().ok()?;
    Some((token, end + 1))
}

/// Tokenises the written bytes, longest tokens first.
fn tokens(bytes: &[u8], trie: &TokTrie) -> Option<Vec<TokenId>> {
    let mut tokens = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        if rest[0] == TokTrie::SPECIAL_TOKEN_MARKER {
            let (token, length) = control(rest)?;
            tokens.push(token);
            rest = &rest[length..];
        } else {
            let marker = |&byte: &u8| byte == TokTrie::SPECIAL_TOKEN_MARKER;
            let length = rest.iter().position(marker).unwrap_or(rest.len());
            tokens.extend(trie.greedy_tokenize(&rest[..length]));
            rest = &rest[length..];
        }
    }
    Some(tokens)
}
