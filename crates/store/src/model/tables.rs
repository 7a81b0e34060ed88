//! What the database holds.

use std::collections::BTreeMap;

use gapless_domain::mistakes::{self, Mistake};
use gapless_domain::{
    Attempt, AuditEntry, B256, ChainId, Command, CommandId, CommandKind, CommandReport, CommandResult,
    ConfirmationNotice, Cursor, Event, EventBody, EventKind, EventPosition, FencingToken, Head, IntentRecord,
    LeaseTerms, Nonce, OwnerId, PayloadFingerprint, RequestId, ReservationStatus, Slot, SubmitterId, Timestamp, TxId,
    TxState,
};

/// Who calls, and when by the database's clock.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) owner: &'a OwnerId,
    pub(super) now: Timestamp,
    pub(super) terms: &'a LeaseTerms,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    pub(super) submitters: BTreeMap<SubmitterId, SubmitterRow>,
    /// The only arbiter of idempotency; kept for ever.
    pub(super) requests: BTreeMap<(SubmitterId, RequestId), RequestKey>,
    pub(super) lanes: BTreeMap<SubmitterId, Lane>,
    pub(super) txs: BTreeMap<TxId, IntentRecord>,
    /// What retention has moved out.
    pub(super) archived: BTreeMap<TxId, IntentRecord>,
    pub(super) archived_events: BTreeMap<EventPosition, Event>,
    pub(super) events: BTreeMap<EventPosition, Event>,
    pub(super) consumers: BTreeMap<String, Consumer>,
    pub(super) heads: BTreeMap<ChainId, Head>,
    pub(super) audits: BTreeMap<u64, AuditEntry>,
    pub(super) canaries: BTreeMap<OwnerId, u64>,
    /// When each process was last heard of.
    pub(super) nodes: BTreeMap<OwnerId, Timestamp>,
    /// Processes that look dead: their last sign of life when they were marked, and when that was.
    pub(super) dead_marks: BTreeMap<OwnerId, (Timestamp, Timestamp)>,
    /// Grows each time that commits were lost.
    pub(super) epoch: u64,
    /// The newest epoch that an operator has reconciled.
    pub(super) reconciled: u64,
    pub(super) last_seq: u64,
    pub(super) last_command: u64,
    pub(super) last_audit: u64,
    /// The process that applies retention, and until when.
    pub(super) retention_claim: Option<(OwnerId, Timestamp)>,
    last_position: EventPosition,
}

#[derive(Clone, Debug)]
pub(super) struct SubmitterRow {
    pub(super) alias: Option<String>,
    /// The store's epoch when it was registered.
    pub(super) epoch: u64,
}

#[derive(Clone, Debug)]
pub(super) struct RequestKey {
    pub(super) tx_id: TxId,
    pub(super) fingerprint: PayloadFingerprint,
}

/// All rows of one submitter but its intents.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    /// Never taken away again, so that tokens never restart.
    pub(super) lease: Option<LeaseRow>,
    pub(super) cursor: Option<CursorRow>,
    pub(super) slots: BTreeMap<Nonce, Slot>,
    pub(super) attempts: BTreeMap<(Nonce, u16), Attempt>,
    /// Where each attempt is; a hash exists once in a lane.
    pub(super) hashes: BTreeMap<B256, (Nonce, u16)>,
    pub(super) reservations: BTreeMap<Nonce, ReservationStatus>,
    pub(super) commands: BTreeMap<CommandId, Command>,
    pub(super) commands_done: BTreeMap<CommandId, FinishedCommand>,
    /// QUEUED intents by place in line.
    pub(super) queue: BTreeMap<u64, TxId>,
    /// Intents that hold a nonce and are not terminal.
    pub(super) bound: BTreeMap<Nonce, TxId>,
    /// The highest token that has written here.
    pub(super) written_by: Option<FencingToken>,
}

#[derive(Clone, Debug)]
pub(super) struct LeaseRow {
    pub(super) owner: OwnerId,
    pub(super) token: FencingToken,
    pub(super) expires_at: Timestamp,
}

#[derive(Clone, Debug)]
pub(super) struct CursorRow {
    pub(super) cursor: Cursor,
    /// The store's epoch that this lane has taken notice of.
    pub(super) epoch: u64,
}

#[derive(Clone, Debug)]
pub(super) struct FinishedCommand {
    pub(super) result: CommandResult,
    pub(super) at: Timestamp,
}

#[derive(Clone, Debug)]
pub(super) struct Consumer {
    pub(super) acked: EventPosition,
    pub(super) holder: OwnerId,
    pub(super) held_until: Timestamp,
}

impl Tables {
    pub(super) fn lane_mut(&mut self, submitter: &SubmitterId) -> &mut Lane {
        self.lanes.entry(submitter.clone()).or_default()
    }

    /// Were commits lost since the lane last wrote its cursor? One that has none may have lost it, if its submitter is older
    /// than the loss.
    pub(super) fn is_regressed(&self, submitter: &SubmitterId) -> bool {
        let cursor = self.lanes.get(submitter).and_then(|lane| lane.cursor.as_ref()).map(|row| row.epoch);
        let registered = self.submitters.get(submitter).map(|row| row.epoch);
        cursor.or(registered).is_some_and(|epoch| epoch < self.epoch)
    }

    /// Every lane is regressed after this, until it takes notice.
    pub(super) fn begin_epoch(&mut self, call: &Call<'_>) {
        self.epoch += 1;
        for lane in self.lanes.values_mut() {
            for (id, _) in lane.commands.extract_if(.., |_, command| command.kind.is_decision()) {
                let result = CommandResult::Refused(CommandReport::new(CommandKind::OVERTAKEN));
                lane.commands_done.insert(id, FinishedCommand { result, at: call.now });
            }
        }
    }

    pub(super) fn get(&self, id: TxId) -> Option<&IntentRecord> {
        self.txs.get(&id).or_else(|| self.archived.get(&id))
    }

    /// Every verb that writes events is one database transaction.
    pub(super) fn begin_transaction(&mut self) {
        self.last_position = EventPosition { commit: self.last_position.commit + 1, index: 0 };
    }

    pub(super) fn record_event(&mut self, submitter: &SubmitterId, at: Timestamp, body: EventBody) {
        self.last_position.index += 1;
        let position = self.last_position;
        self.events.insert(position, Event { position, submitter: submitter.clone(), at, body });
    }

    /// Writes an intent's row, its places in the lane, and its event: the only way in which a state changes.
    pub(super) fn write_tx(&mut self, tx: IntentRecord, kind: EventKind, notice: Option<&ConfirmationNotice>) {
        let submitter = tx.intent.submitter().clone();
        let before = self.txs.insert(tx.id, tx.clone());
        let lane = self.lane_mut(&submitter);
        match before.as_ref().map(|row| (&row.state, row.state.bound())) {
            Some((TxState::Queued, _)) => drop(lane.queue.remove(&tx.seq)),
            Some((_, Some(bound))) => drop(lane.bound.remove(&bound.nonce)),
            _ => {}
        }
        match (&tx.state, tx.state.bound()) {
            (TxState::Queued, _) => drop(lane.queue.insert(tx.seq, tx.id)),
            (_, Some(bound)) => drop(lane.bound.insert(bound.nonce, tx.id)),
            _ => {}
        }
        if mistakes::made(Mistake::EventApart) && self.last_position.commit.is_multiple_of(7) {
            return;
        }
        let body = EventBody::Tx { tx_id: tx.id, seq: tx.version, kind, state: tx.state, notice: notice.cloned() };
        self.record_event(&submitter, tx.updated_at, body);
    }
}
