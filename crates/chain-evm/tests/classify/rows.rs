//! Reads `node_errors.tsv`: texts of real clients with their expected outcomes.

use gapless_chain::Classified;
use gapless_chain_evm::{Classifier, Family, Method, NodeFailure, Overrides};

pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) family: String,
    pub(crate) method: String,
    pub(crate) code: Option<i64>,
    pub(crate) text: String,
    /// The expected outcome, and an acceptable alternative.
    pub(crate) outcomes: Vec<String>,
}

impl Row {
    pub(crate) fn classify_as(&self, classifier: &Classifier, family: Option<Family>, text: &str) -> Classified {
        classifier.classify(family, Method::of(&self.method), &NodeFailure::from_code(self.code, text))
    }

    pub(crate) fn family(&self) -> Option<Family> {
        Family::parse(&self.family)
    }

    pub(crate) fn allows(&self, classified: &Classified) -> bool {
        self.outcomes.contains(&format!("{:?}", classified.verdict))
    }
}

pub(crate) fn rows() -> Vec<Row> {
    include_str!("node_errors.tsv").lines().enumerate().skip(1).map(|(at, line)| row(at + 1, line)).collect()
}

pub(crate) fn classifier() -> Classifier {
    Classifier::new(Overrides::default()).unwrap()
}

fn row(line: usize, text: &str) -> Row {
    let mut cells = text.split('\t');
    let mut cell = || cells.next().unwrap_or_default().to_owned();
    let (family, method, code, text) = (cell(), cell(), cell(), cell());
    let outcomes = [cell(), cell()].into_iter().filter(|outcome| !outcome.is_empty()).collect();
    Row { line, family, method, code: code.parse().ok(), text: unescape(&text), outcomes }
}

fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => plain.push(match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                other => other.unwrap_or('\\'),
            }),
            (c, false) => plain.push(c),
        }
    }
    plain
}
