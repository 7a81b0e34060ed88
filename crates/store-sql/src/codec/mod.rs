//! Domain values as columns hold them, and back.
//!
//! Serde stops here: domain types stay free of it, and every SQL store writes the same words. Rows outlive releases, so
//! a field is only ever added, with a default.

mod command;
mod head;
mod history;
mod notice;
mod payload;
mod state;

use gapless_domain::{B256, BlockRef, FencingToken, Nonce, SubmitterId};
use gapless_store::RowError;

pub use command::{command_from_json, command_status, command_to_json};
pub use head::{HeadRow, head_from_row, head_to_row};
pub use history::{sends_from_json, sends_to_json};
pub use notice::{notice_from_json, notice_to_json};
pub use payload::{fees_from_json, fees_to_json, payload_from_json, payload_to_json};
pub use state::{StateRow, state_from_row, state_to_row};

/// A number of the domain, which are unsigned, from a column, which are signed.
pub fn unsigned(what: &'static str, value: i64) -> Result<u64, RowError> {
    u64::try_from(value).map_err(|error| RowError::new(what, error))
}

/// A counter never comes near the end of a BIGINT. A value beyond the end is stored as the end and not wrapped.
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

/// The block that a slot is bound above. Rows of older releases have only its number. A number without a hash cannot be
/// checked, because the chain may have another block of that number now, so such a row gives no block.
pub fn above(number: Option<i64>, hash: Option<B256>) -> Result<Option<BlockRef>, RowError> {
    match (number, hash) {
        (Some(number), Some(hash)) => Ok(Some(BlockRef { number: unsigned("above_block", number)?, hash })),
        (_, None) => Ok(None),
        (None, Some(_)) => Err(RowError::new("above_block", "a hash without a number")),
    }
}

/// How often the attempts of a slot were sent again.
pub fn tries(value: i64) -> Result<u16, RowError> {
    u16::try_from(value).map_err(|error| RowError::new("tries", error))
}

/// Parses one of the domain's fixed words.
pub fn word<T>(what: &'static str, text: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, RowError> {
    parse(text).ok_or_else(|| RowError::new(what, format!("unknown word {text:?}")))
}

fn to_json<T: serde::Serialize>(value: &T) -> String {
    // Structs of strings and numbers always serialize.
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
    fn slot_is_bound_above_a_block_with_number_and_hash() {
        let block = BlockRef { number: 7, hash: B256::repeat_byte(1) };
        assert_eq!(above(Some(7), Some(block.hash)), Ok(Some(block)));
        assert_eq!(above(Some(7), None), Ok(None), "rows of older releases");
        assert_eq!(above(None, None), Ok(None));
        assert!(above(None, Some(block.hash)).is_err() && above(Some(-1), Some(block.hash)).is_err());
    }
}
