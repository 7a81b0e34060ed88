//! What people ask: lanes and their slots, who shares the work, and the audit log.

use gapless_domain::{AuditEntry, Nonce, Reservation, Slot, SubmitterId};

use super::tables::{Call, Lane, LeaseRow, Tables};
use crate::audit::AuditRow;
use crate::contract::AuditFilter;
use crate::status::{Census, LaneStatus, LeaseStatus, SlotStatus};

impl Tables {
    pub(super) fn status(&self, call: &Call<'_>, submitter: &SubmitterId) -> Option<LaneStatus> {
        let alias = self.submitters.get(submitter)?.alias.clone();
        let lane = self.lanes.get(submitter);
        let counted = |len: usize| count(len).min(LaneStatus::MAX_COUNTED);
        let lease = |row: &LeaseRow| LeaseStatus {
            owner: row.owner.clone(),
            token: row.token,
            expires_at: row.expires_at,
            valid: row.is_valid(call),
        };
        let first = lane.and_then(|lane| lane.queue.values().next()).and_then(|id| self.txs.get(id));
        Some(LaneStatus {
            alias,
            cursor: lane.and_then(|lane| lane.cursor.as_ref()).map(|row| row.cursor.clone()),
            lease: lane.and_then(|lane| lane.lease.as_ref()).map(lease),
            queued: counted(lane.map_or(0, |lane| lane.queue.len())),
            open: counted(lane.map_or(0, |lane| lane.bound.len())),
            oldest_queued_at: first.map(|tx| tx.created_at),
            regressed: self.is_regressed(submitter),
            now: call.now,
        })
    }

    pub(super) fn open_slots(&self, submitter: &SubmitterId, from: Option<Nonce>, limit: u32) -> Vec<SlotStatus> {
        let Some(lane) = self.lanes.get(submitter) else { return Vec::new() };
        let first = from.unwrap_or(Nonce::ZERO).max(lane.first_open());
        lane.slots.range(first..).take(limit as usize).map(|(_, slot)| self.slot_status(lane, slot)).collect()
    }

    fn slot_status(&self, lane: &Lane, slot: &Slot) -> SlotStatus {
        let nonce = slot.nonce;
        let status = lane.reservations.get(&nonce).cloned();
        let reservation = status.map(|status| Reservation { nonce, status });
        let holder = SlotStatus::bound_to(slot, reservation.as_ref()).and_then(|id| self.get(id));
        SlotStatus {
            slot: slot.clone(),
            tx: holder.filter(|tx| tx.state.nonce() == Some(nonce)).cloned(),
            reservation,
            attempts: lane.attempts.range((nonce, 0)..=(nonce, u16::MAX)).map(|(_, attempt)| attempt.clone()).collect(),
        }
    }

    /// A process that was not heard of for longer than a lease lasts, also by the slowest clock, has no lanes any more.
    pub(super) fn census(&self, call: &Call<'_>) -> Census {
        let oldest = call.now.saturating_sub(call.terms.duration).saturating_sub(call.terms.clock_skew);
        let others = self.nodes.iter().filter(|(node, seen_at)| *node != call.owner && **seen_at > oldest).count();
        let leases = self.lanes.values().filter_map(|lane| lane.lease.as_ref());
        Census { nodes: count(others + 1), lanes: count(leases.filter(|row| row.is_valid(call)).count()) }
    }

    /// The process is alive.
    pub(super) fn seen(&mut self, call: &Call<'_>) {
        self.nodes.insert(call.owner.clone(), call.now);
    }

    pub(super) fn audit(&mut self, call: &Call<'_>, row: AuditRow) {
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
