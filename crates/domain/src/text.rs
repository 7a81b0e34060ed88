//! Untrusted text, made safe to store.

use std::fmt;

/// Text of a node, a signer or an operator, made safe to store: control characters become spaces, and the text is cut
/// at [`NodeText::MAX_BYTES`]. PostgreSQL rejects NUL in text, so one odd answer of a node would otherwise make every
/// later commit of its lane fail.
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

/// Result of a command, in lines. A report may be longer than a [`NodeText`], because it may contain a list.
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
    fn node_text_replaces_control_characters() {
        assert_eq!(NodeText::new("nonce\0too\nlow").as_str(), "nonce too low");
    }

    #[test]
    fn command_report_keeps_lines_and_marks_a_cut() {
        assert_eq!(CommandReport::new("one\0\ntwo").as_str(), "one \ntwo");
        let long = CommandReport::new(&"x".repeat(2 * CommandReport::MAX_BYTES));
        assert_eq!(long.as_str().len(), CommandReport::MAX_BYTES);
        assert!(long.as_str().ends_with("(cut)"));
    }

    #[test]
    fn long_node_text_is_cut_at_a_character_boundary() {
        let text = NodeText::new(&"é".repeat(NodeText::MAX_BYTES));
        assert_eq!(text.as_str().len(), NodeText::MAX_BYTES);
    }
}
