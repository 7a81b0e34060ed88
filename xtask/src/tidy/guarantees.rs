//! `docs/guarantees.md`: every statement that must be proven, and the tests that prove it.
//!
//! The statements are written by hand in that file, the proofs below each are generated from the comments that the
//! tests carry:
//!
//! ```text
//! /// proves N02: the same node comes back after expiry
//! #[test]
//! fn takeover_raises_the_token() { … }
//! ```

mod document;
mod proofs;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use self::proofs::Proof;
use super::Finding;
use super::files::SourceFile;

/// The ids of all statements in the text of the document.
pub(crate) fn statement_ids(text: &str) -> impl Iterator<Item = &str> {
    document::statements(text).into_iter().map(|(_, id)| id)
}

const DOCUMENT: &str = "docs/guarantees.md";

pub(crate) fn check(root: &Path, sources: &[SourceFile], fix: bool) -> Result<Vec<Finding>> {
    let path = root.join(DOCUMENT);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let mut findings = Vec::new();
    let mut proofs = Vec::new();
    for source in sources.iter().filter(|source| is_scanned(source)) {
        let found = proofs::scan(source);
        proofs.extend(found.proofs);
        findings.extend(found.findings);
    }
    let (current, more) = judge(&text, &proofs);
    findings.extend(more);
    if current != text {
        if fix {
            fs::write(&path, current).with_context(|| format!("cannot write {DOCUMENT}"))?;
        } else {
            findings.push(Finding::of(DOCUMENT, "the list of proofs is out of date: run `cargo xtask tidy --fix`"));
        }
    }
    Ok(findings)
}

/// Gives the document as it should be, with the findings about statements and proofs.
fn judge(text: &str, proofs: &[Proof]) -> (String, Vec<Finding>) {
    let statements = document::statements(text);
    let mut findings: Vec<Finding> = statements
        .iter()
        .enumerate()
        .filter(|(number, (_, id))| statements.iter().take(*number).any(|(_, earlier)| earlier == id))
        .map(|(_, (line, id))| Finding::at(DOCUMENT, *line, format!("statement {id} is listed twice")))
        .collect();
    findings.extend(proofs.iter().filter(|proof| !statements.iter().any(|(_, id)| *id == proof.id)).map(|proof| {
        Finding::at(&proof.path, proof.line, format!("proves {}, which is no statement of {DOCUMENT}", proof.id))
    }));
    (document::rewrite(text, proofs), findings)
}

/// Only files of the crates count. Tests of this tool and experiments may mention proofs without proving anything.
fn is_scanned(source: &SourceFile) -> bool {
    source.has_extension("rs") && source.path.starts_with("crates")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Guarantees\n\nProven: 0 of 2 statements.\n\n## N. Nonces\n- N01 One owner.\n  - open\n\
                        - N02 Token\n  rises.\n  - open\n";

    fn proof(id: &str, function: &str) -> Proof {
        Proof { id: id.to_owned(), path: "crates/a/src/b.rs".into(), line: 3, function: function.to_owned() }
    }

    #[test]
    fn unknown_statement_is_found_with_its_line() {
        let (_, findings) = judge(TEXT, &[proof("N99", "f")]);
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].to_string(),
            format!("crates/a/src/b.rs:3: proves N99, which is no statement of {DOCUMENT}")
        );
    }

    #[test]
    fn duplicate_statement_is_found() {
        let (_, findings) = judge("- N01 a\n- N01 b\n", &[]);
        assert_eq!(findings, [Finding::at(DOCUMENT, 2, "statement N01 is listed twice")]);
    }

    #[test]
    fn new_proof_makes_document_stale_until_rewritten() {
        assert_eq!(judge(TEXT, &[]).0, TEXT);
        let proofs = [proof("N02", "rises")];
        let (current, findings) = judge(TEXT, &proofs);
        assert!(findings.is_empty());
        assert_ne!(current, TEXT);
        assert_eq!(judge(&current, &proofs).0, current);
        assert_eq!(judge(&current, &[]).0, TEXT);
    }
}
