//! A comment has a noun for its subject. This rule finds comment lines that open with a pronoun instead.

use super::Finding;
use super::files::SourceFile;

const BANNED: &[&str] = &[
    "Anybody",
    "Everybody",
    "Everything",
    "It",
    "Nobody",
    "Nothing",
    "Somebody",
    "The same",
    "They",
    "Those",
    "What",
    "Whatever",
    "Whichever",
    "Who",
    "Whoever",
    "Whom",
    "Whose",
];

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| source.has_extension("rs")) {
        for (number, line) in source.text.lines().enumerate() {
            if let Some(opening) = comment(line).and_then(banned_opening) {
                let text = format!("a comment opens with \"{opening}\": name the thing that it is about");
                findings.push(Finding::at(&source.path, number + 1, text));
            }
        }
    }
    findings
}

/// The text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

fn banned_opening(text: &str) -> Option<&'static str> {
    let opens_with = |opening: &&&str| {
        let rest = text.strip_prefix(**opening);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    };
    BANNED.iter().find(opens_with).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pronoun_at_start_of_any_comment_is_found() {
        for line in ["// It waits.", "    /// Whoever waits.", "//! The same, signed.", "//! What's left."] {
            let findings = check(&[SourceFile { path: "a.rs".into(), text: line.to_owned() }]);
            assert_eq!(findings.len(), 1, "{line}");
        }
    }

    #[test]
    fn nouns_and_code_pass() {
        for line in ["// Items wait.", "/// `It` is a type.", "let it = \"// It\";", "// Whole batches.", "//"] {
            assert!(check(&[SourceFile { path: "a.rs".into(), text: line.to_owned() }]).is_empty(), "{line}");
        }
    }
}
