//! Text that strangers wrote.

use std::fmt;

/// What a node (or a signer, or a caller's operator) said, made safe to keep: control characters, NUL above all, become
/// spaces, and it is cut at [`NodeText::MAX_BYTES`]. PostgreSQL refuses a NUL in text, so one odd answer of a node would
/// otherwise make every later commit of its lane fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeText(String);

impl NodeText {
    pub const MAX_BYTES: usize = 2048;

    pub fn new(text: &str) -> Self {
        let mut kept = String::with_capacity(text.len().min(Self::MAX_BYTES));
        for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
            if kept.len() + c.len_utf8() > Self::MAX_BYTES {
                break;
            }
            kept.push(c);
        }
        NodeText(kept)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What came of something that an operator asked for, in lines. Longer than what nodes say: it may have to list what it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandReport(String);

impl CommandReport {
    pub const MAX_BYTES: usize = 64 * 1024;
    const CUT: &'static str = "\n(cut)";

    pub fn new(text: &str) -> Self {
        let mut kept = String::with_capacity(text.len().min(Self::MAX_BYTES));
        for c in text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }) {
            if kept.len() + c.len_utf8() + Self::CUT.len() > Self::MAX_BYTES {
                kept.push_str(Self::CUT);
                break;
            }
            kept.push(c);
        }
        CommandReport(kept)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommandReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_survive() {
        assert_eq!(NodeText::new("nonce\0too\nlow").as_str(), "nonce too low");
    }

    #[test]
    fn a_report_keeps_its_lines_and_says_that_it_was_cut() {
        assert_eq!(CommandReport::new("one\0\ntwo").as_str(), "one \ntwo");
        let long = CommandReport::new(&"x".repeat(2 * CommandReport::MAX_BYTES));
        assert_eq!(long.as_str().len(), CommandReport::MAX_BYTES);
        assert!(long.as_str().ends_with("(cut)"));
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let text = NodeText::new(&"é".repeat(NodeText::MAX_BYTES));
        assert_eq!(text.as_str().len(), NodeText::MAX_BYTES);
    }
}
