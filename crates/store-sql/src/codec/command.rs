//! Commands as a word and JSON.

use gapless_domain::{CommandKind, CommandReport, CommandResult, CommandStatus, LockOwner, LostRule, SignedTx};
use serde::{Deserialize, Serialize};

use gapless_store::RowError;

use super::payload::JsonRow;
use super::{from_json, nonce, parsed, signed, to_json, word};

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum CommandBody {
    Cancel { tx_id: String },
    Replace { tx_id: String, payload: JsonRow },
    Resubmit { tx_id: String, fees: Option<JsonRow> },
    CancelPending,
    Pause,
    Resume,
    Unprotect,
    Resync { lost: String, dry_run: bool },
    UseReserved { nonce: i64, lock_owner: String, hash: String, raw: String, fees: JsonRow, cost: String },
    ReleaseReserved { nonce: i64, lock_owner: String },
}

pub fn command_to_json(kind: &CommandKind) -> String {
    to_json(&match kind {
        CommandKind::Cancel { tx_id } => CommandBody::Cancel { tx_id: tx_id.to_string() },
        CommandKind::Replace { tx_id, payload } => {
            CommandBody::Replace { tx_id: tx_id.to_string(), payload: JsonRow(payload.to_row()) }
        }
        CommandKind::Resubmit { tx_id, fees } => {
            CommandBody::Resubmit { tx_id: tx_id.to_string(), fees: fees.as_ref().map(|fees| JsonRow(fees.to_row())) }
        }
        CommandKind::CancelPending => CommandBody::CancelPending,
        CommandKind::Pause => CommandBody::Pause,
        CommandKind::Resume => CommandBody::Resume,
        CommandKind::Unprotect => CommandBody::Unprotect,
        CommandKind::Resync { lost, dry_run } => {
            CommandBody::Resync { lost: lost.as_str().to_owned(), dry_run: *dry_run }
        }
        CommandKind::UseReserved { nonce, lock_owner, signed: tx, fees, cost } => CommandBody::UseReserved {
            nonce: signed(nonce.get()),
            lock_owner: lock_owner.to_string(),
            hash: tx.hash.to_string(),
            raw: tx.raw.to_string(),
            fees: JsonRow(fees.to_row()),
            cost: cost.to_string(),
        },
        CommandKind::ReleaseReserved { nonce, lock_owner } => {
            CommandBody::ReleaseReserved { nonce: signed(nonce.get()), lock_owner: lock_owner.to_string() }
        }
    })
}

pub fn command_from_json(json: &str) -> Result<CommandKind, RowError> {
    Ok(match from_json("command", json)? {
        CommandBody::Cancel { tx_id } => CommandKind::Cancel { tx_id: parsed("tx_id", &tx_id)? },
        CommandBody::Replace { tx_id, payload } => {
            CommandKind::Replace { tx_id: parsed("tx_id", &tx_id)?, payload: payload.payload()? }
        }
        CommandBody::Resubmit { tx_id, fees } => CommandKind::Resubmit {
            tx_id: parsed("tx_id", &tx_id)?,
            fees: fees.as_ref().map(JsonRow::fees).transpose()?,
        },
        CommandBody::CancelPending => CommandKind::CancelPending,
        CommandBody::Pause => CommandKind::Pause,
        CommandBody::Resume => CommandKind::Resume,
        CommandBody::Unprotect => CommandKind::Unprotect,
        CommandBody::Resync { lost, dry_run } => {
            CommandKind::Resync { lost: word("lost rule", &lost, LostRule::parse)?, dry_run }
        }
        CommandBody::UseReserved { nonce: number, lock_owner, hash, raw, fees, cost } => CommandKind::UseReserved {
            nonce: nonce(number)?,
            lock_owner: owner(&lock_owner)?,
            signed: SignedTx { hash: parsed("hash", &hash)?, raw: parsed("raw", &raw)? },
            fees: fees.fees()?,
            cost: parsed("cost", &cost)?,
        },
        CommandBody::ReleaseReserved { nonce: number, lock_owner } => {
            CommandKind::ReleaseReserved { nonce: nonce(number)?, lock_owner: owner(&lock_owner)? }
        }
    })
}

/// The status of a command by its columns. The result is NULL while the command is open.
pub fn command_status(result: Option<&str>, refused: bool) -> CommandStatus {
    match result.map(CommandReport::new) {
        None => CommandStatus::Open,
        Some(report) if refused => CommandStatus::Over(CommandResult::Refused(report)),
        Some(report) => CommandStatus::Over(CommandResult::Done(report)),
    }
}

fn owner(text: &str) -> Result<LockOwner, RowError> {
    LockOwner::new(text).ok_or_else(|| RowError::new("lock_owner", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::{Amount, B256, Bytes, Fees, Nonce, TxId, U256, samples};

    #[test]
    fn commands_round_trip() {
        let tx_id: TxId = "018f0000-0000-7000-8000-000000000001".parse().unwrap();
        let lock_owner = LockOwner::new("me").unwrap();
        for kind in [
            CommandKind::Cancel { tx_id },
            CommandKind::Replace { tx_id, payload: samples::transfer(1_u64).into() },
            CommandKind::Resubmit { tx_id, fees: None },
            CommandKind::Resubmit { tx_id, fees: Some(Fees::flat(1)) },
            CommandKind::CancelPending,
            CommandKind::Pause,
            CommandKind::Resume,
            CommandKind::Unprotect,
            CommandKind::Resync { lost: LostRule::Requeue, dry_run: true },
            CommandKind::Resync { lost: LostRule::Fail, dry_run: false },
            CommandKind::UseReserved {
                nonce: Nonce::ZERO,
                lock_owner: lock_owner.clone(),
                signed: SignedTx { hash: B256::repeat_byte(3), raw: Bytes::from_static(&[1]) },
                fees: Fees::with_tip(u128::MAX, 0),
                cost: Amount::new(U256::MAX),
            },
            CommandKind::ReleaseReserved { nonce: Nonce::ZERO, lock_owner },
        ] {
            assert_eq!(command_from_json(&command_to_json(&kind)), Ok(kind));
        }
    }

    /// The exact text of rows with a payload or a price. Two releases may run on one database.
    #[test]
    fn command_rows_keep_their_exact_form() {
        let tx_id: TxId = "018f0000-0000-7000-8000-000000000001".parse().unwrap();
        let signed = SignedTx { hash: B256::repeat_byte(3), raw: Bytes::from_static(&[1, 255]) };
        for (kind, expected) in [
            (
                CommandKind::Replace { tx_id, payload: samples::transfer(1_u64).into() },
                concat!(
                    r#"{"kind":"replace","tx_id":"018f0000-0000-7000-8000-000000000001","payload":{"kind":"evm","#,
                    r#""to":"0x1111111111111111111111111111111111111111","value":"1","data":"0x"}}"#
                ),
            ),
            (
                CommandKind::Resubmit { tx_id, fees: None },
                r#"{"kind":"resubmit","tx_id":"018f0000-0000-7000-8000-000000000001","fees":null}"#,
            ),
            (
                CommandKind::Resubmit { tx_id, fees: Some(Fees::flat(7)) },
                r#"{"kind":"resubmit","tx_id":"018f0000-0000-7000-8000-000000000001","fees":{"gas_price":"7"}}"#,
            ),
            (
                CommandKind::Resubmit { tx_id, fees: Some(Fees::with_tip(9, 1)) },
                concat!(
                    r#"{"kind":"resubmit","tx_id":"018f0000-0000-7000-8000-000000000001","#,
                    r#""fees":{"max_fee":"9","max_priority_fee":"1"}}"#
                ),
            ),
            (
                CommandKind::UseReserved {
                    nonce: Nonce::new(5).unwrap(),
                    lock_owner: LockOwner::new("me").unwrap(),
                    signed,
                    fees: Fees::with_tip(9, 1),
                    cost: Amount::from(11_u64),
                },
                concat!(
                    r#"{"kind":"use_reserved","nonce":5,"lock_owner":"me","#,
                    r#""hash":"0x0303030303030303030303030303030303030303030303030303030303030303","raw":"0x01ff","#,
                    r#""fees":{"max_fee":"9","max_priority_fee":"1"},"cost":"11"}"#
                ),
            ),
        ] {
            assert_eq!(command_to_json(&kind), expected);
            assert_eq!(command_from_json(expected), Ok(kind));
        }
    }

    #[test]
    fn damaged_command_is_an_error() {
        for damaged in [
            r#"{"kind":"resync","lost":"forget","dry_run":false}"#,
            r#"{"kind":"resync","lost":"fail"}"#,
            concat!(
                r#"{"kind":"use_reserved","nonce":-1,"lock_owner":"me","hash":"0x01","raw":"0x","#,
                r#""fees":{"gas_price":"1"},"cost":"1"}"#
            ),
            r#"{"kind":"explode"}"#,
        ] {
            assert!(command_from_json(damaged).is_err(), "{damaged}");
        }
    }
}
