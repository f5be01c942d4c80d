//! The engine from outside its thread, with a scripted model.

mod answers;

use super::{scripted::ScriptedExecutor, *};
use crate::{id::TokenId, sampling::SamplingParams};

const VOCAB_SIZE: usize = 1000;
const END: TokenId = 999;

/// A model that answers with the prompt's tokens in reverse.
fn echo() -> ScriptedExecutor {
    ScriptedExecutor::new(VOCAB_SIZE, END, |prompt| {
        prompt.iter().rev().copied().collect()
    })
}

fn job(prompt: impl IntoIterator<Item = TokenId>) -> Job {
    Job {
        prompt: prompt.into_iter().collect(),
        max_new_tokens: 10_000,
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        end_tokens: [END].into(),
    }
}

/// Reads to the end: the tokens and how the job ended. Checks the order of events.
async fn read(mut stream: TokenStream) -> (Vec<TokenId>, Finish) {
    let mut tokens = Vec::new();
    let mut prefilled = false;
    while let Some(event) = stream.next().await {
        match event {
            TokenEvent::Prefilled { .. } => {
                assert!(
                    tokens.is_empty() && !prefilled,
                    "prefilled once, before any token"
                );
                prefilled = true;
            }
            TokenEvent::Token(token) => {
                assert!(prefilled, "no token before the prompt is read");
                tokens.push(token.id);
            }
            TokenEvent::Finished(finish) => {
                assert_eq!(stream.next().await, None, "nothing follows the end");
                return (tokens, finish);
            }
        }
    }
    panic!("the stream ended without an end");
}
