//! Every known text, and what becomes of it.

mod support;

use support::{classifier, rows};

/// proves C02
#[test]
fn every_known_text_has_its_outcome() {
    let classifier = classifier();
    let rows = rows();
    assert!(rows.len() > 550);
    let mut wrong = Vec::new();
    for row in &rows {
        let classified = row.classify(&classifier);
        if !row.allows(&classified) {
            let held_out = if (row.line - 1).is_multiple_of(5) { " HELD" } else { "" };
            wrong.push(format!(
                "line {}{held_out} {} {:?} {:?}\n    wanted {:?}, got {:?} {:?}",
                row.line, row.family, row.code, row.text, row.outcomes, classified.verdict, classified.source
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
