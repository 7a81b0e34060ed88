//! The classifier of node errors (DESIGN §7).
//!
//! The order of the rules: the operator's overrides; "execution reverted" of the EVM, behind which a text of a contract
//! follows; the tables of the family; the texts of the transport (time-outs, rate limits); the HTTP status or the code.
//! If a text wraps another one ("…"message": "nonce too low"…"), the inner message is matched first.
//!
//! Without a family the tables of all clients are used, and their answer counts only if all that match agree.
//!
//! The accuracy on new texts was measured once, with every fifth row of `tests/classify/node_errors.tsv` unread while
//! the tables were written. The figures are in `tests/classify/table.rs`.

use std::collections::BTreeMap;

use gapless_chain::{Classified, Reason, Source};

use super::failure::{Method, NodeFailure};
use super::family::Family;
use super::overrides::Overrides;
use super::pattern::{Pattern, PatternError};
use super::revert_data::revert_data;
use super::table::{CARRIER, EXECUTION, LOOSE, REVERTS, Table, WRAPPERS};
use super::words::{inner_messages, words};

#[derive(Clone, Debug)]
pub struct Classifier {
    overrides: Overrides,
    wrappers: Vec<Pattern>,
    tables: BTreeMap<&'static str, Vec<CompiledRow>>,
}

#[derive(Clone, Debug)]
struct CompiledRow {
    reason: Reason,
    patterns: Vec<(&'static str, Pattern)>,
}

/// A matched reason and its pattern.
#[derive(Clone, Copy, Debug)]
struct Match {
    reason: Reason,
    table: &'static str,
    pattern: &'static str,
}

/// One text: its words, and the number of leading words that are wrappers.
struct Message {
    words: Vec<String>,
    start: usize,
}

impl Classifier {
    /// Fails only if a pattern of the tables is malformed, which a test excludes.
    pub fn new(overrides: Overrides) -> Result<Self, PatternError> {
        let mut tables = BTreeMap::new();
        for table in every_table() {
            tables.insert(table.name, compile(table)?);
        }
        let wrappers = WRAPPERS.iter().map(|wrapper| Pattern::parse(wrapper)).collect::<Result<_, _>>()?;
        Ok(Classifier { overrides, wrappers, tables })
    }

    /// Classifies a failure. `family` is `None` if the client is unknown.
    pub fn classify(&self, family: Option<Family>, method: Method, failure: &NodeFailure<'_>) -> Classified {
        let whole = self.message(failure.text());
        if let Some((position, verdict)) = self.overrides.find(family, &whole.words, whole.start) {
            let known = Classified::new(Reason::Override, Source::Override(position), failure.text());
            return Classified { verdict, ..known };
        }
        let found = match failure {
            // An HTML page comes from a proxy, so only its status counts.
            NodeFailure::Http { body, .. } if is_page(body) => None,
            _ => self.find_in_text(family, method, failure.text(), &whole),
        };
        match found {
            Some(found) => {
                let source = Source::Table { table: found.table, pattern: found.pattern };
                let classified = Classified::new(found.reason, source, failure.text());
                let data = if let NodeFailure::Answer { data, .. } = failure { *data } else { None };
                match found.reason {
                    Reason::Reverted => Classified { revert_data: revert_data(data, failure.text()), ..classified },
                    _ => classified,
                }
            }
            None => without_text(method, failure),
        }
    }

    fn find_in_text(&self, family: Option<Family>, method: Method, text: &str, whole: &Message) -> Option<Match> {
        if let Some(found) = self.find_in(REVERTS, whole) {
            return Some(found);
        }
        let inner: Vec<Message> = inner_messages(text).iter().map(|message| self.message(message)).collect();
        inner.iter().chain([whole]).find_map(|message| {
            let execution = if method == Method::Call { self.find_in(EXECUTION, message) } else { None };
            execution
                .or_else(|| match family.and_then(Family::tables) {
                    Some(tables) => self.find_in_tables(tables, message),
                    None => self.find_in(LOOSE, message).or_else(|| self.find_in_all(message)),
                })
                .or_else(|| self.find_in(CARRIER, message))
        })
    }

    /// The reason on which all matching families agree.
    fn find_in_all(&self, message: &Message) -> Option<Match> {
        // Families share tables, so each table is searched once.
        let mut searched: BTreeMap<&'static str, Option<Match>> = BTreeMap::new();
        let mut search =
            |table: &'static Table| *searched.entry(table.name).or_insert_with(|| self.find_in(table, message));
        let mut answers = Family::ALL
            .iter()
            .filter_map(|family| family.tables())
            .filter_map(|tables| tables.iter().find_map(|table| search(table)));
        let first = answers.next()?;
        if answers.all(|answer| answer.reason.verdict() == first.reason.verdict()) {
            Some(first)
        } else {
            Some(Match { reason: Reason::Ambiguous, ..first })
        }
    }

    fn find_in_tables(&self, tables: &[&'static Table], message: &Message) -> Option<Match> {
        tables.iter().find_map(|table| self.find_in(table, message))
    }

    fn find_in(&self, table: &'static Table, message: &Message) -> Option<Match> {
        self.tables.get(table.name)?.iter().find_map(|row| {
            row.patterns.iter().find_map(|(pattern, compiled)| {
                let captured = compiled.find(&message.words, message.start)?;
                let reason = match (row.reason, captured.tx_nonce, captured.account_nonce) {
                    (Reason::NonceMismatch, Some(tx), Some(account)) if tx < account => Reason::NonceUsed,
                    (Reason::NonceMismatch, Some(tx), Some(account)) if tx > account => Reason::NonceGap,
                    (reason, _, _) => reason,
                };
                Some(Match { reason, table: table.name, pattern })
            })
        })
    }

    fn message(&self, text: &str) -> Message {
        let words = words(text);
        let mut start = 0;
        while let Some(rest) = words.get(start..) {
            let longest = self.wrappers.iter().filter_map(|wrapper| wrapper.prefix_len(rest)).max();
            match longest {
                // A text that is only a wrapper is the message itself.
                Some(len) if len < rest.len() => start += len,
                _ => break,
            }
        }
        Message { words, start }
    }
}

/// The classification of a failure whose text matches no pattern.
fn without_text(method: Method, failure: &NodeFailure<'_>) -> Classified {
    let (reason, source) = match *failure {
        NodeFailure::TimedOut => (Reason::TimedOut, Source::Transport),
        NodeFailure::Unreachable { .. } => (Reason::Unreachable, Source::Transport),
        NodeFailure::Http { status, .. } => (of_status(status), Source::HttpStatus(status)),
        NodeFailure::Answer { code: Some(code @ -32601), .. } => (Reason::MethodMissing, Source::Code(code)),
        // The code of geth for a revert with data.
        NodeFailure::Answer { code: Some(code @ 3), .. } if method == Method::Call => {
            (Reason::Reverted, Source::Code(code))
        }
        NodeFailure::Answer { .. } => (Reason::Unrecognized, Source::NoRule),
    };
    let classified = Classified::new(reason, source, failure.text());
    match *failure {
        NodeFailure::Answer { data, text, .. } if reason == Reason::Reverted => {
            Classified { revert_data: revert_data(data, text), ..classified }
        }
        _ => classified,
    }
}

/// The reason of an HTTP status. 400 and 413 may concern the bytes or the request, so they decide nothing.
fn of_status(status: u16) -> Reason {
    match status {
        401 | 403 | 407 => Reason::Unauthorized,
        402 => Reason::QuotaExhausted,
        404 | 405 | 410 => Reason::MethodMissing,
        408 | 504 | 522 | 524 => Reason::TimedOut,
        425 | 429 => Reason::RateLimited,
        500..=599 => Reason::GatewayError,
        _ => Reason::Unrecognized,
    }
}

fn is_page(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    body.contains("<html") || body.contains("<!doctype")
}

fn every_table() -> impl Iterator<Item = &'static Table> {
    let shared = [REVERTS, EXECUTION, CARRIER, LOOSE];
    let families = Family::ALL.iter().filter_map(|family| family.tables()).flatten().copied();
    shared.into_iter().chain(families)
}

fn compile(table: &'static Table) -> Result<Vec<CompiledRow>, PatternError> {
    let compile_row = |(reason, patterns): &(Reason, &'static [&'static str])| {
        let patterns = patterns.iter().map(|text| Pattern::parse(text).map(|pattern| (*text, pattern)));
        Ok(CompiledRow { reason: *reason, patterns: patterns.collect::<Result<_, _>>()? })
    };
    table.rows.iter().map(compile_row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::table::GETH;

    /// A text that a pattern matches.
    fn example(pattern: &str) -> String {
        pattern
            .replace(['^', '$'], "")
            .replace('#', "7")
            .replace('*', "x")
            .replace("...", "x y")
            .replace("{tx}", "3")
            .replace("{account}", "5")
    }

    /// A family with the table of geth must classify texts of geth as geth does. Its own patterns above must not match
    /// them.
    #[test]
    fn families_with_geths_table_agree_with_geth() {
        let classifier = Classifier::new(Overrides::default()).unwrap();
        let families = Family::ALL.iter().filter(|f| f.tables().is_some_and(|t| t.iter().any(|t| t.name == GETH.name)));
        let mut wrong = Vec::new();
        for family in families {
            for pattern in GETH.rows.iter().flat_map(|(_, patterns)| *patterns) {
                let text = example(pattern);
                let failure = NodeFailure::from_code(Some(-32000), &text);
                let of = |family| classifier.classify(Some(family), Method::Send, &failure);
                let (theirs, geths) = (of(*family), of(Family::Geth));
                if theirs.verdict != geths.verdict {
                    wrong.push(format!("{} {text:?}: {:?} {:?}", family.as_str(), theirs.verdict, theirs.source));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Every pattern can match: no row above it in its table takes its text for another verdict.
    #[test]
    fn no_pattern_is_hidden_by_an_earlier_one() {
        let classifier = Classifier::new(Overrides::default()).unwrap();
        let mut hidden = Vec::new();
        for table in every_table() {
            for (reason, patterns) in table.rows {
                for pattern in *patterns {
                    let message = classifier.message(&example(pattern));
                    let found = classifier.find_in(table, &message).map(|found| found.reason.verdict());
                    if *reason != Reason::NonceMismatch && found != Some(reason.verdict()) {
                        hidden.push(format!("{} `{pattern}`: {found:?}", table.name));
                    }
                }
            }
        }
        assert!(hidden.is_empty(), "{}", hidden.join("\n"));
    }
}
