//! Items of a conversation.

/// An item of a conversation, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A message of the user, the operator or the model.
    Message(Message),
    /// A call of a function by the model.
    FunctionCall(FunctionCall),
    /// A call of a custom tool by the model.
    CustomCall(CustomCall),
    /// The output of a call.
    CallOutput(CallOutput),
    /// The model's reasoning, which belongs to the assistant turn that follows it.
    Reasoning(Reasoning),
}

/// The author of a message. OpenAI's `developer` role is [`Role::System`] here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions of the operator.
    System,
    /// The person, or the program on the person's behalf.
    User,
    /// The model.
    Assistant,
}

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The content, in order.
    pub content: Vec<ContentPart>,
}

/// One part of a message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentPart {
    /// Plain text.
    Text(String),
}

/// A call of a function by the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionCall {
    /// Links the call to its output.
    pub call_id: String,
    /// Name of the function, as declared.
    pub name: String,
    /// The namespace that the function was declared in.
    pub namespace: Option<String>,
    /// The arguments as the model wrote them: JSON text, not necessarily valid.
    pub arguments: String,
}

/// A call of a custom tool by the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomCall {
    /// Links the call to its output.
    pub call_id: String,
    /// Name of the tool, as declared.
    pub name: String,
    /// The tool's input, in the tool's format.
    pub input: String,
}

/// The output of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOutput {
    /// The call that this answers.
    pub call_id: String,
    /// The kind of call.
    pub of: CallKind,
    /// The result, in order.
    pub output: Vec<ContentPart>,
}

/// Kinds of calls, which the API gives different names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// Of a function.
    Function,
    /// Of a tool of the client's own kind.
    Custom,
}

/// The model's reasoning before an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasoning {
    /// The raw text.
    pub text: String,
}
