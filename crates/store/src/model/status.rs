//! Reads for operators: lanes and their slots, the census of processes, and the audit log.

use gapless_domain::{AuditEntry, LaneLedger, Nonce, Reservation, SlotRecord, SubmitterId};

use super::tables::{CallContext, ModelLease, Tables};
use crate::audit::AuditRow;
use crate::roles::{AuditFilter, Census, LaneStatus, LeaseStatus, SlotStatus};

impl Tables {
    pub(super) fn status(&self, call: &CallContext<'_>, submitter: &SubmitterId) -> Option<LaneStatus> {
        let alias = self.submitters.get(submitter)?.clone();
        let lane = self.lanes.get(submitter);
        let ledger = lane.map(|lane| &lane.ledger);
        let counted = |len: usize| count(len).min(LaneStatus::MAX_COUNTED);
        let lease = |row: &ModelLease| LeaseStatus {
            owner: row.owner.clone(),
            token: row.token,
            expires_at: row.expires_at,
            valid: row.is_valid(call),
        };
        let open = |ledger: &LaneLedger| {
            ledger.slots.range(ledger.open_nonce()..).filter(|(_, record)| record.intent.is_some()).count()
        };
        Some(LaneStatus {
            alias,
            cursor: ledger.and_then(|ledger| ledger.cursor.clone()),
            lease: lane.and_then(|lane| lane.lease.as_ref()).map(lease),
            queued: counted(ledger.map_or(0, LaneLedger::queue_len)),
            open: counted(ledger.map_or(0, open)),
            oldest_queued_at: ledger.and_then(|ledger| ledger.queue().next()).map(|tx| tx.created_at),
            regressed: ledger.is_some_and(|ledger| ledger.regressed),
            now: call.now,
        })
    }

    pub(super) fn open_slots(&self, submitter: &SubmitterId, from: Option<Nonce>, limit: u32) -> Vec<SlotStatus> {
        let Some(ledger) = self.ledger(submitter) else { return Vec::new() };
        let first = from.unwrap_or(Nonce::ZERO).max(ledger.open_nonce());
        ledger.slots.range(first..).take(limit as usize).map(|(_, record)| self.slot_status(record)).collect()
    }

    fn slot_status(&self, record: &SlotRecord) -> SlotStatus {
        let nonce = record.slot.nonce;
        let reservation = record.reservation.clone().map(|status| Reservation { nonce, status });
        let holder = SlotStatus::bound_to(&record.slot, reservation.as_ref()).and_then(|id| self.get(id));
        SlotStatus {
            slot: record.slot.clone(),
            tx: holder.filter(|tx| tx.state.nonce() == Some(nonce)).cloned(),
            reservation,
            attempts: record.attempts.values().cloned().collect(),
        }
    }

    /// Counts the processes and their lanes. A process without a sign of life for longer than a lease lasts, also by
    /// the slowest clock, owns no lane any more.
    pub(super) fn census(&self, call: &CallContext<'_>) -> Census {
        let oldest = call.now.saturating_sub(call.terms.duration).saturating_sub(call.terms.clock_skew);
        let others = self.nodes.iter().filter(|(node, seen_at)| *node != call.owner && **seen_at > oldest).count();
        let leases = self.lanes.values().filter_map(|lane| lane.lease.as_ref());
        Census { nodes: count(others + 1), lanes: count(leases.filter(|row| row.is_valid(call)).count()) }
    }

    /// Records a sign of life of the calling process.
    pub(super) fn seen(&mut self, call: &CallContext<'_>) {
        self.nodes.insert(call.owner.clone(), call.now);
    }

    pub(super) fn audit(&mut self, call: &CallContext<'_>, row: AuditRow) {
        self.last_audit += 1;
        let id = self.last_audit;
        let AuditRow { subject, actor, action, detail } = row;
        self.audits.insert(id, AuditEntry { id, at: call.now, subject, actor, action: action.to_owned(), detail });
    }

    pub(super) fn audit_log(&self, filter: &AuditFilter) -> Vec<AuditEntry> {
        let earlier = self.audits.range(..filter.before.unwrap_or(u64::MAX)).rev().map(|(_, entry)| entry);
        let is_wanted = |entry: &&AuditEntry| filter.subject.as_ref().is_none_or(|subject| entry.subject == *subject);
        earlier.filter(is_wanted).take(filter.limit as usize).cloned().collect()
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
