//! Log probabilities: what requests ask for, and the forms in which the APIs show them.

use super::RequestError;
use crate::{
    conversation::{TokenLogprob, TokenLogprobs},
    limits::TOP_LOGPROBS_MAX,
    wire::{
        chat::{ChatLogprobs, ChatTokenLogprob, ChatTopLogprob},
        completion::CompletionLogprobs,
        response,
    },
};

/// Checks the number of top log probabilities.
///
/// # Errors
/// If it exceeds the maximum; `param` is the field's name in the API.
pub(super) fn count(param: &str, count: Option<i64>) -> Result<Option<u8>, RequestError> {
    let checked = |count: i64| match u8::try_from(count) {
        Ok(count) if count <= TOP_LOGPROBS_MAX => Ok(count),
        _ => {
            let message =
                format!("`{param}` must be between 0 and {TOP_LOGPROBS_MAX}, not {count}.");
            Err(RequestError::invalid(param, message))
        }
    };
    count.map(checked).transpose()
}

/// As a part of an item shows them.
pub(super) fn in_part(tokens: &[TokenLogprobs]) -> Vec<response::TokenLogprob> {
    tokens.iter().map(|token| of_token(token, true)).collect()
}

/// As an event of a stream shows them: without the bytes.
pub(super) fn in_event(tokens: &[TokenLogprobs]) -> Vec<response::TokenLogprob> {
    tokens.iter().map(|token| of_token(token, false)).collect()
}

fn of_token(token: &TokenLogprobs, with_bytes: bool) -> response::TokenLogprob {
    let bytes = |likely: &TokenLogprob| with_bytes.then(|| likely.bytes.clone());
    let top = |likely: &TokenLogprob| response::TopLogprob {
        token: likely.text.clone(),
        bytes: bytes(likely),
        logprob: likely.logprob,
    };
    response::TokenLogprob {
        token: token.chosen.text.clone(),
        bytes: bytes(&token.chosen),
        logprob: token.chosen.logprob,
        top_logprobs: token.top.iter().map(top).collect(),
    }
}

/// As a choice of a chat completion, or what is new of it, shows them.
pub(super) fn in_chat<'a>(tokens: impl IntoIterator<Item = &'a TokenLogprobs>) -> ChatLogprobs {
    // A control token has no bytes in a text.
    let bytes = |likely: &TokenLogprob| Some(likely.bytes.clone()).filter(|it| !it.is_empty());
    let top = |likely: &TokenLogprob| ChatTopLogprob {
        token: likely.text.clone(),
        bytes: bytes(likely),
        logprob: likely.logprob,
    };
    let content = tokens.into_iter().map(|token| ChatTokenLogprob {
        token: token.chosen.text.clone(),
        bytes: bytes(&token.chosen),
        logprob: token.chosen.logprob,
        top_logprobs: token.top.iter().map(top).collect(),
    });
    ChatLogprobs {
        content: content.collect(),
        refusal: None,
    }
}

/// Returns log probabilities as a completion's choice shows them. `offset` is the number of
/// characters before these tokens; also returns the number after them.
pub(super) fn in_completion<'a>(
    tokens: impl IntoIterator<Item = &'a TokenLogprobs>,
    mut offset: usize,
) -> (CompletionLogprobs, usize) {
    let mut shown = CompletionLogprobs::default();
    for token in tokens {
        shown.tokens.push(token.chosen.text.clone());
        shown.token_logprobs.push(token.chosen.logprob);
        let pair = |likely: &TokenLogprob| (likely.text.clone(), likely.logprob);
        shown
            .top_logprobs
            .push(token.top.iter().map(pair).collect());
        shown.text_offset.push(offset);
        // A character counts where it begins.
        let begins = |byte: &&u8| **byte & 0xc0 != 0x80;
        offset += token.chosen.bytes.iter().filter(begins).count();
    }
    (shown, offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likely(text: &str, bytes: &[u8]) -> TokenLogprob {
        TokenLogprob {
            text: text.to_owned(),
            bytes: bytes.to_vec(),
            logprob: -0.25,
        }
    }

    fn tokens() -> Vec<TokenLogprobs> {
        let euro = "€".as_bytes();
        let token = |text, bytes, top| TokenLogprobs {
            chosen: likely(text, bytes),
            top,
        };
        vec![
            token("é ", "é ".as_bytes(), vec![likely("<|im_end|>", b"")]),
            token("bytes:\\xe2", &euro[..1], vec![]),
            token("bytes:\\x82\\xac", &euro[1..], vec![]),
            token("x", b"x", vec![]),
        ]
    }

    #[test]
    fn every_api_has_its_form() {
        insta::assert_json_snapshot!((
            in_part(&tokens()),
            in_event(&tokens()),
            in_chat(&tokens()),
            in_completion(&tokens(), 0),
        ));
    }

    #[test]
    fn characters_are_counted_where_they_begin() {
        let (shown, end) = in_completion(&tokens(), 10);
        assert_eq!((shown.text_offset, end), (vec![10, 12, 13, 13], 14));
    }

    #[test]
    fn at_most_twenty_are_told_of() {
        for (asked, found) in [(None, None), (Some(0), Some(0)), (Some(20), Some(20))] {
            assert_eq!(count("top_logprobs", asked).expect("in range"), found);
        }
        for asked in [-1, 21, i64::MAX] {
            let refusal = count("top_logprobs", Some(asked)).expect_err("out of range");
            assert_eq!(refusal.param.as_deref(), Some("top_logprobs"));
        }
    }
}
