//! The patterns of the tables and of the operator's overrides.
//!
//! A pattern is a sequence of words that has to occur in the text. Besides words there are
//! - `#`, one number (or anything that begins with a digit, such as an address),
//! - `*`, one word of any kind,
//! - `...`, up to [`MAX_GAP`] words of any kind,
//! - `{tx}` and `{account}`, numbers that are compared (see [`Reason::NonceMismatch`](crate::Reason)),
//! - `^` at the beginning and `$` at the end: only wrappers ("err:", "rpc error:", …) may come before, nothing after.
//!
//! That is less than a regular expression on purpose: an operator can read it, it cannot be slow, and it cannot match
//! half a word.

use super::words::words;

const MAX_GAP: usize = 40;
/// Each gap multiplies the positions that are tried.
const MAX_GAPS: usize = 2;
const MAX_PATTERN_BYTES: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("the pattern has no word, so it would match nearly every text")]
    NoWord,
    #[error("`{0}` is misplaced: `^` must be first, `$` last, `...` between words")]
    Misplaced(String),
    #[error("the pattern has more than {MAX_GAPS} `...`")]
    TooManyGaps,
    #[error("the pattern is longer than {MAX_PATTERN_BYTES} bytes")]
    TooLong,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Word(String),
    Number,
    Any,
    Gap,
    TxNonce,
    AccountNonce,
}

#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
    at_start: bool,
    at_end: bool,
}

/// The numbers that a pattern captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Captured {
    pub(crate) tx_nonce: Option<u64>,
    pub(crate) account_nonce: Option<u64>,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, PatternError> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(PatternError::TooLong);
        }
        let text = text.trim();
        let (text, at_start) = text.strip_prefix('^').map_or((text, false), |rest| (rest, true));
        let (text, at_end) = text.strip_suffix('$').map_or((text, false), |rest| (rest, true));
        let mut parts = Vec::new();
        for piece in text.split_whitespace() {
            match piece {
                "#" => parts.push(Part::Number),
                "*" => parts.push(Part::Any),
                "..." => parts.push(Part::Gap),
                "{tx}" => parts.push(Part::TxNonce),
                "{account}" => parts.push(Part::AccountNonce),
                _ if piece.contains(['^', '$', '*', '#', '{', '}']) || piece.contains("...") => {
                    return Err(PatternError::Misplaced(piece.to_owned()));
                }
                _ => parts.extend(words(piece).into_iter().map(Part::Word)),
            }
        }
        if parts.first() == Some(&Part::Gap) || parts.last() == Some(&Part::Gap) {
            return Err(PatternError::Misplaced("...".to_owned()));
        }
        if parts.windows(2).any(|pair| pair == [Part::Gap, Part::Gap]) {
            return Err(PatternError::Misplaced("... ...".to_owned()));
        }
        if parts.iter().filter(|part| **part == Part::Gap).count() > MAX_GAPS {
            return Err(PatternError::TooManyGaps);
        }
        if !parts.iter().any(|part| matches!(part, Part::Word(_))) {
            return Err(PatternError::NoWord);
        }
        Ok(Pattern { parts, at_start, at_end })
    }

    /// Finds the pattern in `words`. `start` is the number of leading words that are wrappers.
    pub(crate) fn find(&self, words: &[String], start: usize) -> Option<Captured> {
        let starts = if self.at_start { start..start + 1 } else { 0..words.len() };
        starts.into_iter().find_map(|at| {
            let mut captured = Captured::default();
            self.matches(&self.parts, words.get(at..)?, &mut captured).then_some(captured)
        })
    }

    /// The number of words that the pattern matches at the beginning.
    pub(crate) fn prefix_len(&self, words: &[String]) -> Option<usize> {
        let fits = self.matches(&self.parts, words, &mut Captured::default());
        fits.then_some(self.parts.len())
    }

    fn matches(&self, parts: &[Part], words: &[String], captured: &mut Captured) -> bool {
        let Some((part, parts)) = parts.split_first() else { return !self.at_end || words.is_empty() };
        if *part == Part::Gap {
            return (0..=words.len().min(MAX_GAP))
                .any(|skipped| words.get(skipped..).is_some_and(|words| self.matches(parts, words, captured)));
        }
        let Some((word, words)) = words.split_first() else { return false };
        let fits = match part {
            Part::Word(wanted) => wanted == word,
            Part::Number => word.starts_with(|c: char| c.is_ascii_digit()),
            Part::Any => true,
            Part::TxNonce => number(word).map(|n| captured.tx_nonce = Some(n)).is_some(),
            Part::AccountNonce => number(word).map(|n| captured.account_nonce = Some(n)).is_some(),
            Part::Gap => false,
        };
        fits && self.matches(parts, words, captured)
    }
}

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str) -> Option<Captured> {
        Pattern::parse(pattern).unwrap().find(&words(text), 0)
    }

    #[test]
    fn words_match_whole_and_in_order() {
        assert!(found("known transaction", "Known transaction: 0xab").is_some());
        assert!(found("known transaction", "unknown transaction").is_none());
        assert!(
            found("tx fee ... exceeds the configured cap", "tx fee (1.10 ether) exceeds the configured cap (1.00)")
                .is_some()
        );
        assert!(found("type # rejected", "type 4 rejected").is_some());
        assert!(found("^mined$", "not mined").is_none());
    }

    #[test]
    fn nonces_are_captured() {
        let captured =
            found("got {tx} expected {account}", "invalid nonce; got 3, expected 5: invalid sequence").unwrap();
        assert_eq!(captured, Captured { tx_nonce: Some(3), account_nonce: Some(5) });
    }

    #[test]
    fn meaningless_pattern_is_refused() {
        assert_eq!(Pattern::parse("* #").unwrap_err(), PatternError::NoWord);
        assert_eq!(Pattern::parse("").unwrap_err(), PatternError::NoWord);
        assert!(matches!(Pattern::parse("nonce ^low").unwrap_err(), PatternError::Misplaced(_)));
        assert!(matches!(Pattern::parse("... low").unwrap_err(), PatternError::Misplaced(_)));
        assert_eq!(Pattern::parse(&"a".repeat(500)).unwrap_err(), PatternError::TooLong);
    }
}
