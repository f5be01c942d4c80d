//! Chat templates: from a conversation to the text of a prompt.
//!
//! Templates are the Jinja sources that models ship; rendering equals what the `transformers`
//! package renders, byte for byte.

use crate::conversation::{Head, Item};

/// What is to be rendered.
#[derive(Debug, Clone, Copy)]
pub struct Rendering<'a> {
    /// What leads the prompt.
    pub head: &'a Head,
    /// The conversation, oldest item first.
    pub items: &'a [Item],
    /// Whether the prompt ends by opening the assistant's turn.
    pub add_generation_prompt: bool,
}
