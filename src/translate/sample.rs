//! A response in progress, for the tests of this folder.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    conversation::{
        EchoedFields, EffectiveSampling, OutputFormat, Preamble, ResponseState, Status, ToolChoice,
        ToolRules, Truncation, Turn, Usage,
    },
    id::ResponseId,
};

/// A response in progress, with something in every field that may be empty.
pub(super) fn record() -> ResponseState {
    let turn = Turn {
        raw: None,
        truncation: Truncation::Disabled,
        model: None,
        head: Preamble {
            instructions: Some("Be terse.".to_owned()),
            ..Preamble::default()
        },
        previous: None,
        items: Vec::new(),
        max_output_tokens: Some(9),
        sampling: Default::default(),
        stop: Vec::new(),
        ignore_eos: false,
        store: true,
        keep_prefix: false,
        tools: Arc::new([]),
        skipped_tools: Vec::new(),
        effort: None,
        tool_rules: ToolRules {
            choice: ToolChoice::Auto,
            parallel: true,
            calls_max: None,
        },
        format: OutputFormat::Text,
        verbosity: None,
        labels: EchoedFields {
            user: Some("u".to_owned()),
            ..EchoedFields::default()
        },
    };
    ResponseState {
        id: ResponseId::from_bits(0xfe),
        created_at: Timestamp::UNIX_EPOCH,
        completed_at: None,
        model: "m".to_owned(),
        turn: Arc::new(turn),
        sampling: EffectiveSampling {
            temperature: 0.7,
            top_p: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
        },
        status: Status::InProgress,
        output: Vec::new(),
        usage: None,
    }
}

/// Token counts, each another number.
pub(super) fn usage() -> Usage {
    Usage {
        input_tokens: 10,
        cached_tokens: 4,
        cache_write_tokens: 6,
        output_tokens: 5,
        reasoning_tokens: 2,
    }
}
