//! Domain values as rows hold them, and back.
//!
//! Serde stops here: domain types stay free of it, and every SQL store writes the same words. Rows outlive releases, so
//! fields are only ever added, with a default.

mod command;
mod head;
mod history;
mod notice;
mod payload;
mod state;

use gapless_domain::{B256, BlockRef, FencingToken, Nonce, SubmitterId};

pub use command::{command_from_json, command_status, command_to_json};
pub use head::{HeadRow, head_from_row, head_to_row};
pub use history::{sends_from_json, sends_to_json};
pub use notice::{notice_from_json, notice_to_json};
pub use payload::{fees_from_json, fees_to_json, payload_from_json, payload_to_json};
pub use state::{StateRow, state_from_row, state_to_row};

/// A row that does not hold what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {problem}")]
pub struct RowError {
    pub what: &'static str,
    pub problem: String,
}

impl RowError {
    pub fn new(what: &'static str, problem: impl ToString) -> Self {
        RowError { what, problem: problem.to_string() }
    }
}

/// Databases hold signed numbers, the domain unsigned ones.
pub fn unsigned(what: &'static str, value: i64) -> Result<u64, RowError> {
    u64::try_from(value).map_err(|error| RowError::new(what, error))
}

/// Our counters never come near the end of a BIGINT; a value beyond it is kept at the end rather than wrapped.
pub fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub fn nonce(value: i64) -> Result<Nonce, RowError> {
    Nonce::new(unsigned("nonce", value)?).map_err(|error| RowError::new("nonce", error))
}

pub fn token(value: i64) -> Result<FencingToken, RowError> {
    unsigned("fencing_token", value).map(FencingToken::new)
}

pub fn submitter(text: &str) -> Result<SubmitterId, RowError> {
    text.parse().map_err(|error| RowError::new("submitter", error))
}

/// The block that a slot is bound above. Rows of older releases have its number only, which is worth nothing on a chain that has
/// another block of that number: they have none.
pub fn above(number: Option<i64>, hash: Option<B256>) -> Result<Option<BlockRef>, RowError> {
    match (number, hash) {
        (Some(number), Some(hash)) => Ok(Some(BlockRef { number: unsigned("above_block", number)?, hash })),
        (_, None) => Ok(None),
        (None, Some(_)) => Err(RowError::new("above_block", "a hash without a number")),
    }
}

/// How often a slot was sent again.
pub fn tries(value: i64) -> Result<u16, RowError> {
    u16::try_from(value).map_err(|error| RowError::new("tries", error))
}

/// Parses one of the domain's fixed words.
pub fn word<T>(what: &'static str, text: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, RowError> {
    parse(text).ok_or_else(|| RowError::new(what, format!("unknown word {text:?}")))
}

fn to_json<T: serde::Serialize>(value: &T) -> String {
    // Plain structs of strings and numbers always serialize.
    serde_json::to_string(value).unwrap_or_default()
}

fn from_json<'a, T: serde::Deserialize<'a>>(what: &'static str, json: &'a str) -> Result<T, RowError> {
    serde_json::from_str(json).map_err(|error| RowError::new(what, error))
}

fn parsed<T: std::str::FromStr>(what: &'static str, text: &str) -> Result<T, RowError>
where
    T::Err: ToString,
{
    text.parse().map_err(|error: T::Err| RowError::new(what, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_bound_above_a_block_or_above_nothing() {
        let block = BlockRef { number: 7, hash: B256::repeat_byte(1) };
        assert_eq!(above(Some(7), Some(block.hash)), Ok(Some(block)));
        assert_eq!(above(Some(7), None), Ok(None), "as older releases wrote it");
        assert_eq!(above(None, None), Ok(None));
        assert!(above(None, Some(block.hash)).is_err() && above(Some(-1), Some(block.hash)).is_err());
    }
}
