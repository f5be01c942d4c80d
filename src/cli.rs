//! The command line: flags first, meaning second.
