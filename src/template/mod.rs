//! Chat templates: from a conversation to the text of a prompt.
//!
//! Templates are the Jinja sources that models ship; rendering equals what the `transformers`
//! package renders, byte for byte. A template is compiled once and rendered for every request.

mod environment;
mod filters;
mod json;
mod messages;
mod methods;
mod preprocess;
mod reasoning;
mod repr;
mod sentinel;
mod variables;

use std::sync::Arc;

use jiff::{Timestamp, ZonedDateTime, tz::TimeZone};
use minijinja::Environment;
use serde_json::Map;

use crate::{
    conversation::{ContentPart, FunctionTool, Item, Message, Preamble, Role},
    tokenizer::{PromptSegment, SpecialTokens},
};

pub use reasoning::ARGUMENT as PRESERVE_THINKING;

use self::{
    environment::{CHAT, Raised},
    messages::ChatMessage,
    sentinel::{ControlTokenTexts, EscapedValues},
    variables::Variables,
};

/// The input of a rendering.
#[derive(Debug, Clone, Copy)]
pub struct Rendering<'a> {
    /// The preamble of the prompt.
    pub head: &'a Preamble,
    /// The conversation, oldest item first.
    pub items: &'a [Item],
    /// True if the prompt ends by opening the assistant's turn.
    pub add_generation_prompt: bool,
}

/// The reason why a conversation cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template itself refuses the conversation; the text is its `raise_exception` message.
    #[error("{0}")]
    Refused(String),
    /// The template does not compile, or fails on this conversation.
    #[error("the chat template fails: {0}")]
    Broken(String),
}

/// A model's chat template, ready to render.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    special: SpecialTokens,
    token_texts: ControlTokenTexts,
}

impl ChatTemplate {
    /// Compiles a template's source.
    ///
    /// `special` becomes the variables `bos_token`, `eos_token` and so on. User text that equals
    /// one of the control token texts is rendered as [`PromptSegment::UserText`].
    ///
    /// # Errors
    /// [`TemplateError::Broken`] if the source is no valid template.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "taken as the tokenizer gives it"
    )]
    pub fn compile(
        source: &str,
        special: &SpecialTokens,
        control_token_texts: Arc<[String]>,
    ) -> Result<Self, TemplateError> {
        let source = preprocess::normalised(source);
        Ok(Self {
            environment: environment::with_template(source.clone())
                .map_err(|error| template_error(&error))?,
            token_texts: ControlTokenTexts::new(&control_token_texts, &source, special)?,
            special: special.clone(),
            source,
        })
    }

    /// Renders a conversation at a time, which only `strftime_now` shows.
    ///
    /// # Errors
    /// [`TemplateError::Refused`] with the template's own message; [`TemplateError::Broken`] if the
    /// template fails or does not end.
    pub fn render(
        &self,
        rendering: &Rendering<'_>,
        now: &ZonedDateTime,
    ) -> Result<Vec<PromptSegment>, TemplateError> {
        let mut messages = messages::chat_messages(rendering.head, rendering.items);
        if !reasoning::are_kept(&rendering.head.template_args) {
            reasoning::drop_earlier(&mut messages);
        }
        let disguise = self
            .token_texts
            .escape(variables::texts(rendering.head, &messages))?;
        let text = match self.text(rendering, &messages, &disguise, true, now) {
            // Some templates, such as DeepSeek's, take arguments as texts only.
            Err(TemplateError::Broken(reason)) if messages.iter().any(has_parsed_call) => self
                .text(rendering, &messages, &disguise, false, now)
                .map_err(|_| TemplateError::Broken(reason)),
            other => other,
        }?;
        Ok(disguise.pieces(&text))
    }

    fn text(
        &self,
        rendering: &Rendering<'_>,
        messages: &[ChatMessage<'_>],
        disguise: &EscapedValues<'_>,
        arguments_as_objects: bool,
        now: &ZonedDateTime,
    ) -> Result<String, TemplateError> {
        let variables = Variables {
            rendering,
            special: &self.special,
            disguise,
            short_ids: preprocess::wants_short_call_ids(&self.source),
            arguments_as_objects,
        };
        self.environment
            .get_template(CHAT)
            .and_then(|template| template.render(variables.values(messages, now)))
            .map_err(|error| template_error(&error))
    }

    /// The template's source, as it is compiled: newlines and some tags may differ from the file's.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// True if a prompt shows the tools that are offered. Where that cannot be tried, the source's
    /// mentioning `tools` counts.
    pub fn shows_tools(&self) -> bool {
        let name = "stemma_shows_this_tool";
        let tool = FunctionTool {
            name: name.to_owned(),
            description: Some(name.to_owned()),
            parameters: Some(Map::new()),
            strict: None,
            path: String::new(),
        };
        let head = Preamble {
            tools: vec![tool],
            ..Preamble::default()
        };
        let items = [Item::Message(Message {
            role: Role::User,
            content: vec![ContentPart::Text("Hi".to_owned())],
        })];
        let rendering = Rendering {
            head: &head,
            items: &items,
            add_generation_prompt: true,
        };
        match self.render(
            &rendering,
            &Timestamp::UNIX_EPOCH.to_zoned_datetime(TimeZone::UTC),
        ) {
            Ok(pieces) => pieces.iter().any(|piece| piece.text().contains(name)),
            Err(_) => self.mentions("tools"),
        }
    }

    /// True if template arguments may not set this variable.
    pub fn is_reserved(variable: &str) -> bool {
        variables::RESERVED.contains(&variable)
    }

    /// True if the template's source has this word, such as `tools` or `enable_thinking`: a template
    /// without it ignores that variable or key.
    pub fn mentions(&self, word: &str) -> bool {
        preprocess::mentions(&self.source, word)
    }
}

fn has_parsed_call(message: &ChatMessage<'_>) -> bool {
    match message {
        ChatMessage::Assistant(answer) => answer.calls.iter().any(|call| call.object.is_some()),
        _ => false,
    }
}

/// Tells a refusal by the template from a failure of it.
fn template_error(error: &minijinja::Error) -> TemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(Raised(message)) = current.downcast_ref() {
            return TemplateError::Refused(message.clone());
        }
        cause = current.source();
    }
    let place = error
        .line()
        .map(|line| format!(" (line {line})"))
        .unwrap_or_default();
    let detail = error
        .detail()
        .map(|detail| format!(": {detail}"))
        .unwrap_or_default();
    TemplateError::Broken(format!("{}{detail}{place}", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(source: &str) -> Result<ChatTemplate, TemplateError> {
        ChatTemplate::compile(source, &SpecialTokens::default(), Arc::new([]))
    }

    fn rendered(source: &str) -> Result<Vec<PromptSegment>, TemplateError> {
        let content = vec![ContentPart::Text("Hi".to_owned())];
        let items = [Item::Message(Message {
            role: Role::User,
            content,
        })];
        let head = Preamble::default();
        let rendering = Rendering {
            head: &head,
            items: &items,
            add_generation_prompt: true,
        };
        compiled(source)?.render(&rendering, &"2025-06-05T09:08:07[UTC]".parse().unwrap())
    }

    #[test]
    fn whether_tools_are_shown_is_tried() {
        for (source, shows) in [
            (
                "{% for tool in tools %}{{ tool | tojson }}{% endfor %}",
                true,
            ),
            (
                "{% if tools %}{{ tools[0].function.name }}{% endif %}",
                true,
            ),
            ("{# tools #}{{ messages[0].content }}", false),
            ("{% if tools %}{{ raise_exception('no') }}{% endif %}", true),
        ] {
            assert_eq!(compiled(source).unwrap().shows_tools(), shows, "{source}");
        }
    }

    #[test]
    fn a_refusal_carries_the_message_of_the_template() {
        let refused = Err(TemplateError::Refused(
            "Roles must alternate: user".to_owned(),
        ));
        for source in [
            "{{ raise_exception('Roles must alternate: ' ~ messages[0].role) }}",
            "{% macro m(x) %}{{ raise_exception('Roles must alternate: ' ~ x) }}{% endmacro %}{{ m('user') }}",
        ] {
            assert_eq!(rendered(source), refused);
        }
    }

    #[test]
    fn a_broken_template_names_the_line() {
        for (source, place) in [
            ("a\n{{ messages[0].missing.x }}", "line 2"),
            ("{{ x | nosuchfilter }}", "line 1"),
            ("\n\n{% if %}", "line 3"),
            ("{{ strftime_now('%!') }}", "strftime_now"),
        ] {
            match rendered(source) {
                Err(TemplateError::Broken(reason)) => assert!(reason.contains(place), "{reason}"),
                other => panic!("{source}: {other:?}"),
            }
        }
    }

    #[test]
    fn endless_work_ends() {
        for source in [
            "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
            "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}",
            "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
            "{{ 'x' * 99999999999 }}",
        ] {
            let rendered = rendered(source);
            assert!(
                matches!(rendered, Err(TemplateError::Broken(_))),
                "{source}: {rendered:?}"
            );
        }
    }

    #[test]
    fn templates_are_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<ChatTemplate>();
    }

    #[test]
    fn words_of_the_source_are_mentioned() {
        let template = compiled("{% if tools and enable_thinking %}{% endif %}").unwrap();
        assert!(template.mentions("tools") && template.mentions("enable_thinking"));
        assert!(!template.mentions("reasoning_effort") && !template.mentions("thinking"));
    }
}
