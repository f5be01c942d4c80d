//! Log probabilities of an answer's tokens.

/// A token of an answer and what else the model might have said.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// The token that was chosen.
    pub chosen: TokenLogprob,
    /// The likeliest tokens in its place, best first; as many as asked for.
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
