//! Variations of known texts: wrapped, in capitals, with other numbers; and garbage.

use std::sync::LazyLock;

use crate::rows::{Row, classifier, rows};
use gapless_chain::Verdict;
use gapless_chain_evm::{Classifier, Family, Method, NodeFailure};
use proptest::prelude::*;

static CLASSIFIER: LazyLock<Classifier> = LazyLock::new(classifier);
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(rows);

/// Prefixes of libraries and proxies.
const PREFIXES: &[&str] =
    &["", "err: ", "rpc error: ", "Error: ", "RPC error: code = Unknown desc = ", "ProviderError: "];
const SUFFIXES: &[&str] =
    &["", ".", "!", " (0x7f65)", ": address 0x0499BEA33347cb62D79A9C0b1EDA01d8d329894c", " [retry 3]"];

/// Replaces long numbers. Short ones stay, because a few texts compare two nonces.
fn renumbered(text: &str, digit: u8) -> String {
    let mut out = String::new();
    let mut run = 0;
    for c in text.chars() {
        run = if c.is_ascii_digit() { run + 1 } else { 0 };
        out.push(if run > 5 { char::from(b'0' + digit) } else { c });
    }
    out
}

fn wrapped(text: &str, wrapping: usize) -> String {
    match wrapping {
        0 => text.to_owned(),
        1 => format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32000,"message":{text:?}}}}}"#),
        _ => format!("server returned an error response: error code -32000: {text}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// proves C02
    #[test]
    fn wrapping_keeps_the_outcome(
        row in 0..ROWS.len(), prefix in 0..PREFIXES.len(), suffix in 0..SUFFIXES.len(), shout: bool,
        wrapping in 0..3usize, digit in 0..10u8,
    ) {
        let row = &ROWS[row];
        // Wrapping may make an unknown text known, but not a known one unknown.
        prop_assume!(!row.outcomes.iter().any(|outcome| outcome == "Unknown"));
        // A bare name that must be alone ("Invalid", "Timeout") is not recognised with a suffix.
        let alone = row.text.split_whitespace().count() == 1;
        let suffix = if alone { "" } else { SUFFIXES[suffix] };
        let text = wrapped(&format!("{}{}{suffix}", PREFIXES[prefix], renumbered(&row.text, digit)), wrapping);
        let text = if shout { text.to_uppercase() } else { text };
        let classified = row.classify_as(&CLASSIFIER, row.family(), &text);
        let (verdict, source) = (classified.verdict, &classified.source);
        prop_assert!(row.allows(&classified), "line {}: {:?} as {:?}, {:?}", row.line, text, verdict, source);
    }

    /// proves C06
    #[test]
    fn garbage_is_unknown(
        words in "([b-df-hj-np-tv-z]{2,9}[ :,.\\n]{1,2}){0,30}",
        family in 0..=Family::ALL.len(),
        code in -33000..-32700i64,
    ) {
        let family = Family::ALL.get(family).copied();
        let classified = CLASSIFIER.classify(family, Method::Send, &NodeFailure::from_code(Some(code), &words));
        prop_assert_eq!(classified.verdict, Verdict::Unknown, "{:?}", classified.source);
    }

    #[test]
    fn arbitrary_input_does_not_panic(
        text in any::<String>(),
        code in any::<Option<i64>>(),
        family in 0..=Family::ALL.len(),
    ) {
        let family = Family::ALL.get(family).copied();
        for method in [Method::Send, Method::Call, Method::Other] {
            let classified = CLASSIFIER.classify(family, method, &NodeFailure::from_code(code, &text));
            prop_assert_ne!(classified.verdict, Verdict::Accepted);
        }
    }
}
