//! The tools that a turn may call → what their arguments must look like.

use serde_json::{Map, Value, json};

use super::super::{CreateError, ServedModel, constraint};
use crate::{
    conversation::{
        CustomFormat, CustomTool, FunctionTool, GrammarSyntax, Tool, ToolChoice, Turn,
        tool::{CUSTOM_INPUT, shown_name},
    },
    grammar::{GrammarError, GrammarSpec, Shape, StartAt, TextGrammar, ValueGrammar},
    translate::{Code, RequestError},
};

/// A tool that may be called.
pub(crate) struct ToolConstraint {
    /// As the model calls it.
    pub(crate) name: String,
    /// Grammar of the arguments.
    pub(crate) form: ValueGrammar,
    /// The grammar that the form is made of, as the client wrote it.
    definition: Option<ValueGrammar>,
    /// True if the client requires it. Otherwise any object is admitted if the schema cannot be
    /// enforced.
    pub(crate) is_binding: bool,
    source: Source,
}

/// Location of the arguments' schema in the request.
enum Source {
    /// A schema, whose keywords have paths of their own.
    Schema(String),
    /// A grammar.
    Grammar(String),
    /// Nowhere: it is the server's own.
    Own,
}

/// The tools that a turn may call.
///
/// # Errors
/// When a client relies on arguments that no call has.
pub(crate) fn callable(turn: &Turn) -> Result<Vec<ToolConstraint>, RequestError> {
    if turn.raw.is_some() || turn.tool_rules.choice == ToolChoice::None {
        return Ok(Vec::new());
    }
    let mut tools = Vec::new();
    for tool in turn.tools.iter() {
        match tool {
            Tool::Function(function) => tools.push(ToolConstraint::function(None, function)?),
            Tool::Namespace(namespace) => {
                for function in &namespace.tools {
                    tools.push(ToolConstraint::function(Some(&namespace.name), function)?);
                }
            }
            Tool::Custom(custom) => tools.push(ToolConstraint::custom(custom)),
        }
    }
    tools.retain(|tool| turn.head.tools.iter().any(|shown| shown.name == tool.name));
    Ok(tools)
}

impl ToolConstraint {
    fn function(namespace: Option<&str>, function: &FunctionTool) -> Result<Self, RequestError> {
        let is_binding = function.strict == Some(true);
        let form = match &function.parameters {
            // As OpenAI has it: a function without parameters.
            None => ValueGrammar::Schema(json!({"type": "object", "additionalProperties": false})),
            Some(schema) if admits_objects(schema) => {
                let mut schema = schema.clone();
                schema.insert("type".to_owned(), "object".into());
                ValueGrammar::Schema(Value::Object(schema))
            }
            Some(_) if is_binding => {
                let path = format!("{}.type", function.path);
                let message = format!("`{path}`: the arguments of a function are an `object`.");
                return Err(RequestError::of(Code::InvalidValue, path, message));
            }
            Some(_) => ValueGrammar::object(),
        };
        Ok(Self {
            name: shown_name(namespace, &function.name),
            form,
            definition: None,
            is_binding,
            source: Source::Schema(function.path.clone()),
        })
    }

    fn custom(tool: &CustomTool) -> Self {
        let keyed = |text| ValueGrammar::Keyed(CUSTOM_INPUT.to_owned(), text);
        let (form, definition, source) = match &tool.format {
            CustomFormat::Text => (any_input(), None, Source::Own),
            CustomFormat::Grammar {
                syntax,
                definition,
                path,
            } => {
                let source = Source::Grammar(path.clone());
                let definition = definition.clone();
                match syntax {
                    GrammarSyntax::Regex => (keyed(TextGrammar::Regex(definition)), None, source),
                    GrammarSyntax::Lark => (
                        keyed(TextGrammar::Lark(definition.clone())),
                        Some(ValueGrammar::Lark(definition)),
                        source,
                    ),
                }
            }
        };
        Self {
            name: tool.name.clone(),
            form,
            definition,
            is_binding: matches!(source, Source::Grammar(_)),
            source,
        }
    }

    /// Admits any text as the input if the client's grammar is valid but cannot be enforced within
    /// JSON.
    ///
    /// # Errors
    /// If the grammar is invalid.
    pub(crate) fn settle(&mut self, model: &ServedModel) -> Result<(), GrammarError> {
        let Some(definition) = self.definition.take() else {
            return Ok(());
        };
        check(model, definition)?;
        if let Err(reason) = self.check(model) {
            tracing::info!(tool = self.name, %reason, "inputs are not kept to their grammar");
            self.form = any_input();
        }
        Ok(())
    }

    /// Checks that the grammar can be enforced.
    pub(crate) fn check(&self, model: &ServedModel) -> Result<(), GrammarError> {
        check(model, self.form.clone())
    }

    /// The refusal of a form that cannot be enforced.
    pub(crate) fn refusal(&self, error: GrammarError) -> CreateError {
        match &self.source {
            Source::Schema(path) => constraint::refusal_of(error, path),
            Source::Grammar(path) => constraint::refusal_of(error.as_whole(), path),
            Source::Own => constraint::refusal_of(error.as_whole(), "tools"),
        }
    }

    /// Admits any object from now on, if the schema is the client's and not strict.
    pub(crate) fn loosen(&mut self) {
        if !self.is_binding && matches!(self.source, Source::Schema(_)) {
            self.form = ValueGrammar::object();
        }
    }
}

/// Checks that a grammar can be enforced.
fn check(model: &ServedModel, form: ValueGrammar) -> Result<(), GrammarError> {
    let spec = GrammarSpec {
        shape: Shape::Value(form),
        start: StartAt::Immediately,
    };
    model.grammars.constraint(&spec).map(drop)
}

/// Returns the arguments' grammar of a custom tool with free input.
fn any_input() -> ValueGrammar {
    ValueGrammar::Schema(json!({
        "type": "object",
        "properties": {CUSTOM_INPUT: {"type": "string"}},
        "required": [CUSTOM_INPUT],
        "additionalProperties": false,
    }))
}

/// True if a schema's `type`, if there is one, allows objects.
fn admits_objects(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        _ => true,
    }
}
