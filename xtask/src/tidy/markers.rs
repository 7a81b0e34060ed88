//! No file contains a marker for unfinished work. Open work is an issue, or an "open" statement in docs/guarantees.md,
//! where people look for it.

use super::Finding;
use super::files::SourceFile;

/// Assembled from parts, so that this file does not contain the markers itself.
const WORDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const MACRO: &str = concat!("to", "do!(");

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        for (number, line) in source.text.lines().enumerate() {
            let word = WORDS.into_iter().find(|word| contains_word(line, word));
            if let Some(marker) = word.or_else(|| line.contains(MACRO).then_some(MACRO)) {
                let text = format!("`{marker}` is left in the file: do the work, or open an issue");
                findings.push(Finding::at(&source.path, number + 1, text));
            }
        }
    }
    findings
}

fn contains_word(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_as_words_and_as_macro() {
        let text = format!("fine\n// {}: later\nlet x = {});\nlet MAX{} = 1;\n", WORDS[0], MACRO, WORDS[2]);
        let findings = check(&[SourceFile { path: "a.rs".into(), text }]);
        let lines: Vec<_> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [Some(2), Some(3)]);
    }
}
