//! The rows of the database.

use std::collections::BTreeMap;

use gapless_domain::{
    AuditEntry, ChainId, CommandId, ConfirmationNotice, Event, EventBody, EventKind, EventPosition, FencingToken, Head,
    IntentRecord, LaneLedger, LeaseTerms, OwnerId, PayloadFingerprint, RequestId, SubmitterId, Timestamp, TxId,
    TxState,
};

use super::rules::ModelRules;

/// The caller of a verb, and the time of the call by the database's clock.
#[derive(Debug)]
pub(super) struct CallContext<'a> {
    pub(super) owner: &'a OwnerId,
    pub(super) now: Timestamp,
    pub(super) terms: &'a LeaseTerms,
    pub(super) rules: &'a dyn ModelRules,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    /// The registered submitters with their aliases.
    pub(super) submitters: BTreeMap<SubmitterId, Option<String>>,
    /// The only arbiter of idempotency; kept for ever.
    pub(super) requests: BTreeMap<(SubmitterId, RequestId), RequestKey>,
    pub(super) lanes: BTreeMap<SubmitterId, ModelLane>,
    /// The lane of every intent that was ever accepted.
    pub(super) lane_of: BTreeMap<TxId, SubmitterId>,
    /// Intents that retention has moved out.
    pub(super) archived: BTreeMap<TxId, IntentRecord>,
    pub(super) archived_events: BTreeMap<EventPosition, Event>,
    pub(super) events: BTreeMap<EventPosition, Event>,
    pub(super) consumers: BTreeMap<String, Consumer>,
    pub(super) heads: BTreeMap<ChainId, Head>,
    pub(super) audits: BTreeMap<u64, AuditEntry>,
    pub(super) canaries: BTreeMap<OwnerId, u64>,
    /// The last sign of life of each process.
    pub(super) nodes: BTreeMap<OwnerId, Timestamp>,
    /// Processes that look dead, with the last sign of life that the mark was made for, and the time of the mark.
    pub(super) dead_marks: BTreeMap<OwnerId, (Timestamp, Timestamp)>,
    /// True from a loss of commits until an operator has reconciled it.
    pub(super) unreconciled: bool,
    pub(super) last_seq: u64,
    pub(super) last_command: u64,
    pub(super) last_audit: u64,
    /// The process that applies retention, and the end of its claim.
    pub(super) retention_claim: Option<(OwnerId, Timestamp)>,
    last_position: EventPosition,
}

#[derive(Clone, Debug)]
pub(super) struct RequestKey {
    pub(super) tx_id: TxId,
    pub(super) fingerprint: PayloadFingerprint,
}

/// All rows of one submitter.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelLane {
    /// A lease row is never removed, so that tokens never restart.
    pub(super) lease: Option<ModelLease>,
    pub(super) ledger: LaneLedger,
    /// The times when the commands of [`LaneLedger::results`] were finished.
    pub(super) finished_at: BTreeMap<CommandId, Timestamp>,
}

#[derive(Clone, Debug)]
pub(super) struct ModelLease {
    pub(super) owner: OwnerId,
    pub(super) token: FencingToken,
    pub(super) expires_at: Timestamp,
}

#[derive(Clone, Debug)]
pub(super) struct Consumer {
    pub(super) acked: EventPosition,
    pub(super) holder: OwnerId,
    pub(super) held_until: Timestamp,
}

impl ModelLane {
    /// Records the time of every command that this call has finished.
    pub(super) fn record_finished(&mut self, call: &CallContext<'_>) {
        for id in self.ledger.results.keys() {
            self.finished_at.entry(*id).or_insert(call.now);
        }
    }
}

impl Tables {
    pub(super) fn lane_mut(&mut self, submitter: &SubmitterId) -> &mut ModelLane {
        self.lanes.entry(submitter.clone()).or_default()
    }

    pub(super) fn ledger(&self, submitter: &SubmitterId) -> Option<&LaneLedger> {
        self.lanes.get(submitter).map(|lane| &lane.ledger)
    }

    /// Begins a new epoch after a loss of commits. Every lane is regressed until it acknowledges the loss. A lane
    /// without a cursor may have lost it, unless its submitter is not even registered.
    pub(super) fn begin_epoch(&mut self, call: &CallContext<'_>) {
        self.unreconciled = true;
        for (submitter, lane) in &mut self.lanes {
            lane.ledger.refuse_decisions();
            lane.record_finished(call);
            let may_have_lost = lane.ledger.cursor.is_some() || self.submitters.contains_key(submitter);
            lane.ledger.regressed |= may_have_lost;
        }
    }

    pub(super) fn get(&self, id: TxId) -> Option<&IntentRecord> {
        let kept = self.lane_of.get(&id).and_then(|lane| self.ledger(lane)?.intent(id));
        kept.or_else(|| self.archived.get(&id))
    }

    /// Begins a database transaction. Every verb that writes events is one.
    pub(super) fn begin_transaction(&mut self) {
        self.last_position = EventPosition { commit: self.last_position.commit + 1, index: 0 };
    }

    pub(super) fn record_event(&mut self, submitter: &SubmitterId, at: Timestamp, body: EventBody) {
        self.last_position.index += 1;
        let position = self.last_position;
        self.events.insert(position, Event { position, submitter: submitter.clone(), at, body });
    }

    /// Records the event of one state change. `seq` is the version of the intent after the change.
    pub(super) fn record_change(
        &mut self,
        submitter: &SubmitterId,
        at: Timestamp,
        (tx_id, seq): (TxId, u32),
        kind: EventKind,
        state: TxState,
        notice: Option<&ConfirmationNotice>,
    ) {
        let body = EventBody::Tx { tx_id, seq, kind, state, notice: notice.cloned() };
        self.record_event(submitter, at, body);
    }
}
