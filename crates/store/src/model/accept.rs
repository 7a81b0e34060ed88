//! Writes that need no lease, so that any node may make them.

use gapless_domain::{
    CancelReason, Command, CommandId, EventKind, IntentRecord, LaneState, Metadata, NewCommand, Protection,
    SubmitterId, Transition, TxId, TxState,
};

use super::tables::{CallContext, RequestKey, Tables};
use crate::error::StoreError;
use crate::roles::{Accepted, CancelVerdict, NewIntent, NewSubmitter};

impl Tables {
    /// Registers submitters. A submitter without an alias keeps the alias that it has. An alias of another submitter
    /// fails the whole call: moving it silently would send the next payment from another account.
    pub(super) fn register(&mut self, submitters: &[NewSubmitter]) -> Result<(), StoreError> {
        let mut after = self.submitters.clone();
        for new in submitters {
            let has_it = |(id, alias): (&SubmitterId, &Option<String>)| *id != new.id && *alias == new.alias;
            if let Some(alias) = new.alias.as_ref().filter(|_| after.iter().any(has_it)) {
                return Err(StoreError::Setup(format!("another submitter has the alias {alias}")));
            }
            let alias = after.entry(new.id.clone()).or_default();
            if new.alias.is_some() {
                alias.clone_from(&new.alias);
            }
        }
        let before = std::mem::replace(&mut self.submitters, after);
        let unreconciled = self.unreconciled;
        for new in submitters.iter().filter(|new| !before.contains_key(&new.id)) {
            // Until the newest loss is reconciled, the rows of a submitter that seems new may be among the lost ones.
            let ledger = &mut self.lane_mut(&new.id).ledger;
            ledger.regressed |= unreconciled && ledger.cursor.is_none();
        }
        Ok(())
    }

    pub(super) fn submitters(&self) -> Vec<NewSubmitter> {
        self.submitters.iter().map(|(id, alias)| NewSubmitter { id: id.clone(), alias: alias.clone() }).collect()
    }

    pub(super) fn accept(&mut self, call: &CallContext<'_>, intents: &[NewIntent]) -> Vec<Accepted> {
        self.begin_transaction();
        intents.iter().map(|new| self.accept_one(call, new)).collect()
    }

    fn accept_one(&mut self, call: &CallContext<'_>, new: &NewIntent) -> Accepted {
        let submitter = new.intent.submitter();
        if !self.submitters.contains_key(submitter) {
            return Accepted::UnknownSubmitter;
        }
        // A request that was accepted once is answered for ever, also in PROTECT.
        let key = (submitter.clone(), new.intent.request_id().clone());
        let fingerprint = new.intent.payload().fingerprint();
        match self.requests.get(&key) {
            Some(known) if known.fingerprint == fingerprint => return Accepted::Existing(known.tx_id),
            Some(known) => return Accepted::Conflict(known.tx_id),
            None => {}
        }
        if let Some(ledger) = self.ledger(submitter) {
            if let Some(LaneState::Protect(protection)) = ledger.cursor.as_ref().map(|cursor| &cursor.state) {
                return Accepted::Protected(protection.clone());
            }
            if ledger.regressed {
                return Accepted::Protected(Protection::store_regressed());
            }
        }
        if let Some(problem) = new.intent.metadata().and_then(problem_of) {
            return Accepted::Refused(problem);
        }
        if self.lane_of.contains_key(&new.id) {
            return Accepted::Refused(format!("the transaction id {} is taken", new.id));
        }
        self.requests.insert(key, RequestKey { tx_id: new.id, fingerprint });
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
        self.record_change(submitter, call.now, (tx.id, tx.version), EventKind::Accepted, tx.state.clone(), None);
        self.lane_of.insert(tx.id, submitter.clone());
        self.lane_mut(submitter).ledger.put_intent(tx);
        Accepted::New
    }

    pub(super) fn cancel_queued(&mut self, call: &CallContext<'_>, ids: &[TxId]) -> Vec<CancelVerdict> {
        self.begin_transaction();
        ids.iter().map(|id| self.cancel_one(call, *id)).collect()
    }

    fn cancel_one(&mut self, call: &CallContext<'_>, id: TxId) -> CancelVerdict {
        let Some(tx) = self.get(id) else { return CancelVerdict::Unknown };
        let Ok(change) = tx.change(Transition::CancelInQueue(CancelReason::User)) else {
            return CancelVerdict::NotQueued;
        };
        let submitter = tx.intent.submitter().clone();
        let ledger = &mut self.lane_mut(&submitter).ledger;
        let unreconciled = ledger.cursor.as_ref().is_some_and(|cursor| cursor.state.is_store_regressed());
        if unreconciled || ledger.regressed {
            return CancelVerdict::Regressed;
        }
        ledger.change_intent(&change, call.now);
        self.record_event_of(call, &submitter, &change);
        CancelVerdict::Canceled
    }

    /// The lanes in which a cancellation changed an intent.
    pub(super) fn lanes_of(&self, ids: &[TxId], verdicts: &[CancelVerdict]) -> Vec<SubmitterId> {
        let canceled = ids.iter().zip(verdicts).filter(|(_, verdict)| **verdict == CancelVerdict::Canceled);
        canceled.filter_map(|(id, _)| self.get(*id)).map(|tx| tx.intent.submitter().clone()).collect()
    }

    pub(super) fn put_commands(&mut self, call: &CallContext<'_>, commands: &[NewCommand]) -> Vec<CommandId> {
        commands.iter().map(|command| self.put_command(call, command)).collect()
    }

    fn put_command(&mut self, call: &CallContext<'_>, new: &NewCommand) -> CommandId {
        self.last_command += 1;
        let id = CommandId(self.last_command);
        let command = Command {
            id,
            submitter: new.submitter.clone(),
            kind: new.kind.clone(),
            issued_by: new.issued_by.clone(),
            issued_at: call.now,
        };
        self.lane_mut(&new.submitter).ledger.commands.insert(id, command);
        id
    }
}

fn problem_of(metadata: &Metadata) -> Option<String> {
    let parsed: Result<serde::de::IgnoredAny, _> = serde_json::from_str(metadata.as_json());
    parsed.err().map(|error| format!("metadata is not JSON: {error}"))
}
