//! The rules of one grammar, as llguidance's variant of Lark writes them.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::Value;

use super::{GrammarError, json::schema};
use crate::{output_parser::CallTemplate, tokenizer::Tokenizer};

/// Placeholder in rules for call ids, which the model makes up.
pub(super) const ID: &str = "ID";

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

    /// Returns an unused rule name with this prefix.
    pub(super) fn unused(&self, kind: &str) -> String {
        format!("{kind}_{}", self.lines.len())
    }

    /// Adds the grammar of a JSON schema; returns its name in rules.
    pub(super) fn schema(&mut self, schema: &Value) -> Result<String, GrammarError> {
        let schema = schema::prepare(schema)?;
        Ok(self.grammar(GrammarWithLexer::from_json_schema(schema)))
    }

    /// Adds a grammar; returns its name in rules.
    pub(super) fn grammar(&mut self, mut grammar: GrammarWithLexer) -> String {
        let name = format!("form_{}", self.grammars.len());
        grammar.name = Some(name.clone());
        self.grammars.push(grammar);
        format!("@{name}")
    }

    /// Adds a rule for any text without control tokens; returns its name.
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

    /// Returns the grammar with this start rule.
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
