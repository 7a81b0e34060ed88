//! The state of an intent as four columns: the words that queries and CHECKs need, and the rest as JSON.

use gapless_domain::{
    AttemptKind, B256, BlockRef, Bound, CancelReason, Cancellation, Execution, FailReason, FinalFailure, Goal,
    Inclusion, Mined, NodeText, Nonce, Progress, Settled, StateName, StuckReason, SubStateName, TxState,
};
use gapless_store::RowError;
use serde::{Deserialize, Serialize};

use super::{from_json, nonce as nonce_of, parsed, signed, to_json, word};

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
    goal: Option<String>,
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
    /// The newest block of a confirmation notice. Absent where it is the block of the inclusion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<BlockRow>,
}

#[derive(Serialize, Deserialize)]
struct BlockRow {
    number: u64,
    hash: String,
}

#[derive(Serialize, Deserialize)]
struct InclusionRow {
    hash: String,
    kind: String,
    block_number: u64,
    block_hash: String,
    /// Absent in rows of the first releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent_hash: Option<String>,
    #[serde(rename = "gas_used")]
    work_used: u64,
    #[serde(rename = "gas_price")]
    unit_price: String,
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
        TxState::Confirmed(settled) | TxState::FailedFinal(FinalFailure::Reverted(settled)) => settled_detail(settled),
        TxState::FailedFinal(FinalFailure::Unbound(reason, text)) => Detail {
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

/// The column `sub_state` follows from the others and is not read.
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
        StateName::FailedFinal if nonce.is_some() => {
            TxState::FailedFinal(FinalFailure::Reverted(detail.settled(nonce)?))
        }
        StateName::FailedFinal => {
            let reason = detail.reason_word("fail reason", FailReason::parse)?;
            TxState::FailedFinal(FinalFailure::Unbound(reason, NodeText::new(&detail.text.unwrap_or_default())))
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
    let (goal, cancel_reason) = match bound.goal {
        Goal::Deliver => (None, None),
        Goal::Replace => (Some("replace".to_owned()), None),
        Goal::Cancel(reason) => (Some("cancel".to_owned()), Some(reason.as_str().to_owned())),
    };
    let mined = match &bound.progress {
        Progress::Mined(mined) => Some(mined),
        Progress::Pending | Progress::AwaitingFunds => None,
    };
    let told = mined.filter(|mined| mined.notified != mined.inclusion.block).map(|mined| mined.notified);
    Detail {
        goal,
        cancel_reason,
        awaiting_funds: bound.progress == Progress::AwaitingFunds,
        inclusion: mined.map(|mined| inclusion_row(&mined.inclusion)),
        told: told.map(|block| BlockRow { number: block.number, hash: block.hash.to_string() }),
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
        parent_hash: Some(inclusion.parent_hash.to_string()),
        work_used: inclusion.work_used,
        unit_price: inclusion.unit_price.to_string(),
        revert,
    }
}

impl Detail {
    fn bound(self, nonce: Option<Nonce>) -> Result<Bound, RowError> {
        let goal = match self.goal.as_deref() {
            None => Goal::Deliver,
            Some("replace") => Goal::Replace,
            Some("cancel") => Goal::Cancel(self.canceled_for()?),
            Some(other) => return Err(RowError::new("goal", other)),
        };
        let progress = match (self.inclusion, self.told) {
            (Some(row), told) => {
                let inclusion = Inclusion::try_from(row)?;
                let told = told.map_or(Ok(inclusion.block), BlockRef::try_from)?;
                Progress::Mined(Mined { inclusion, notified: told })
            }
            (None, Some(_)) => return Err(RowError::new("state detail", "a notice without an inclusion")),
            (None, None) if self.awaiting_funds => Progress::AwaitingFunds,
            (None, None) => Progress::Pending,
        };
        Ok(Bound { nonce: required_nonce(nonce)?, goal, progress })
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

impl TryFrom<BlockRow> for BlockRef {
    type Error = RowError;

    fn try_from(row: BlockRow) -> Result<Self, RowError> {
        Ok(BlockRef { number: row.number, hash: parsed("block hash", &row.hash)? })
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
            parent_hash: row.parent_hash.map_or(Ok(B256::ZERO), |hash| parsed("parent hash", &hash))?,
            execution,
            work_used: row.work_used,
            unit_price: parsed("gas price", &row.unit_price)?,
        })
    }
}

fn required_nonce(nonce: Option<Nonce>) -> Result<Nonce, RowError> {
    nonce.ok_or_else(|| RowError::new("nonce", "missing in a state that holds one"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::{Amount, Bytes};

    fn inclusion(execution: Execution) -> Inclusion {
        Inclusion {
            hash: B256::repeat_byte(1),
            kind: AttemptKind::Bump,
            block: BlockRef { number: 9, hash: B256::repeat_byte(2) },
            parent_hash: B256::repeat_byte(3),
            execution,
            work_used: 21_000,
            unit_price: Amount::from(7_u64),
        }
    }

    fn states() -> Vec<TxState> {
        let revert = Execution::Reverted { reason: Some(NodeText::new("no")), data: Bytes::from_static(&[8]) };
        let settled = Settled { nonce: Nonce::new(3).unwrap(), inclusion: inclusion(Execution::Success) };
        let mut states = vec![
            TxState::Queued,
            TxState::Confirmed(settled.clone()),
            TxState::FailedFinal(FinalFailure::Unbound(FailReason::Expired, NodeText::new("late"))),
            TxState::FailedFinal(FinalFailure::Reverted(Settled {
                inclusion: inclusion(revert.clone()),
                ..settled.clone()
            })),
            TxState::Canceled(Cancellation::Released),
            TxState::Canceled(Cancellation::InQueue(CancelReason::User)),
            TxState::Canceled(Cancellation::OnChain(CancelReason::Rejected, settled)),
        ];
        for goal in [Goal::Deliver, Goal::Replace, Goal::Cancel(CancelReason::Expired)] {
            let mut progresses = vec![Progress::Pending, Progress::AwaitingFunds];
            let own = inclusion(revert.clone()).block;
            for told in [own, BlockRef { number: 12, ..own }, BlockRef { hash: B256::repeat_byte(4), ..own }] {
                progresses.push(Progress::Mined(Mined { inclusion: inclusion(revert.clone()), notified: told }));
            }
            for progress in progresses {
                let bound = Bound { nonce: Nonce::ZERO, goal, progress };
                states.push(TxState::Allocated(bound.clone()));
                states.push(TxState::Tracking(bound.clone()));
                states.push(TxState::Stuck(bound, StuckReason::OutOfTries));
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

    /// An inclusion as the first releases wrote it, without the last brace.
    const OLD_INCLUSION: &str = concat!(
        r#"{"inclusion":{"hash":"0x0101010101010101010101010101010101010101010101010101010101010101","kind":"bump","#,
        r#""block_number":9,"block_hash":"0x0202020202020202020202020202020202020202020202020202020202020202","#,
        r#""gas_used":21000,"gas_price":"7"}"#
    );

    #[test]
    fn inclusion_of_an_older_release_loads_without_parent_hash() {
        let expected = Inclusion { parent_hash: B256::ZERO, ..inclusion(Execution::Success) };
        let told = expected.block;
        let state = state_from_row("TRACKING", Some(3), &format!("{OLD_INCLUSION}}}")).unwrap();
        assert_eq!(
            state.bound().unwrap().progress,
            Progress::Mined(Mined { inclusion: expected.clone(), notified: told })
        );
        let state = state_from_row("CONFIRMED", Some(3), &format!("{OLD_INCLUSION}}}")).unwrap();
        let nonce = Nonce::new(3).unwrap();
        assert_eq!(state, TxState::Confirmed(Settled { nonce, inclusion: expected }));
    }

    #[test]
    fn damaged_state_is_an_error() {
        assert!(state_from_row("ALLOCATED", None, "{}").is_err());
        assert!(state_from_row("CONFIRMED", Some(1), "{}").is_err());
        assert!(state_from_row("LOST", None, "{}").is_err());
        assert!(state_from_row("QUEUED", None, "").is_err());
        let zero = B256::ZERO;
        let mined = format!(r#"{OLD_INCLUSION},"told":{{"number":9,"hash":"{zero}"}}}}"#);
        assert!(state_from_row("TRACKING", Some(1), &mined).is_ok());
        for damaged in [
            mined.replace(r#""number":9"#, r#""number":-9"#),
            mined.replace(r#""number":9,"#, ""),
            mined.replace(&format!(r#""hash":"{zero}"}}}}"#), r#""hash":"0x01"}}"#),
            mined.replace(r#""gas_used""#, r#""parent_hash":"0x01","gas_used""#),
            format!(r#"{{"told":{{"number":9,"hash":"{zero}"}}}}"#),
        ] {
            assert_ne!(damaged, mined);
            assert!(state_from_row("TRACKING", Some(1), &damaged).is_err(), "{damaged}");
        }
    }
}
