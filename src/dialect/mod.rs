//! How model families write tool calls and reasoning in their text, one file per family.
