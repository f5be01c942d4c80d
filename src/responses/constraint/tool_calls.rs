//! Output constraint for tool calls: keeps forced and strict calls to the model's format, the
//! tools, and their arguments' schemas.

use super::{
    super::{CreateError, ServedModel, constraint, run::decoder::prompt_end},
    tools::{ToolConstraint, callable},
};
use crate::{
    conversation::{ToolChoice, Turn},
    grammar::{
        GrammarError, GrammarSpec, Shape, StartAt, StructuralTags, ToolCallGrammar, Trigger,
        ValueGrammar,
    },
    id::TokenId,
    output_parser::{CallTemplate, FENCE, Family, LENIENT_OPENINGS},
    sampling::Constraint,
    translate::{Code, RequestError},
};

/// Opens a Harmony model's reasoning.
const HARMONY_REASONING: &str = "<|channel|>analysis<|message|>";

/// Ends them, and begins the next message.
const HARMONY_NEXT: &str = "<|end|><|start|>assistant";

/// An output constraint; `None` if unconstrained.
type Kept = Option<Box<dyn Constraint>>;

/// Builds the constraint for a turn with tools. It forces the required calls, or keeps optional
/// calls to strict schemas.
///
/// # Errors
/// If a strict schema or a forced call cannot be enforced.
pub(crate) fn constraint(
    model: &ServedModel,
    turn: &Turn,
    prompt: &[TokenId],
) -> Result<Kept, CreateError> {
    let mut tools = callable(turn)?;
    for tool in &mut tools {
        tool.settle(model).map_err(|error| tool.refusal(error))?;
    }
    let rules = Rules {
        model,
        turn,
        prompt,
    };
    match turn.tool_rules.choice.is_forced() && !tools.is_empty() {
        true => rules.forced(tools),
        false => rules.free(tools),
    }
}

struct Rules<'a> {
    model: &'a ServedModel,
    turn: &'a Turn,
    prompt: &'a [TokenId],
}

impl Rules<'_> {
    /// Makes the model call. Where it is not known how it writes calls, it has been told to, which must
    /// do.
    fn forced(&self, mut tools: Vec<ToolConstraint>) -> Result<Kept, CreateError> {
        let Some((wrapper, most)) = self.wrapper() else {
            return self.free(tools);
        };
        let attempt = |tools: &[ToolConstraint]| {
            let spec = GrammarSpec {
                shape: Shape::ToolCalls(ToolCallGrammar::of(&wrapper, &functions(tools), most)),
                start: self.start(),
            };
            or_unsupported(self.model.grammars.constraint(&spec))
        };
        if let Some(constraint) = attempt(&tools)? {
            return Ok(Some(constraint));
        }
        for tool in &mut tools {
            match tool.check(self.model) {
                Ok(()) => {}
                Err(error) if tool.is_binding => return Err(tool.refusal(error)),
                Err(reason) => {
                    tracing::info!(tool = tool.name, %reason, "tool schema not enforced");
                    tool.loosen();
                }
            }
        }
        if let Some(constraint) = attempt(&tools)? {
            return Ok(Some(constraint));
        }
        // Each for itself can be enforced, all together cannot.
        tracing::info!("tool schemas not enforced: too expensive");
        tools.iter_mut().for_each(ToolConstraint::loosen);
        match attempt(&tools)? {
            None if tools.iter().any(|tool| tool.is_binding) => Err(too_much().into()),
            kept => Ok(kept),
        }
    }

    /// Lets the model say what it likes, and keeps the calls in it to what the client relies on.
    fn free(&self, mut tools: Vec<ToolConstraint>) -> Result<Kept, CreateError> {
        if !tools.iter().any(|tool| tool.is_binding) {
            return Ok(None);
        }
        for tool in tools.iter().filter(|tool| tool.is_binding) {
            tool.check(self.model)
                .map_err(|error| tool.refusal(error))?;
        }
        tools.iter_mut().for_each(ToolConstraint::loosen);
        let begins = self.begins(&tools);
        if begins.is_empty() {
            return Ok(None);
        }
        let parser_spec = &self.model.parser_spec;
        let watch = StructuralTags {
            triggers: begins,
            reasoning_markers: parser_spec
                .thinking
                .map(|thinking| (thinking.open.to_owned(), thinking.close.to_owned())),
            in_reasoning: parser_spec.opens_reasoning(&prompt_end(self.model, self.prompt)),
        };
        match or_unsupported(self.model.grammars.watching(&watch))? {
            None => Err(too_much().into()),
            kept => Ok(kept),
        }
    }

    /// Returns the triggers of calls, in the model's format.
    fn begins(&self, tools: &[ToolConstraint]) -> Vec<Trigger> {
        let parser_spec = &self.model.parser_spec;
        let mut begins = Vec::new();
        match (parser_spec.wrapper, parser_spec.marker()) {
            (None, _) => {}
            (Some(wrapper), Some(marker)) => {
                // Without an end to them, one call after the other begins with the marker.
                let most = match wrapper.closing.is_empty() {
                    true => Some(1),
                    false => self.most(),
                };
                let calls = ToolCallGrammar::of(&wrapper, &functions(tools), most);
                begins.push(Trigger {
                    marker: marker.to_owned(),
                    at_start: false,
                    calls: calls.behind(marker),
                });
            }
            (Some(wrapper), None) => begins.extend(bare(&wrapper, tools, &parser_spec.openings())),
        }
        if self.is_lenient() {
            begins.extend(bare(&CallTemplate::LISTED, tools, &LENIENT_OPENINGS));
        }
        begins
    }

    /// Returns where forced calls start.
    fn start(&self) -> StartAt {
        match self.model.parser_spec.family {
            Some(Family::Harmony) => StartAt::AfterMessage {
                open: HARMONY_REASONING.to_owned(),
                close: HARMONY_NEXT.to_owned(),
            },
            _ => constraint::start(self.model, self.turn, self.prompt),
        }
    }

    /// Returns the call template for forced calls, and the most calls; `None` if the format cannot
    /// be forced.
    fn wrapper(&self) -> Option<(CallTemplate, Option<u64>)> {
        let own = self.model.parser_spec.wrapper;
        let own = own.map(|wrapper| match self.model.parser_spec.family {
            // A call ends the answer.
            Some(Family::Harmony) => (wrapper, Some(1)),
            _ => (wrapper, self.most()),
        });
        // Without one of its own, what is read leniently is one call and nothing else.
        own.or(self.is_lenient().then_some((CallTemplate::LISTED, Some(1))))
    }

    fn is_lenient(&self) -> bool {
        self.model.lenient_tool_calls && self.model.parser_spec.family != Some(Family::Harmony)
    }

    /// Most calls of the answer, if there is a most. A tool that is named is called once, as OpenAI has
    /// it.
    fn most(&self) -> Option<u64> {
        let rules = &self.turn.tool_rules;
        match rules.choice {
            ToolChoice::Named(_) => Some(1),
            _ => Some(rules.calls_limit()).filter(|most| *most < u64::MAX),
        }
    }
}

/// Calls that only their place tells from other JSON: of such a tool, the arguments are kept to what the
/// client relies on as soon as its name has come.
fn bare(wrapper: &CallTemplate, tools: &[ToolConstraint], openings: &[&str]) -> Vec<Trigger> {
    let mut begins = Vec::new();
    for tool in tools.iter().filter(|tool| tool.is_binding) {
        for opening in openings {
            let (before, after) = (wrapper.before_name, wrapper.before_arguments);
            // A code fence that stays open is no call.
            let close = match opening.starts_with(FENCE) {
                true => ["\n", FENCE].concat(),
                false => String::new(),
            };
            let rest = [wrapper.after_arguments, &close].concat();
            begins.push(Trigger {
                marker: [opening, before, tool.name.as_str(), after].concat(),
                at_start: true,
                calls: ToolCallGrammar::rest(tool.form.clone(), &rest),
            });
        }
    }
    begins
}

fn functions(tools: &[ToolConstraint]) -> Vec<(String, ValueGrammar)> {
    let function = |tool: &ToolConstraint| (tool.name.clone(), tool.form.clone());
    tools.iter().map(function).collect()
}

/// Returns `None` if the grammar cannot be enforced.
fn or_unsupported(
    constraint: Result<Box<dyn Constraint>, GrammarError>,
) -> Result<Kept, CreateError> {
    match constraint {
        Ok(constraint) => Ok(Some(constraint)),
        Err(GrammarError::Unsupported { reason, .. }) => {
            tracing::debug!(reason, "call grammar not enforced");
            Ok(None)
        }
        Err(GrammarError::Broken(reason)) => Err(CreateError::Broken(reason)),
    }
}

fn too_much() -> RequestError {
    let message = "What `tools` ask of arguments takes too much to be enforced together.";
    RequestError::of(Code::InvalidValue, "tools", message)
}
