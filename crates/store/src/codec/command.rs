//! Commands as a word and JSON.

use gapless_domain::{CommandKind, Fees, LockOwner, Payload};
use serde::{Deserialize, Serialize};

use super::payload::{FeesRow, PayloadRow};
use super::{RowError, from_json, nonce, parsed, signed, to_json};

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum CommandRow {
    Cancel { tx_id: String },
    Replace { tx_id: String, payload: PayloadRow },
    Resubmit { tx_id: String, fees: Option<FeesRow> },
    CancelPending,
    Pause,
    Resume,
    Unprotect,
    Resync { requeue_lost: bool },
    UseReserved { nonce: i64, lock_owner: String, raw: String },
    ReleaseReserved { nonce: i64, lock_owner: String },
}

pub fn command_to_json(kind: &CommandKind) -> String {
    to_json(&match kind {
        CommandKind::Cancel { tx_id } => CommandRow::Cancel { tx_id: tx_id.to_string() },
        CommandKind::Replace { tx_id, payload } => {
            CommandRow::Replace { tx_id: tx_id.to_string(), payload: payload.into() }
        }
        CommandKind::Resubmit { tx_id, fees } => {
            CommandRow::Resubmit { tx_id: tx_id.to_string(), fees: fees.as_ref().map(FeesRow::from) }
        }
        CommandKind::CancelPending => CommandRow::CancelPending,
        CommandKind::Pause => CommandRow::Pause,
        CommandKind::Resume => CommandRow::Resume,
        CommandKind::Unprotect => CommandRow::Unprotect,
        CommandKind::Resync { requeue_lost } => CommandRow::Resync { requeue_lost: *requeue_lost },
        CommandKind::UseReserved { nonce, lock_owner, raw } => CommandRow::UseReserved {
            nonce: signed(nonce.get()),
            lock_owner: lock_owner.to_string(),
            raw: raw.to_string(),
        },
        CommandKind::ReleaseReserved { nonce, lock_owner } => {
            CommandRow::ReleaseReserved { nonce: signed(nonce.get()), lock_owner: lock_owner.to_string() }
        }
    })
}

pub fn command_from_json(json: &str) -> Result<CommandKind, RowError> {
    Ok(match from_json("command", json)? {
        CommandRow::Cancel { tx_id } => CommandKind::Cancel { tx_id: parsed("tx_id", &tx_id)? },
        CommandRow::Replace { tx_id, payload } => {
            CommandKind::Replace { tx_id: parsed("tx_id", &tx_id)?, payload: Payload::try_from(payload)? }
        }
        CommandRow::Resubmit { tx_id, fees } => {
            CommandKind::Resubmit { tx_id: parsed("tx_id", &tx_id)?, fees: fees.map(Fees::try_from).transpose()? }
        }
        CommandRow::CancelPending => CommandKind::CancelPending,
        CommandRow::Pause => CommandKind::Pause,
        CommandRow::Resume => CommandKind::Resume,
        CommandRow::Unprotect => CommandKind::Unprotect,
        CommandRow::Resync { requeue_lost } => CommandKind::Resync { requeue_lost },
        CommandRow::UseReserved { nonce: number, lock_owner, raw } => CommandKind::UseReserved {
            nonce: nonce(number)?,
            lock_owner: owner(&lock_owner)?,
            raw: parsed("raw", &raw)?,
        },
        CommandRow::ReleaseReserved { nonce: number, lock_owner } => {
            CommandKind::ReleaseReserved { nonce: nonce(number)?, lock_owner: owner(&lock_owner)? }
        }
    })
}

fn owner(text: &str) -> Result<LockOwner, RowError> {
    LockOwner::new(text).ok_or_else(|| RowError::new("lock_owner", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::{Bytes, EvmCall, Nonce, TxId};

    #[test]
    fn commands_round_trip() {
        let tx_id: TxId = "018f0000-0000-7000-8000-000000000001".parse().unwrap();
        let lock_owner = LockOwner::new("me").unwrap();
        for kind in [
            CommandKind::Cancel { tx_id },
            CommandKind::Replace { tx_id, payload: Payload::Evm(EvmCall::default()) },
            CommandKind::Resubmit { tx_id, fees: None },
            CommandKind::Resubmit { tx_id, fees: Some(Fees::Legacy { gas_price: 1 }) },
            CommandKind::CancelPending,
            CommandKind::Pause,
            CommandKind::Resume,
            CommandKind::Unprotect,
            CommandKind::Resync { requeue_lost: true },
            CommandKind::UseReserved {
                nonce: Nonce::ZERO,
                lock_owner: lock_owner.clone(),
                raw: Bytes::from_static(&[1]),
            },
            CommandKind::ReleaseReserved { nonce: Nonce::ZERO, lock_owner },
        ] {
            assert_eq!(command_from_json(&command_to_json(&kind)), Ok(kind));
        }
    }
}
