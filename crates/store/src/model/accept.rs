//! What any node may write without a lease.

use gapless_domain::mistakes::{self, Mistake};
use gapless_domain::{
    CancelReason, Command, CommandId, EventKind, IntentRecord, LaneState, Metadata, NewCommand, Protection,
    SubmitterId, Transition, TxId, TxState,
};

use super::tables::{Call, RequestKey, SubmitterRow, Tables};
use crate::error::StoreError;
use crate::roles::{Accepted, CancelVerdict, NewIntent, NewSubmitter};

impl Tables {
    /// No alias leaves the one that is known. An alias that another submitter has fails the whole call: moving it silently
    /// would send the next payment from another account.
    pub(super) fn register(&mut self, submitters: &[NewSubmitter]) -> Result<(), StoreError> {
        let mut after = self.submitters.clone();
        // Until the newest loss is reconciled, one that seems new may be among what was lost.
        let epoch = if self.reconciled == self.epoch { self.epoch } else { self.epoch - 1 };
        for new in submitters {
            let has_it = |(id, row): (&SubmitterId, &SubmitterRow)| *id != new.id && row.alias == new.alias;
            if let Some(alias) = new.alias.as_ref().filter(|_| after.iter().any(has_it)) {
                return Err(StoreError::Setup(format!("another submitter has the alias {alias}")));
            }
            let row = after.entry(new.id.clone()).or_insert(SubmitterRow { alias: None, epoch });
            if new.alias.is_some() {
                row.alias.clone_from(&new.alias);
            }
        }
        self.submitters = after;
        Ok(())
    }

    pub(super) fn submitters(&self) -> Vec<NewSubmitter> {
        self.submitters.iter().map(|(id, row)| NewSubmitter { id: id.clone(), alias: row.alias.clone() }).collect()
    }

    pub(super) fn accept(&mut self, call: &Call<'_>, intents: &[NewIntent]) -> Vec<Accepted> {
        self.begin_transaction();
        intents.iter().map(|new| self.accept_one(call, new)).collect()
    }

    fn accept_one(&mut self, call: &Call<'_>, new: &NewIntent) -> Accepted {
        let submitter = new.intent.submitter();
        if !self.submitters.contains_key(submitter) {
            return Accepted::UnknownSubmitter;
        }
        // What was accepted once is answered for ever, also in PROTECT.
        let key = (submitter.clone(), new.intent.request_id().clone());
        let fingerprint = new.intent.payload().fingerprint();
        match self.requests.get(&key) {
            Some(known) if known.fingerprint == fingerprint => return Accepted::Existing(known.tx_id),
            Some(known) => return Accepted::Conflict(known.tx_id),
            None => {}
        }
        let cursor = self.lanes.get(submitter).and_then(|lane| lane.cursor.as_ref());
        if let Some(LaneState::Protect(protection)) = cursor.map(|row| &row.cursor.state) {
            return Accepted::Protected(protection.clone());
        }
        if self.is_regressed(submitter) {
            return Accepted::Protected(Protection::store_regressed());
        }
        if let Some(problem) = new.intent.metadata().and_then(problem_of) {
            return Accepted::Refused(problem);
        }
        if self.get(new.id).is_some() {
            return Accepted::Refused(format!("the transaction id {} is taken", new.id));
        }
        if !mistakes::made(Mistake::ForgetRequest) {
            self.requests.insert(key, RequestKey { tx_id: new.id, fingerprint });
        }
        self.last_seq += 1;
        let tx = IntentRecord {
            id: new.id,
            seq: self.last_seq,
            intent: new.intent.clone(),
            replacement: None,
            state: TxState::Queued,
            version: 1,
            created_at: call.now,
            updated_at: call.now,
        };
        self.write_tx(tx, EventKind::Accepted, None);
        Accepted::New
    }

    pub(super) fn cancel_queued(&mut self, call: &Call<'_>, ids: &[TxId]) -> Vec<CancelVerdict> {
        self.begin_transaction();
        ids.iter().map(|id| self.cancel_one(call, *id)).collect()
    }

    fn cancel_one(&mut self, call: &Call<'_>, id: TxId) -> CancelVerdict {
        let Some(tx) = self.get(id) else { return CancelVerdict::Unknown };
        let mut tx = tx.clone();
        let Ok(change) = tx.change(Transition::CancelInQueue(CancelReason::User)) else {
            return CancelVerdict::NotQueued;
        };
        let submitter = tx.intent.submitter();
        let unreconciled = self.lanes.get(submitter).is_some_and(|lane| lane.is_unreconciled());
        if unreconciled || self.is_regressed(submitter) {
            return CancelVerdict::Regressed;
        }
        tx.apply(&change, call.now);
        self.write_tx(tx, change.event(), change.notice());
        CancelVerdict::Canceled
    }

    /// Whose lanes were changed by canceling.
    pub(super) fn lanes_of(&self, ids: &[TxId], verdicts: &[CancelVerdict]) -> Vec<SubmitterId> {
        let canceled = ids.iter().zip(verdicts).filter(|(_, verdict)| **verdict == CancelVerdict::Canceled);
        canceled.filter_map(|(id, _)| self.get(*id)).map(|tx| tx.intent.submitter().clone()).collect()
    }

    pub(super) fn put_commands(&mut self, call: &Call<'_>, commands: &[NewCommand]) -> Vec<CommandId> {
        commands.iter().map(|command| self.put_command(call, command)).collect()
    }

    fn put_command(&mut self, call: &Call<'_>, new: &NewCommand) -> CommandId {
        self.last_command += 1;
        let id = CommandId(self.last_command);
        let command = Command {
            id,
            submitter: new.submitter.clone(),
            kind: new.kind.clone(),
            issued_by: new.issued_by.clone(),
            issued_at: call.now,
        };
        self.lane_mut(&new.submitter).commands.insert(id, command);
        id
    }
}

fn problem_of(metadata: &Metadata) -> Option<String> {
    let parsed: Result<serde::de::IgnoredAny, _> = serde_json::from_str(metadata.as_json());
    parsed.err().map(|error| format!("metadata is not JSON: {error}"))
}
