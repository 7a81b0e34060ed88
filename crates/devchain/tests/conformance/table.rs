//! The conformance table in the docs.

use std::fs;
use std::path::Path;

use crate::case::{Case, NodeKind};

const FILE: &str = "../../docs/devchain.md";
const BEGIN: &str = "<!-- conformance: written by the test, do not edit -->\n";
const END: &str = "<!-- end of conformance -->\n";
const WRITE_ENV: &str = "GAPLESS_WRITE_DOCS";

/// Compares the table in the docs with the cases, or rewrites the table.
pub(crate) fn check(cases: &[Case]) {
    let mut names: Vec<_> = cases.iter().map(|case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases.len(), "two cases have the same name, and so the same accounts");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let text = fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("docs/devchain.md has no begin marker of the table");
    let (old, after) = rest.split_once(END).expect("docs/devchain.md has no end marker of the table");
    let new = table(cases);
    if std::env::var_os(WRITE_ENV).is_some() {
        fs::write(&file, format!("{before}{BEGIN}{new}{END}{after}")).unwrap();
    } else {
        assert_eq!(old, new, "the table in docs/devchain.md is outdated: run this test with {WRITE_ENV}=1");
    }
}

fn table(cases: &[Case]) -> String {
    let mut lines =
        vec!["| case | geth and the dev chain | anvil | Hardhat |".to_owned(), "| --- | --- | --- | --- |".to_owned()];
    for case in cases {
        let other = |kind| if case.differs(kind) { code(case.expected(kind)) } else { "same".to_owned() };
        let geth = code(case.expected(NodeKind::DevChain));
        lines.push(format!("| {} | {geth} | {} | {} |", case.name, other(NodeKind::Anvil), other(NodeKind::Hardhat)));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A text as inline code of a table cell.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|").replace('`', "'").replace('\n', " "))
}
