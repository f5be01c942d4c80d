//! The conversations of the goldens: chat messages in a file, items of the domain here.

use std::collections::BTreeMap;

use jiff::ZonedDateTime;
use serde::Deserialize;
use serde_json::{Map, Value};
use stemma::{
    conversation::{
        CallKind, CallOutput, ContentPart, FunctionCall, FunctionTool, Item, Message, Preamble,
        Reasoning, Role,
    },
    template::{ChatTemplate, Rendering, TemplateError},
    tokenizer::{PromptSegment, SpecialTokens},
};

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/templates/conversations.json"
);

/// The file of conversations, which the Python script reads as well.
#[derive(Deserialize)]
pub(super) struct Conversations {
    now: String,
    special_tokens: BTreeMap<String, String>,
    /// The conversations by name.
    pub(super) cases: BTreeMap<String, Conversation>,
}

/// One conversation as `apply_chat_template` takes it.
#[derive(Deserialize)]
pub(super) struct Conversation {
    messages: Vec<ChatMessage>,
    tools: Vec<Tool>,
    template_args: Map<String, Value>,
}

#[derive(Deserialize)]
struct ChatMessage {
    role: String,
    content: String,
    reasoning_content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
struct ToolCall {
    id: String,
    function: CalledFunction,
}

#[derive(Deserialize)]
struct CalledFunction {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Tool {
    function: OfferedFunction,
}

#[derive(Deserialize)]
struct OfferedFunction {
    name: String,
    description: Option<String>,
    parameters: Option<Map<String, Value>>,
}

impl Conversations {
    /// Reads the file.
    pub(super) fn read() -> Self {
        let text = std::fs::read_to_string(FILE).expect(FILE);
        serde_json::from_str(&text).expect(FILE)
    }

    /// The time at which all are rendered.
    pub(super) fn now(&self) -> ZonedDateTime {
        self.now.parse().expect(FILE)
    }

    /// The special tokens that all templates get.
    pub(super) fn special_tokens(&self) -> SpecialTokens {
        let token = |name: &str| self.special_tokens.get(name).cloned();
        SpecialTokens {
            bos: token("bos_token"),
            eos: token("eos_token"),
            unk: token("unk_token"),
            pad: token("pad_token"),
        }
    }
}

impl Conversation {
    /// Returns the preamble of the prompt.
    fn head(&self) -> Preamble {
        let tools = self.tools.iter().map(|tool| FunctionTool {
            name: tool.function.name.clone(),
            description: tool.function.description.clone(),
            parameters: tool.function.parameters.clone(),
            strict: None,
            path: String::new(),
        });
        let template_args = self.template_args.clone();
        Preamble {
            instructions: None,
            tools: tools.collect(),
            template_args,
            tool_instruction: None,
        }
    }

    /// The text of the prompt that a template makes of it.
    pub(super) fn render(
        &self,
        template: &ChatTemplate,
        add_generation_prompt: bool,
        now: &ZonedDateTime,
    ) -> Result<String, TemplateError> {
        let (head, items) = (self.head(), self.items());
        let rendering = Rendering {
            head: &head,
            items: &items,
            add_generation_prompt,
        };
        template
            .render(&rendering, now)
            .map(|pieces| text_of(&pieces))
    }

    /// Returns the items before the first answer, and the answer.
    pub(super) fn turned(&self) -> Turned {
        let is_answer = |message: &&ChatMessage| message.role == "assistant";
        let before = self
            .messages
            .iter()
            .take_while(|message| !is_answer(message));
        Turned {
            head: self.head(),
            before: before.flat_map(items_of).collect(),
            answer: self
                .messages
                .iter()
                .find(is_answer)
                .map(items_of)
                .unwrap_or_default(),
        }
    }

    /// The messages as items.
    fn items(&self) -> Vec<Item> {
        self.messages.iter().flat_map(items_of).collect()
    }
}

/// The beginning of a conversation.
pub(super) struct Turned {
    pub(super) head: Preamble,
    before: Vec<Item>,
    answer: Vec<Item>,
}

impl Turned {
    /// The text of the prompt for the answer, or with the answer in it.
    pub(super) fn render(
        &self,
        template: &ChatTemplate,
        is_answered: bool,
        now: &ZonedDateTime,
    ) -> Result<String, TemplateError> {
        let mut items = self.before.clone();
        if is_answered {
            items.extend_from_slice(&self.answer);
        }
        let rendering = Rendering {
            head: &self.head,
            items: &items,
            add_generation_prompt: !is_answered,
        };
        template
            .render(&rendering, now)
            .map(|pieces| text_of(&pieces))
    }

    /// Names and arguments of the answer's calls.
    pub(super) fn calls(&self) -> Vec<(String, Value)> {
        let parsed = |(name, arguments): (String, String)| {
            (name, serde_json::from_str(&arguments).expect("JSON"))
        };
        self.written().into_iter().map(parsed).collect()
    }

    /// The same with the arguments as text.
    pub(super) fn written(&self) -> Vec<(String, String)> {
        let call = |item: &Item| match item {
            Item::FunctionCall(call) => Some((call.name.clone(), call.arguments.clone())),
            _ => None,
        };
        self.answer.iter().filter_map(call).collect()
    }

    /// Returns the text of the answer.
    pub(super) fn said(&self) -> String {
        let texts = self.answer.iter().filter_map(|item| match item {
            Item::Message(message) => Some(&message.content),
            _ => None,
        });
        texts
            .flatten()
            .map(|ContentPart::Text(text)| text.as_str())
            .collect()
    }
}

/// All pieces as one text.
pub(super) fn text_of(pieces: &[PromptSegment]) -> String {
    pieces.iter().map(PromptSegment::text).collect()
}

fn items_of(message: &ChatMessage) -> Vec<Item> {
    let content = || vec![ContentPart::Text(message.content.clone())];
    let said = |role| {
        Item::Message(Message {
            role,
            content: content(),
        })
    };
    match message.role.as_str() {
        "system" => vec![said(Role::System)],
        "user" => vec![said(Role::User)],
        "tool" => {
            let call_id = message
                .tool_call_id
                .clone()
                .expect("a tool message has a call");
            vec![Item::CallOutput(CallOutput {
                of: CallKind::Function,
                call_id,
                output: content(),
            })]
        }
        "assistant" => {
            let mut items = Vec::new();
            let reasoning = message.reasoning_content.clone();
            items.extend(reasoning.map(|text| Item::Reasoning(Reasoning { text })));
            items.push(said(Role::Assistant));
            items.extend(message.tool_calls.iter().map(call_item));
            items
        }
        role => panic!("no such role: {role}"),
    }
}

fn call_item(call: &ToolCall) -> Item {
    Item::FunctionCall(FunctionCall {
        call_id: call.id.clone(),
        name: call.function.name.clone(),
        namespace: None,
        arguments: call.function.arguments.clone(),
    })
}
