//! Output format: `text.format` and `response_format`; either API takes either layout.

use crate::{
    conversation::{JsonSchema, OutputFormat, ToolChoice},
    translate::RequestError,
    wire::{
        request::{JsonSchemaFormat, TextFormat},
        response as shown,
    },
};

/// Longest name of a schema, as OpenAI has it.
const NAME_CHARS_MAX: usize = 64;

/// Translates a format; `param` is what the API calls it.
///
/// # Errors
/// What is no format. Whether a schema can be enforced is known later.
pub(super) fn format(
    param: &str,
    format: Option<TextFormat>,
) -> Result<OutputFormat, RequestError> {
    let Some(format) = format else {
        return Ok(OutputFormat::Text);
    };
    let of = |field: &str| format!("{param}.{field}");
    let kind = format.kind.as_deref();
    match kind.ok_or_else(|| RequestError::missing(of("type")))? {
        "text" => Ok(OutputFormat::Text),
        "json_object" => Ok(OutputFormat::JsonObject),
        "json_schema" => {
            let (path, schema) = match format.json_schema {
                Some(nested) => (of("json_schema"), nested),
                None => (
                    param.to_owned(),
                    JsonSchemaFormat {
                        name: format.name,
                        description: format.description,
                        schema: format.schema,
                        strict: format.strict,
                    },
                ),
            };
            json_schema(&path, schema).map(OutputFormat::JsonSchema)
        }
        other => Err(RequestError::invalid(
            of("type"),
            format!(
                "`{param}.type` must be `text`, `json_object` or `json_schema`, not `{other}`."
            ),
        )),
    }
}

fn json_schema(path: &str, format: JsonSchemaFormat) -> Result<JsonSchema, RequestError> {
    let of = |field: &str| format!("{path}.{field}");
    let name = format
        .name
        .ok_or_else(|| RequestError::missing(of("name")))?;
    let schema = format
        .schema
        .ok_or_else(|| RequestError::missing(of("schema")))?;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
        let message =
            format!("`{path}.name` must be up to {NAME_CHARS_MAX} letters, digits, `_` and `-`.");
        return Err(RequestError::invalid(of("name"), message));
    }
    Ok(JsonSchema {
        name,
        description: format.description,
        schema,
        strict: format.strict,
        path: of("schema"),
    })
}

/// Refuses a form beside a call that is demanded: each would claim the whole answer.
///
/// # Errors
/// If there are both.
pub(super) fn check_tool_choice(
    format: &OutputFormat,
    choice: &ToolChoice,
) -> Result<(), RequestError> {
    match format {
        OutputFormat::JsonObject | OutputFormat::JsonSchema(_) if choice.is_forced() => {
            Err(RequestError::invalid(
                "tool_choice",
                "`tool_choice` cannot demand a call of an answer that must have a form.",
            ))
        }
        _ => Ok(()),
    }
}

/// A format as a response shows it.
pub(super) fn shown(format: &OutputFormat) -> shown::TextFormat {
    match format {
        OutputFormat::Text => shown::TextFormat::Text,
        OutputFormat::JsonObject => shown::TextFormat::JsonObject,
        OutputFormat::JsonSchema(schema) => shown::TextFormat::JsonSchema {
            name: schema.name.clone(),
            description: schema.description.clone(),
            schema: schema.schema.clone(),
            strict: schema.strict,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn translated(value: &Value) -> Result<OutputFormat, RequestError> {
        let wire = serde_json::from_value(value.clone()).expect("a format's form");
        format("text.format", Some(wire))
    }

    #[test]
    fn both_layouts_mean_the_same() {
        let schema = json!({"name": "n", "schema": {"type": "object"}, "strict": true});
        let mut flat = schema.clone();
        flat["type"] = "json_schema".into();
        let nested = json!({"type": "json_schema", "json_schema": schema});
        let of = |value: &Value| match translated(value) {
            Ok(OutputFormat::JsonSchema(schema)) => schema,
            other => panic!("{other:?}"),
        };
        let (flat, nested) = (of(&flat), of(&nested));
        assert_eq!(flat.path, "text.format.schema");
        assert_eq!(nested.path, "text.format.json_schema.schema");
        assert_eq!((flat.schema, flat.name), (nested.schema, nested.name));
    }

    #[test]
    fn what_is_refused_names_the_parameter() {
        for (format, param) in [
            (json!({}), "text.format.type"),
            (json!({"type": "xml"}), "text.format.type"),
            (json!({"type": "json_schema"}), "text.format.name"),
            (
                json!({"type": "json_schema", "name": "n"}),
                "text.format.schema",
            ),
            (
                json!({"type": "json_schema", "name": "a b", "schema": {}}),
                "text.format.name",
            ),
            (
                json!({"type": "json_schema", "json_schema": {"name": "n"}}),
                "text.format.json_schema.schema",
            ),
        ] {
            let refusal = translated(&format).expect_err("no format");
            assert_eq!(refusal.param.as_deref(), Some(param), "{format}");
        }
    }
}
