//! The second flight: the writes of the good lanes, and COMMIT.

use std::collections::BTreeMap;
use std::time::SystemTime;

use futures_util::future::join_all;
use gapless_domain::{Attempt, B256, Change, Claim, CommandResult, LaneCommit, Nonce, Payload, SendReport, TxId};
use gapless_store_sql::{
    CursorRow, ReservationRow, fees_to_json, notice_to_json, payload_to_json, sends_to_json, signed, state_to_row,
};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use super::check::Planned;
use super::statements::{
    self, AttemptWrite, AuditWrite, ClaimWrite, ClosedRange, CommandFinish, CursorWrite, EventWrite, IntentChange,
    LeaseExtension, ReservationWrite, SendWrite, SlotWrite,
};
use super::token;
use crate::bulk::BulkStatement;
use crate::rows::{micros, slot_kind, system_time, timestamp};
use crate::session::Session;
use crate::store::PgStore;

pub(super) async fn write_and_commit(
    session: &Session,
    store: &PgStore,
    plan: &[Planned<'_>],
    at: SystemTime,
) -> Result<(), Error> {
    // In the order of the locks: lease, cursor, slot, intent, attempt, event. Attempts take their intent from the
    // reservations, which are written before them.
    let writes: Vec<BulkStatement<'_>> = [
        extend_leases(plan, store),
        write_cursors(plan, at),
        bind_slots(plan, at),
        change_intents(plan, at),
        write_reservations(plan),
        add_attempts(plan, at),
        report_sends(plan, at),
        claim_resubmits(plan, at),
        finish_commands(plan, at),
        check_closed(plan),
        write_events(plan, at),
        write_audits(plan, at),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut prepared = Vec::with_capacity(writes.len());
    for write in &writes {
        prepared.push(session.prepared(write.sql).await?);
    }
    let params: Vec<Vec<&(dyn ToSql + Sync)>> = writes.iter().map(BulkStatement::params).collect();
    // All statements leave before the first is answered: futures are polled in order, and a polled statement is sent.
    let client = session.client();
    let flight = join_all(prepared.iter().zip(&params).map(|(statement, params)| client.query(statement, params)));
    let (answers, committed) = tokio::join!(biased; flight, client.batch_execute("COMMIT"));
    // COMMIT answers "ok" also when it rolled back, so every answer before it counts.
    for answer in answers {
        answer?;
    }
    committed
}

fn extend_leases<'a>(plan: &'a [Planned<'_>], store: &'a PgStore) -> Option<BulkStatement<'a>> {
    let row =
        |planned: &'a Planned<'_>| LeaseExtension { submitter: lane(planned), fencing_token: token(planned.commit) };
    let duration_micros = micros(store.options.lease.duration);
    statements::extend_leases(plan.iter().map(row).collect(), store.owner.as_str(), duration_micros)
}

fn write_cursors<'a>(plan: &'a [Planned<'_>], at: SystemTime) -> Option<BulkStatement<'a>> {
    let mut rows = Vec::with_capacity(plan.len());
    for planned in plan {
        let Some(change) = planned.commit.cursor() else { continue };
        let cursor = CursorRow::from(change.to());
        rows.push(CursorWrite {
            submitter: lane(planned),
            next_nonce: cursor.next_nonce,
            chain_nonce: cursor.chain_nonce,
            final_nonce: cursor.final_nonce,
            open_nonce: cursor.open_nonce,
            state: cursor.state,
            protect_code: cursor.protect_code,
            protect_detail: cursor.protect_detail,
            paused: cursor.paused,
            low_balance: cursor.low_balance,
            version: cursor.version,
            event_seq: cursor.event_seq,
            epoch: planned.epoch,
            fencing_token: token(planned.commit),
        });
    }
    statements::write_cursors(rows, at)
}

fn bind_slots<'a>(plan: &'a [Planned<'_>], at: SystemTime) -> Option<BulkStatement<'a>> {
    let mut rows = Vec::new();
    for planned in plan {
        for slot in planned.commit.slots() {
            let (kind, tx_id) = slot_kind(&slot.kind);
            rows.push(SlotWrite {
                submitter: lane(planned),
                nonce: signed(slot.nonce.get()),
                kind,
                tx_id,
                fencing_token: token(planned.commit),
                above_block: slot.above.map(|block| signed(block.number)),
                above_hash: slot.above.as_ref().map(|block| block.hash.as_slice()),
                evidence: slot.evidence.as_ref().map(|evidence| evidence.as_str()),
            });
        }
    }
    statements::bind_slots(rows, at)
}

fn change_intents<'a>(plan: &'a [Planned<'_>], at: SystemTime) -> Option<BulkStatement<'a>> {
    let mut rows = Vec::new();
    for planned in plan {
        for (id, change) in merged_changes(planned.commit) {
            let row = state_to_row(change.last.to());
            rows.push(IntentChange {
                tx_id: id.uuid(),
                from_version: int(change.from_version),
                to_version: int(change.last.to_version()),
                state: row.state.as_str(),
                sub_state: row.sub_state.map(|sub| sub.as_str()),
                nonce: row.nonce,
                detail: row.detail,
                ended: row.state.is_terminal(),
                fencing_token: token(planned.commit),
                replacement: change.replacement.map(payload_to_json),
            });
        }
    }
    statements::change_intents(rows, at)
}

/// All changes of one intent in a commit: one write of its row, from the first version to the last. Each change has an
/// event of its own.
struct MergedChange<'a> {
    from_version: u32,
    last: &'a Change,
    /// The newest replacement, if a change has one.
    replacement: Option<&'a Payload>,
}

fn merged_changes(commit: &LaneCommit) -> BTreeMap<TxId, MergedChange<'_>> {
    let mut merged: BTreeMap<TxId, MergedChange<'_>> = BTreeMap::new();
    for change in commit.changes() {
        let first = MergedChange { from_version: change.from_version(), last: change, replacement: None };
        let entry = merged.entry(change.tx_id()).or_insert(first);
        entry.last = change;
        entry.replacement = change.replacement().or(entry.replacement);
    }
    merged
}

fn write_reservations<'a>(plan: &'a [Planned<'_>]) -> Option<BulkStatement<'a>> {
    let mut rows = Vec::new();
    for planned in plan {
        for reservation in &planned.reservations {
            let row = ReservationRow::from(reservation);
            rows.push(ReservationWrite {
                submitter: lane(planned),
                nonce: row.nonce,
                status: row.status,
                tx_id: row.tx_id.map(|id| id.uuid()),
                lock_owner: row.lock_owner,
                locked_until: row.locked_until.map(system_time),
                fencing_token: token(planned.commit),
            });
        }
    }
    statements::write_reservations(rows)
}

fn add_attempts<'a>(plan: &'a [Planned<'_>], at: SystemTime) -> Option<BulkStatement<'a>> {
    let mut rows = Vec::new();
    for planned in plan {
        for attempt in planned.commit.attempts() {
            rows.push(AttemptWrite {
                submitter: lane(planned),
                nonce: signed(attempt.nonce.get()),
                ordinal: i16::try_from(attempt.ordinal).unwrap_or(i16::MAX),
                kind: attempt.kind.as_str(),
                hash: attempt.hash.as_slice(),
                raw: attempt.raw.as_ref(),
                fees: fees_to_json(&attempt.fees),
                fencing_token: token(planned.commit),
            });
        }
    }
    statements::add_attempts(rows, at)
}

fn report_sends<'a>(plan: &'a [Planned<'_>], at: SystemTime) -> Option<BulkStatement<'a>> {
    let mut rows = Vec::new();
    for planned in plan {
        // An attempt may have been sent several times: each send is history, and the last outcome is the attempt's.
        let mut sends: BTreeMap<B256, Vec<&'a SendReport>> = BTreeMap::new();
        for report in planned.commit.reports() {
            sends.entry(report.hash).or_default().push(report);
        }
        for reports in sends.into_values() {
            let Some(last) = reports.last().copied() else { continue };
            rows.push(SendWrite {
                submitter: lane(planned),
                nonce: signed(last.nonce.get()),
                hash: last.hash.as_slice(),
                times: i32::try_from(reports.len()).unwrap_or(i32::MAX),
                outcome: last.outcome.as_str(),
                text: last.text.as_str(),
                fencing_token: token(planned.commit),
                sent: sends_to_json(timestamp(at), &reports),
            });
        }
    }
    statements::report_sends(rows, at, signed(Attempt::HISTORY as u64))
}

fn claim_resubmits<'a>(plan: &'a [Planned<'_>], at: SystemTime) -> Option<BulkStatement<'a>> {
    let mut rows = Vec::new();
    for planned in plan {
        let mut claims: BTreeMap<Nonce, Claim> = BTreeMap::new();
        for claim in planned.commit.claims() {
            let before = claims.get(&claim.nonce).and_then(|before| before.signal);
            claims.insert(claim.nonce, Claim { signal: claim.signal.or(before), ..*claim });
        }
        for claim in claims.into_values() {
            rows.push(ClaimWrite {
                submitter: lane(planned),
                nonce: signed(claim.nonce.get()),
                pause_micros: micros(claim.pause),
                fencing_token: token(planned.commit),
                tries: i32::from(claim.tries),
                signal: claim.signal.map(|signal| signal.as_str()),
            });
        }
    }
    statements::claim_resubmits(rows, at)
}

fn finish_commands<'a>(plan: &'a [Planned<'_>], at: SystemTime) -> Option<BulkStatement<'a>> {
    let mut rows = Vec::new();
    for planned in plan {
        for (id, result) in planned.commit.commands_done() {
            rows.push(CommandFinish {
                submitter: lane(planned),
                id: signed(id.0),
                result: result.report().as_str(),
                refused: matches!(result, CommandResult::Refused(_)),
            });
        }
    }
    statements::finish_commands(rows, at)
}

fn check_closed<'a>(plan: &'a [Planned<'_>]) -> Option<BulkStatement<'a>> {
    let mut rows = Vec::new();
    for planned in plan {
        let Some(change) = planned.commit.cursor() else { continue };
        let open = signed(change.to().open_nonce.get());
        if open > planned.open_nonce {
            rows.push(ClosedRange { submitter: lane(planned), was_open: planned.open_nonce, open });
        }
    }
    statements::check_closed(rows)
}

fn write_events<'a>(plan: &'a [Planned<'_>], at: SystemTime) -> Option<BulkStatement<'a>> {
    let mut rows = Vec::new();
    for planned in plan {
        for change in planned.commit.changes() {
            let row = state_to_row(change.to());
            rows.push(EventWrite {
                submitter: lane(planned),
                tx_id: Some(change.tx_id().uuid()),
                seq: i64::from(change.to_version()),
                kind: change.event().as_str(),
                state: Some(row.state.as_str()),
                nonce: row.nonce,
                detail: Some(row.detail),
                text: None,
                notice: change.notice().map(notice_to_json),
            });
        }
        for (seq, kind, text) in planned.commit.lane_events() {
            rows.push(EventWrite {
                submitter: lane(planned),
                tx_id: None,
                seq: signed(seq),
                kind: kind.as_str(),
                state: None,
                nonce: None,
                detail: None,
                text: Some(text.as_str()),
                notice: None,
            });
        }
    }
    statements::write_events(rows, at)
}

fn write_audits<'a>(plan: &'a [Planned<'_>], at: SystemTime) -> Option<BulkStatement<'a>> {
    let mut rows = Vec::new();
    for planned in plan {
        for entry in planned.commit.audits() {
            rows.push(AuditWrite {
                subject: lane(planned),
                actor: entry.actor.as_str(),
                action: entry.action,
                detail: entry.detail.as_str(),
            });
        }
    }
    statements::write_audits(rows, at)
}

fn lane<'a>(planned: &'a Planned<'_>) -> &'a str {
    planned.commit.lease().submitter().as_str()
}

fn int(version: u32) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}
