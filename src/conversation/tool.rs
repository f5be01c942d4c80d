//! Tools that a model may call.

use serde_json::{Map, Value, json};

use super::{CustomCall, FunctionCall, Output};

/// Stands between the name of a namespace and that of a function in it.
const WITHIN: char = '.';

/// The one argument by which a model is shown what a custom tool takes.
pub const CUSTOM_INPUT: &str = "input";

/// A tool as the client declares it.
#[derive(Debug, Clone, PartialEq)]
pub enum Tool {
    /// A function.
    Function(FunctionTool),
    /// Functions whose names have one beginning.
    Namespace(Namespace),
    /// A tool that takes a text.
    Custom(CustomTool),
}

/// A function that the client runs on the model's behalf.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionTool {
    /// Name by which the model calls it.
    pub name: String,
    /// Description for the model.
    pub description: Option<String>,
    /// JSON Schema of its arguments, with the client's key order kept.
    pub parameters: Option<Map<String, Value>>,
    /// True if arguments must match the schema exactly.
    pub strict: Option<bool>,
    /// Path of the schema in the request.
    pub path: String,
}

/// Functions whose names have one beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    /// The beginning.
    pub name: String,
    /// Description of the group.
    pub description: Option<String>,
    /// The functions.
    pub tools: Vec<FunctionTool>,
}

/// A tool that takes a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomTool {
    /// Name by which the model calls it.
    pub name: String,
    /// Description for the model.
    pub description: Option<String>,
    /// Format of the input.
    pub format: CustomFormat,
}

/// Format of a custom tool's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CustomFormat {
    /// Like anything.
    Text,
    /// Like a grammar says.
    Grammar {
        /// Syntax of the grammar.
        syntax: GrammarSyntax,
        /// The grammar.
        definition: String,
        /// Path of the grammar in the request.
        path: String,
    },
}

/// Syntax of a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum GrammarSyntax {
    Lark,
    Regex,
}

impl Tool {
    /// The tool as functions, under the names that the model sees and calls.
    pub fn shown(&self) -> Vec<FunctionTool> {
        match self {
            Self::Function(function) => vec![function.clone()],
            Self::Namespace(namespace) => {
                let member = |function: &FunctionTool| FunctionTool {
                    name: shown_name(Some(&namespace.name), &function.name),
                    ..function.clone()
                };
                namespace.tools.iter().map(member).collect()
            }
            Self::Custom(custom) => vec![custom.shown()],
        }
    }
}

impl CustomTool {
    /// A function of one text.
    fn shown(&self) -> FunctionTool {
        let input = match &self.format {
            CustomFormat::Text => json!({"type": "string"}),
            CustomFormat::Grammar {
                syntax, definition, ..
            } => {
                let syntax = match syntax {
                    GrammarSyntax::Lark => "Lark grammar",
                    GrammarSyntax::Regex => "regular expression",
                };
                let description = format!("A text that matches this {syntax}:\n{definition}");
                json!({"type": "string", "description": description})
            }
        };
        let parameters = json!({
            "type": "object",
            "properties": {CUSTOM_INPUT: input},
            "required": [CUSTOM_INPUT],
            "additionalProperties": false,
        });
        FunctionTool {
            name: self.name.clone(),
            description: self.description.clone(),
            parameters: parameters.as_object().cloned(),
            strict: None,
            path: String::new(),
        }
    }
}

/// The name by which a model sees and calls a function.
pub fn shown_name(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}{WITHIN}{name}"),
        None => name.to_owned(),
    }
}

/// The arguments with which a model calls what it is shown of a custom tool.
pub fn custom_arguments(input: &str) -> Map<String, Value> {
    Map::from_iter([(CUSTOM_INPUT.to_owned(), input.into())])
}

/// A call by the name that the model wrote, still without arguments.
pub fn call(tools: &[Tool], shown: &str, call_id: String) -> Output {
    for tool in tools {
        match tool {
            Tool::Custom(custom) if custom.name == shown => {
                return Output::CustomCall(CustomCall {
                    call_id,
                    name: custom.name.clone(),
                    input: String::new(),
                });
            }
            Tool::Namespace(namespace) => {
                let inside = shown.strip_prefix(namespace.name.as_str());
                let inside = inside.and_then(|rest| rest.strip_prefix(WITHIN));
                if let Some(name) = inside
                    && namespace.tools.iter().any(|tool| tool.name == name)
                {
                    return Output::FunctionCall(FunctionCall {
                        call_id,
                        name: name.to_owned(),
                        namespace: Some(namespace.name.clone()),
                        arguments: String::new(),
                    });
                }
            }
            Tool::Function(_) | Tool::Custom(_) => {}
        }
    }
    Output::FunctionCall(FunctionCall {
        call_id,
        name: shown.to_owned(),
        namespace: None,
        arguments: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> FunctionTool {
        FunctionTool {
            name: name.to_owned(),
            description: None,
            parameters: None,
            strict: None,
            path: String::new(),
        }
    }

    fn tools() -> Vec<Tool> {
        vec![
            Tool::Function(function("f")),
            Tool::Namespace(Namespace {
                name: "n".to_owned(),
                description: None,
                tools: vec![function("f"), function("g.h")],
            }),
            Tool::Custom(CustomTool {
                name: "c".to_owned(),
                description: None,
                format: CustomFormat::Grammar {
                    syntax: GrammarSyntax::Regex,
                    definition: "a+".to_owned(),
                    path: String::new(),
                },
            }),
        ]
    }

    #[test]
    fn a_call_by_any_shown_name_finds_what_was_declared() {
        let tools = tools();
        let shown: Vec<_> = tools.iter().flat_map(Tool::shown).collect();
        let names: Vec<_> = shown.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["f", "n.f", "n.g.h", "c"]);
        let found = names
            .iter()
            .map(|name| match call(&tools, name, "1".into()) {
                Output::FunctionCall(call) => (call.namespace, call.name),
                Output::CustomCall(call) => (Some("custom".to_owned()), call.name),
                other => panic!("{other:?}"),
            });
        let of = |namespace: Option<&str>, name: &str| (namespace.map(str::to_owned), name.into());
        let expected = [
            of(None, "f"),
            of(Some("n"), "f"),
            of(Some("n"), "g.h"),
            of(Some("custom"), "c"),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_was_not_declared_stays_as_the_model_wrote_it() {
        for name in ["n.x", "x", "n", "nf"] {
            let Output::FunctionCall(found) = call(&tools(), name, String::new()) else {
                panic!("{name}")
            };
            assert_eq!((found.name.as_str(), found.namespace), (name, None));
        }
    }

    #[test]
    fn a_custom_tool_is_shown_as_a_function_of_one_text() {
        let shown = tools()[2].shown().remove(0);
        let parameters = Value::from(shown.parameters.expect("a schema"));
        assert_eq!(parameters["required"], json!([CUSTOM_INPUT]));
        let described = parameters["properties"][CUSTOM_INPUT]["description"].as_str();
        assert!(described.is_some_and(|text| text.ends_with("regular expression:\na+")));
    }
}
