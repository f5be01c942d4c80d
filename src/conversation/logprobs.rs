//! Log probabilities of an answer's tokens.

/// Log probabilities of a token of an answer, and of the top tokens at its position.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// The sampled token.
    pub chosen: TokenLogprob,
    /// The top tokens at its position, best first; as many as the request asks for.
    pub top: Vec<TokenLogprob>,
}

/// A token with its probability under the model.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// The token's text; of bytes that are no text, `bytes:\xe2\x82`.
    pub text: String,
    /// The bytes that the token adds to the text; empty for a control token.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability before penalties, bias, temperature, filters and
    /// grammars; never below -9999.
    pub logprob: f32,
}
