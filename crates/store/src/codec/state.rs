//! The state of an intent as four columns: the words that queries and CHECKs need, and the rest as JSON.

use gapless_domain::{
    AttemptKind, BlockRef, Bound, CancelReason, Cancellation, Execution, FailReason, Failure, Inclusion, NodeText,
    Nonce, Progress, Settled, StateName, StuckReason, SubStateName, TxState, Wish,
};
use serde::{Deserialize, Serialize};

use super::{RowError, from_json, nonce as nonce_of, parsed, signed, to_json, word};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRow {
    pub state: StateName,
    pub sub_state: Option<SubStateName>,
    pub nonce: Option<i64>,
    pub detail: String,
}

#[derive(Default, Serialize, Deserialize)]
struct Detail {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wish: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cancel_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    awaiting_funds: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    released: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inclusion: Option<InclusionRow>,
}

#[derive(Serialize, Deserialize)]
struct InclusionRow {
    hash: String,
    kind: String,
    block_number: u64,
    block_hash: String,
    gas_used: u64,
    gas_price: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revert: Option<RevertRow>,
}

#[derive(Serialize, Deserialize)]
struct RevertRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    data: String,
}

pub fn state_to_row(state: &TxState) -> StateRow {
    let detail = match state {
        TxState::Queued => Detail::default(),
        TxState::Allocated(bound) | TxState::Tracking(bound) => bound_detail(bound),
        TxState::Stuck(bound, reason) => Detail { reason: Some(reason.as_str().to_owned()), ..bound_detail(bound) },
        TxState::Confirmed(settled) | TxState::FailedFinal(Failure::Reverted(settled)) => settled_detail(settled),
        TxState::FailedFinal(Failure::Unbound(reason, text)) => Detail {
            reason: Some(reason.as_str().to_owned()),
            text: Some(text.as_str().to_owned()),
            ..Detail::default()
        },
        TxState::Canceled(Cancellation::InQueue(reason)) => {
            Detail { cancel_reason: Some(reason.as_str().to_owned()), ..Detail::default() }
        }
        TxState::Canceled(Cancellation::Released) => Detail { released: true, ..Detail::default() },
        TxState::Canceled(Cancellation::OnChain(reason, settled)) => {
            Detail { cancel_reason: Some(reason.as_str().to_owned()), ..settled_detail(settled) }
        }
    };
    StateRow {
        state: state.name(),
        sub_state: state.sub_state(),
        nonce: state.nonce().map(|nonce| signed(nonce.get())),
        detail: to_json(&detail),
    }
}

/// `sub_state` follows from the rest and is not read back.
pub fn state_from_row(state: &str, nonce: Option<i64>, detail: &str) -> Result<TxState, RowError> {
    let name = word("state", state, StateName::parse)?;
    let detail: Detail = from_json("state detail", detail)?;
    let nonce = nonce.map(nonce_of).transpose()?;
    Ok(match name {
        StateName::Queued => TxState::Queued,
        StateName::Allocated => TxState::Allocated(detail.bound(nonce)?),
        StateName::Tracking => TxState::Tracking(detail.bound(nonce)?),
        StateName::Stuck => {
            let reason = detail.reason_word("stuck reason", StuckReason::parse)?;
            TxState::Stuck(detail.bound(nonce)?, reason)
        }
        StateName::Confirmed => TxState::Confirmed(detail.settled(nonce)?),
        StateName::FailedFinal if nonce.is_some() => TxState::FailedFinal(Failure::Reverted(detail.settled(nonce)?)),
        StateName::FailedFinal => {
            let reason = detail.reason_word("fail reason", FailReason::parse)?;
            TxState::FailedFinal(Failure::Unbound(reason, NodeText::new(&detail.text.unwrap_or_default())))
        }
        StateName::Canceled if detail.released => TxState::Canceled(Cancellation::Released),
        StateName::Canceled => {
            let reason = detail.canceled_for()?;
            TxState::Canceled(match nonce {
                None => Cancellation::InQueue(reason),
                Some(_) => Cancellation::OnChain(reason, detail.settled(nonce)?),
            })
        }
    })
}

fn bound_detail(bound: &Bound) -> Detail {
    let (wish, cancel_reason) = match bound.wish {
        Wish::Deliver => (None, None),
        Wish::Replace => (Some("replace".to_owned()), None),
        Wish::Cancel(reason) => (Some("cancel".to_owned()), Some(reason.as_str().to_owned())),
    };
    let inclusion = match &bound.progress {
        Progress::Mined(inclusion) => Some(inclusion_row(inclusion)),
        Progress::Pending | Progress::AwaitingFunds => None,
    };
    Detail {
        wish,
        cancel_reason,
        awaiting_funds: bound.progress == Progress::AwaitingFunds,
        inclusion,
        ..Detail::default()
    }
}

fn settled_detail(settled: &Settled) -> Detail {
    Detail { inclusion: Some(inclusion_row(&settled.inclusion)), ..Detail::default() }
}

fn inclusion_row(inclusion: &Inclusion) -> InclusionRow {
    let revert = match &inclusion.execution {
        Execution::Success => None,
        Execution::Reverted { reason, data } => {
            Some(RevertRow { reason: reason.as_ref().map(ToString::to_string), data: data.to_string() })
        }
    };
    InclusionRow {
        hash: inclusion.hash.to_string(),
        kind: inclusion.kind.as_str().to_owned(),
        block_number: inclusion.block.number,
        block_hash: inclusion.block.hash.to_string(),
        gas_used: inclusion.gas_used,
        gas_price: inclusion.effective_gas_price.to_string(),
        revert,
    }
}

impl Detail {
    fn bound(self, nonce: Option<Nonce>) -> Result<Bound, RowError> {
        let wish = match self.wish.as_deref() {
            None => Wish::Deliver,
            Some("replace") => Wish::Replace,
            Some("cancel") => Wish::Cancel(self.canceled_for()?),
            Some(other) => return Err(RowError::new("wish", other)),
        };
        let progress = match self.inclusion {
            Some(row) => Progress::Mined(row.try_into()?),
            None if self.awaiting_funds => Progress::AwaitingFunds,
            None => Progress::Pending,
        };
        Ok(Bound { nonce: required_nonce(nonce)?, wish, progress })
    }

    fn settled(self, nonce: Option<Nonce>) -> Result<Settled, RowError> {
        let row = self.inclusion.ok_or_else(|| RowError::new("state detail", "no inclusion"))?;
        Ok(Settled { nonce: required_nonce(nonce)?, inclusion: row.try_into()? })
    }

    fn canceled_for(&self) -> Result<CancelReason, RowError> {
        word("cancel reason", self.cancel_reason.as_deref().unwrap_or(""), CancelReason::parse)
    }

    fn reason_word<T>(&self, what: &'static str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, RowError> {
        word(what, self.reason.as_deref().unwrap_or(""), parse)
    }
}

impl TryFrom<InclusionRow> for Inclusion {
    type Error = RowError;

    fn try_from(row: InclusionRow) -> Result<Self, RowError> {
        let execution = match row.revert {
            None => Execution::Success,
            Some(revert) => Execution::Reverted {
                reason: revert.reason.as_deref().map(NodeText::new),
                data: parsed("revert data", &revert.data)?,
            },
        };
        Ok(Inclusion {
            hash: parsed("hash", &row.hash)?,
            kind: word("attempt kind", &row.kind, AttemptKind::parse)?,
            block: BlockRef { number: row.block_number, hash: parsed("block hash", &row.block_hash)? },
            execution,
            gas_used: row.gas_used,
            effective_gas_price: parsed("gas price", &row.gas_price)?,
        })
    }
}

fn required_nonce(nonce: Option<Nonce>) -> Result<Nonce, RowError> {
    nonce.ok_or_else(|| RowError::new("nonce", "missing in a state that holds one"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::{Amount, B256, Bytes};

    fn inclusion(execution: Execution) -> Inclusion {
        Inclusion {
            hash: B256::repeat_byte(1),
            kind: AttemptKind::Bump,
            block: BlockRef { number: 9, hash: B256::repeat_byte(2) },
            execution,
            gas_used: 21_000,
            effective_gas_price: Amount::from(7_u64),
        }
    }

    fn states() -> Vec<TxState> {
        let revert = Execution::Reverted { reason: Some(NodeText::new("no")), data: Bytes::from_static(&[8]) };
        let settled = Settled { nonce: Nonce::new(3).unwrap(), inclusion: inclusion(Execution::Success) };
        let mut states = vec![
            TxState::Queued,
            TxState::Confirmed(settled.clone()),
            TxState::FailedFinal(Failure::Unbound(FailReason::Expired, NodeText::new("late"))),
            TxState::FailedFinal(Failure::Reverted(Settled {
                inclusion: inclusion(revert.clone()),
                ..settled.clone()
            })),
            TxState::Canceled(Cancellation::Released),
            TxState::Canceled(Cancellation::InQueue(CancelReason::User)),
            TxState::Canceled(Cancellation::OnChain(CancelReason::Rejected, settled)),
        ];
        for wish in [Wish::Deliver, Wish::Replace, Wish::Cancel(CancelReason::Expired)] {
            for progress in [Progress::Pending, Progress::AwaitingFunds, Progress::Mined(inclusion(revert.clone()))] {
                let bound = Bound { nonce: Nonce::ZERO, wish, progress };
                states.push(TxState::Allocated(bound.clone()));
                states.push(TxState::Tracking(bound.clone()));
                states.push(TxState::Stuck(bound, StuckReason::Contradiction));
            }
        }
        states
    }

    #[test]
    fn states_round_trip() {
        for state in states() {
            let row = state_to_row(&state);
            assert_eq!(state_from_row(row.state.as_str(), row.nonce, &row.detail), Ok(state));
        }
    }

    #[test]
    fn damage_is_an_error() {
        assert!(state_from_row("ALLOCATED", None, "{}").is_err());
        assert!(state_from_row("CONFIRMED", Some(1), "{}").is_err());
        assert!(state_from_row("LOST", None, "{}").is_err());
        assert!(state_from_row("QUEUED", None, "").is_err());
    }
}
