//! Mirrors of OpenAI's JSON, and nothing else.
