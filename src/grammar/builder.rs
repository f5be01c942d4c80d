//! The rules of one grammar, as llguidance's variant of Lark writes them.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::Value;

use super::{GrammarError, ToolCallGrammar, ValueGrammar, json::schema, lark::guard};
use crate::{output_parser::CallTemplate, tokenizer::Tokenizer};

/// Calls up to which a grammar counts them: rules grow with the number.
const COUNTED_MAX: u64 = 64;

/// Placeholder in rules for call ids, which the model makes up.
const ID: &str = "ID";

/// Rules, and the grammars that they name.
pub(super) struct GrammarBuilder<'a> {
    tokenizer: &'a Tokenizer,
    grammars: Vec<GrammarWithLexer>,
    lines: String,
}

impl<'a> GrammarBuilder<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self {
            tokenizer,
            grammars: Vec::new(),
            lines: String::new(),
        }
    }

    /// Adds lines as they are.
    pub(super) fn add_lines(&mut self, lines: &str) {
        self.lines.push_str(lines);
    }

    /// Adds a rule or a terminal under a new name; returns the name.
    pub(super) fn add(&mut self, kind: &str, definition: &str) -> String {
        let name = self.unused(kind);
        self.lines.push_str(&format!("{name}: {definition}\n"));
        name
    }

    /// A name that begins so and that no rule has.
    pub(super) fn unused(&self, kind: &str) -> String {
        format!("{kind}_{}", self.lines.len())
    }

    /// Adds what a form takes; returns how rules name it.
    pub(super) fn form(&mut self, form: &ValueGrammar) -> Result<String, GrammarError> {
        Ok(match form {
            ValueGrammar::Tagged(tagged) => tagged.rules(self)?,
            ValueGrammar::Schema(value) => {
                let schema = schema::prepare(value)?;
                self.grammar(GrammarWithLexer::from_json_schema(schema))
            }
            ValueGrammar::Lark(text) => {
                guard::refuse_forbidden(text)?;
                self.grammar(GrammarWithLexer::from_lark(text.clone()))
            }
            ValueGrammar::Keyed(key, text) => {
                let before = format!("{{{}: \"", Value::from(key.as_str()));
                let before = Value::from(before);
                let text = self.grammar(GrammarWithLexer::from_lark(text.quoted()?));
                format!("{before} {text} \"\\\"}}\"")
            }
        })
    }

    /// Adds a grammar; returns how rules name it.
    pub(super) fn grammar(&mut self, mut grammar: GrammarWithLexer) -> String {
        let name = format!("form_{}", self.grammars.len());
        grammar.name = Some(name.clone());
        self.grammars.push(grammar);
        format!("@{name}")
    }

    /// Adds calls; returns how rules name them.
    pub(super) fn calls(&mut self, calls: &ToolCallGrammar) -> Result<String, GrammarError> {
        let mut choices = Vec::new();
        for call in &calls.calls {
            let arguments = self.form(&call.arguments)?;
            let (before, after) = (self.literal(&call.before), self.literal(&call.after));
            choices.push(format!("{before} {arguments} {after}"));
        }
        if choices.is_empty() {
            return Err(GrammarError::whole("there is nothing to call"));
        }
        self.add_lines(&format!("call: {}\n", choices.join("\n    | ")));
        if !calls.id.is_empty() {
            self.add_lines(&format!("{ID}: /{}/\n", calls.id));
        }
        let more = format!("({} call)", self.literal(&calls.between));
        let more = match calls.calls_max {
            Some(0 | 1) => String::new(),
            Some(most) if most <= COUNTED_MAX => format!("{more}{{0,{}}}", most - 1),
            Some(_) | None => format!("{more}*"),
        };
        let (opening, closing) = (self.literal(&calls.opening), self.literal(&calls.closing));
        Ok(format!("{opening} call {more} {closing}"))
    }

    /// Adds what admits any text, without control tokens; returns how rules name it.
    pub(super) fn text(&mut self) -> &'static str {
        const TEXT: &str = "TEXT: /(.|\\n)+/\n";
        if !self.lines.contains(TEXT) {
            self.lines.push_str(TEXT);
        }
        "TEXT"
    }

    /// Returns a text in rule notation: control tokens by their ids, the rest quoted.
    pub(super) fn literal(&self, text: &str) -> String {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            match self.first_control(rest) {
                Some((start, token_text)) => {
                    parts.extend(quoted(&rest[..start]));
                    if let Some(id) = self.tokenizer.token_id(&token_text) {
                        parts.push(format!("<[{id}]>"));
                    }
                    rest = &rest[start + token_text.len()..];
                }
                None => {
                    parts.extend(quoted(rest));
                    rest = "";
                }
            }
        }
        parts.join(" ")
    }

    /// True if a text contains a control token's text.
    pub(super) fn has_control(&self, text: &str) -> bool {
        self.first_control(text).is_some()
    }

    /// Returns the first control token's text, the longest one if several start at the same
    /// position.
    fn first_control(&self, text: &str) -> Option<(usize, String)> {
        let token_texts = self.tokenizer.control_token_texts();
        let found = token_texts
            .iter()
            .filter(|token_text| !token_text.is_empty());
        let found =
            found.filter_map(|token_text| Some((text.find(token_text.as_str())?, token_text)));
        let first =
            found.min_by_key(|(start, token_text)| (*start, usize::MAX - token_text.len()))?;
        Some((first.0, first.1.clone()))
    }

    /// The grammar that begins so.
    pub(super) fn whole(self, start: &str) -> TopLevelGrammar {
        let Self {
            mut grammars,
            lines,
            ..
        } = self;
        let lark = format!("start: {start}\n{lines}");
        grammars.insert(0, GrammarWithLexer::from_lark(lark));
        TopLevelGrammar {
            grammars,
            max_tokens: None,
        }
    }
}

/// Ids within are named, all else is quoted.
fn quoted(text: &str) -> Vec<String> {
    let quoted = |text: &str| (!text.is_empty()).then(|| Value::from(text).to_string());
    let mut parts = Vec::new();
    for (number, text) in text.split(CallTemplate::ID).enumerate() {
        parts.extend((number > 0).then(|| ID.to_owned()));
        parts.extend(quoted(text));
    }
    parts
}
