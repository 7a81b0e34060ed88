//! Finding the comments that say which statement a test proves.
//!
//! The text is scanned and not the syntax tree, because plain comments are not in the tree, and neither are functions
//! inside a macro such as `proptest!`.

use std::path::PathBuf;

use crate::tidy::Finding;
use crate::tidy::files::SourceFile;

/// One function that proves one statement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    pub(crate) line: usize,
    pub(crate) function: String,
}

#[derive(Default)]
pub(crate) struct Found {
    pub(crate) proofs: Vec<Proof>,
    pub(crate) findings: Vec<Finding>,
}

pub(crate) fn scan(source: &SourceFile) -> Found {
    let lines: Vec<&str> = source.text.lines().map(str::trim).collect();
    let mut found = Found::default();
    for (number, line) in lines.iter().enumerate() {
        let ids = ids_in(line);
        if ids.is_empty() {
            continue;
        }
        let place = |text: &str| Finding::at(&source.path, number + 1, format!("`proves {}` {text}", ids.join(", ")));
        match below(lines.get(number + 1..).unwrap_or_default()) {
            Below::Function(function) => found.proofs.extend(ids.iter().map(|id| Proof {
                id: (*id).to_owned(),
                path: source.path.clone(),
                line: number + 1,
                function: function.to_owned(),
            })),
            Below::Ignored => found.findings.push(place("stands above an ignored test, which proves nothing")),
            Below::SomethingElse => found.findings.push(place("does not stand directly above a function")),
        }
    }
    found
}

/// The ids in a comment `proves N01`, `proves N01, N02 and N03: why`; none if the line is no such comment.
fn ids_in(line: &str) -> Vec<&str> {
    if !line.starts_with("//") {
        return Vec::new();
    }
    let mut words = line.split([' ', ',', ':', ';', '.', '(', ')', '`', '/', '!']).filter(|word| !word.is_empty());
    if !words.any(|word| word.eq_ignore_ascii_case("proves")) {
        return Vec::new();
    }
    words.filter(|word| *word != "and").take_while(|word| is_id(word)).collect()
}

/// Looser than the real form (a letter and two digits), so that `proves N1` is an unknown id and not overlooked.
fn is_id(word: &str) -> bool {
    let digits = word.trim_start_matches(|first: char| first.is_ascii_uppercase());
    digits.len() + 1 == word.len() && !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit())
}

enum Below<'a> {
    Function(&'a str),
    Ignored,
    SomethingElse,
}

/// Finds the item below a comment. Comments and attributes may stand in between, an empty line may not.
fn below<'a>(lines: &[&'a str]) -> Below<'a> {
    let mut open_brackets = 0;
    let mut is_ignored = false;
    for line in lines {
        if open_brackets > 0 || line.starts_with("#[") {
            is_ignored |= line.starts_with("#[ignore");
            open_brackets += line.matches('[').count();
            open_brackets = open_brackets.saturating_sub(line.matches(']').count());
        } else if !line.starts_with("//") || line.starts_with("//!") {
            return match function_name(line) {
                Some(_) if is_ignored => Below::Ignored,
                Some(name) => Below::Function(name),
                None => Below::SomethingElse,
            };
        }
    }
    Below::SomethingElse
}

fn function_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let qualifies = |word: &str| matches!(word, "async" | "const") || word.starts_with("pub");
    let first = words.by_ref().find(|word| !qualifies(word))?;
    if first != "fn" {
        return None;
    }
    words.next()?.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan_text(text: &str) -> (Vec<(String, String)>, Vec<String>) {
        let found = scan(&SourceFile { path: "a.rs".into(), text: text.to_owned() });
        let proofs = found.proofs.into_iter().map(|proof| (proof.id, proof.function)).collect();
        (proofs, found.findings.iter().map(Finding::to_string).collect())
    }

    fn pair(id: &str, function: &str) -> (String, String) {
        (id.to_owned(), function.to_owned())
    }

    #[test]
    fn line_and_doc_comments_are_read_over_attributes() {
        let text = "// proves N01\nfn one() {}\n\
                    /// Proves N02, N03 and S01: because.\n/// More words.\n\
                    #[tokio::test(\n    flavor = \"x\"\n)]\n#[cfg(unix)]\npub(crate) async fn two<T>() {}\n";
        let (proofs, findings) = scan_text(text);
        assert_eq!(proofs, [pair("N01", "one"), pair("N02", "two"), pair("N03", "two"), pair("S01", "two")]);
        assert!(findings.is_empty());
    }

    #[test]
    fn proof_comment_away_from_function_is_found() {
        for text in [
            "// proves N01\n\nfn one() {}\n",
            "// proves N01\nstruct S;\n",
            "//! proves N01\n",
            "fn one() {\n    // proves N01\n    let fn_like = 1;\n}\n",
        ] {
            let (proofs, findings) = scan_text(text);
            assert!(proofs.is_empty(), "{text}");
            assert_eq!(findings.len(), 1, "{text}");
            assert!(findings[0].contains("does not stand directly above a function"));
        }
    }

    #[test]
    fn ignored_test_proves_no_statement() {
        let (proofs, findings) = scan_text("// proves N01\n#[test]\n#[ignore = \"slow\"]\nfn one() {}\n");
        assert!(proofs.is_empty());
        assert!(findings[0].contains("ignored"));
    }

    #[test]
    fn prose_is_no_proof_and_mistyped_id_is_kept() {
        let (proofs, findings) =
            scan_text("// this proves nothing\nlet proves = \"proves N01\";\n// proves N1\nfn one() {}\n");
        assert_eq!(proofs, [pair("N1", "one")]);
        assert!(findings.is_empty());
    }
}
