//! The tools that a model may call in an answer.

use serde_json::{Map, Value};

use crate::conversation::FunctionTool;

/// The declared tools, under the names by which the model calls them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools(Vec<FunctionTool>);

impl Tools {
    pub(crate) fn new(tools: &[FunctionTool]) -> Self {
        Self(tools.to_vec())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if there is a tool of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|tool| tool.name == name)
    }

    /// The schema of a tool's arguments.
    pub(crate) fn parameters(&self, name: &str) -> Option<&Map<String, Value>> {
        let tool = self.0.iter().find(|tool| tool.name == name)?;
        tool.parameters.as_ref()
    }
}
