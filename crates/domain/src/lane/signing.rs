//! Attempts on their way through the signer.

use crate::action::{Fees, Work};
use crate::amount::Amount;
use crate::attempt::{AttemptKind, NewAttempt};
use crate::command::CommandId;
use crate::id::TxId;
use crate::nonce::Nonce;
use crate::signing::SignedTx;

use super::draft::{AttemptOrigin, AttemptSource};
use super::queue::Candidate;

/// An attempt at the signer: a bind or, without a candidate, another attempt of a slot.
#[derive(Debug)]
pub(super) struct SigningItem {
    pub(super) candidate: Option<Candidate>,
    pub(super) attempt: UnsignedAttempt,
}

/// An attempt without hash and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnsignedAttempt {
    pub(super) nonce: Nonce,
    pub(super) ordinal: u16,
    pub(super) kind: AttemptKind,
    pub(super) fees: Fees,
    pub(super) work: Work,
    pub(super) cost: Amount,
    pub(super) requested_by: Option<CommandId>,
}

/// A signed attempt that is not durable yet.
#[derive(Debug)]
pub(super) struct SignedItem {
    /// `None` for another attempt of a slot.
    pub(super) candidate: Option<Candidate>,
    pub(super) attempt: NewAttempt,
    pub(super) work: Work,
    pub(super) cost: Amount,
    /// The command that requested the attempt.
    pub(super) requested_by: Option<CommandId>,
}

impl SigningItem {
    pub(super) fn is_for_intent(&self, id: TxId) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.tx.id == id)
    }

    /// The item with its signature.
    pub(super) fn signed(self, signed: SignedTx) -> SignedItem {
        let UnsignedAttempt { nonce, ordinal, kind, fees, work, cost, requested_by } = self.attempt;
        let attempt = NewAttempt { nonce, ordinal, kind, hash: signed.hash, raw: signed.raw, fees };
        SignedItem { candidate: self.candidate, attempt, work, cost, requested_by }
    }
}

impl SignedItem {
    pub(super) fn origin(&self) -> AttemptOrigin {
        let source = self.requested_by.map_or(AttemptSource::Signed, AttemptSource::Requested);
        AttemptOrigin { source, cost: self.cost, work: self.work }
    }

    pub(super) fn is_for_intent(&self, id: TxId) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.tx.id == id)
    }
}
