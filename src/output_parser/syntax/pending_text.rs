//! Pending text: received, and not settled yet.

/// Text of a model. Text that was read can be given back until it is settled: a marker counts only
/// once a call has started correctly behind it.
#[derive(Debug, Default)]
pub(crate) struct PendingText {
    text: String,
    /// Up to here all is settled.
    settled: usize,
    /// Up to here all is read.
    read: usize,
}

impl PendingText {
    /// Adds text that has come.
    pub(crate) fn push(&mut self, text: &str) {
        self.text.drain(..self.settled);
        self.read -= self.settled;
        self.settled = 0;
        self.text.push_str(text);
    }

    /// Returns the unread text.
    pub(crate) fn rest(&self) -> &str {
        &self.text[self.read..]
    }

    /// Returns the text that is not settled: read text that can be given back, and unread text.
    pub(crate) fn unsettled(&self) -> &str {
        &self.text[self.settled..]
    }

    /// Marks `bytes` bytes as read; they must end at a character.
    pub(crate) fn read(&mut self, bytes: usize) {
        self.read += bytes;
    }

    /// Reads white space.
    pub(crate) fn read_space(&mut self) {
        let rest = self.rest();
        let space = rest.len() - rest.trim_start().len();
        self.read(space);
    }

    /// Settles the read text: it can no longer be given back.
    pub(crate) fn settle(&mut self) {
        self.settled = self.read;
    }

    /// Gives back the text that was read and not settled.
    pub(crate) fn give_back(&mut self) -> String {
        let back = self.text[self.settled..self.read].to_owned();
        self.settle();
        back
    }

    /// Drops all that is left.
    pub(crate) fn drop_all(&mut self) {
        self.read = self.text.len();
        self.settle();
    }

    /// Gives back all unsettled text, read or not.
    pub(crate) fn give_all_back(&mut self) -> String {
        self.read = self.text.len();
        self.give_back()
    }
}
