//! Every `P3` or `N07` in a comment or a document resolves: promises to docs/promises.md, statements to
//! docs/guarantees.md.

use std::collections::BTreeSet;

use super::Finding;
use super::files::SourceFile;
use super::guarantees::statement_ids;

const PROMISES: &str = "docs/promises.md";
const STATEMENTS: &str = "docs/guarantees.md";

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Finding> {
    let document = |path: &str| sources.iter().find(|source| source.path.as_os_str() == path);
    let mut known: BTreeSet<&str> = BTreeSet::new();
    known.extend(document(PROMISES).into_iter().flat_map(|promises| promise_ids(&promises.text)));
    known.extend(document(STATEMENTS).into_iter().flat_map(|statements| statement_ids(&statements.text)));
    let letters: BTreeSet<char> = known.iter().filter_map(|id| id.chars().next()).collect();
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| is_scanned(source)) {
        for (number, line) in source.text.lines().enumerate() {
            let Some(prose) = prose(source, line) else { continue };
            for id in ids(prose).filter(|id| id.starts_with(|first| letters.contains(&first)) && !known.contains(id)) {
                let text = format!("{id} is neither a promise of {PROMISES} nor a statement of {STATEMENTS}");
                findings.push(Finding::at(&source.path, number + 1, text));
            }
        }
    }
    findings
}

/// This tool's own tests speak of statements that do not exist.
fn is_scanned(source: &SourceFile) -> bool {
    (source.has_extension("rs") && source.path.starts_with("crates")) || source.has_extension("md")
}

/// Of Rust files only the comments: `U64` and `B64` in code are types.
fn prose<'a>(source: &SourceFile, line: &'a str) -> Option<&'a str> {
    if source.has_extension("rs") { line.split_once("//").map(|(_, comment)| comment) } else { Some(line) }
}

/// Words of the form `P3` or `N07`.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|between: char| !between.is_alphanumeric() && between != '_').filter(|word| {
        let digits = word.get(1..).unwrap_or_default();
        let length = if word.starts_with('P') { 1 } else { 2 };
        word.starts_with(|first: char| first.is_ascii_uppercase())
            && digits.len() == length
            && digits.chars().all(|digit| digit.is_ascii_digit())
    })
}

/// The promises are written as `- **P1 Exactly once.** …`.
fn promise_ids(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("- **")?.split(' ').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.to_owned() }
    }

    #[test]
    fn unknown_promise_and_statement_are_found() {
        let sources = [
            file(PROMISES, "- **P1 Exactly once.** An intent.\n"),
            file(STATEMENTS, "- N01 One owner.\n"),
            file("crates/a.rs", "// P1, N01 and U64 are fine.\nlet N02: P2 = U64;\n// N02 (P2) is not.\n"),
        ];
        let lines: Vec<_> = check(&sources).iter().map(Finding::to_string).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("crates/a.rs:3: N02 is neither"), "{lines:?}");
        assert!(lines[1].starts_with("crates/a.rs:3: P2 is neither"), "{lines:?}");
    }
}
