//! The second flight: the writes of the good lanes, and COMMIT.

use std::collections::BTreeMap;
use std::time::SystemTime;

use futures_util::future::join_all;
use gapless_domain::{
    Attempt, Change, Claim, CommandResult, LaneCommit, LaneState, Nonce, Payload, ReservationStatus, SendReport,
};
use gapless_store::codec::{fees_to_json, notice_to_json, payload_to_json, sends_to_json, signed, state_to_row};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::check::Planned;
use super::token;
use crate::rows::{micros, slot_kind, system_time, timestamp};
use crate::session::Session;
use crate::store::PgStore;

// Each write demands its exact number of rows: `1 / (count = wanted)` fails the transaction when it is not, so that the
// COMMIT behind it, already under way, becomes a rollback. Every change of a row also demands that no newer owner wrote it.

const EXTEND_LEASES: &str = "
    WITH w AS (
        UPDATE submitter_lease l
        SET expires_at = clock_timestamp() + $4::bigint * interval '1 microsecond', updated_at = clock_timestamp()
        FROM unnest($1::text[], $2::bigint[]) AS i (submitter, token)
        WHERE l.submitter = i.submitter AND l.fencing_token = i.token AND l.owner_node = $3
        RETURNING 1
    ) SELECT 1 / (count(*) = $5::bigint)::int FROM w";

const WRITE_CURSORS: &str = "
    WITH w AS (
        INSERT INTO submitter_nonce_cursor AS c
            (submitter, next_nonce, chain_nonce, final_nonce, open_nonce, state, protect_code, protect_detail, paused,
             version, event_seq, epoch, fencing_token, low_balance, updated_at)
        SELECT i.*, $15::timestamptz FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[],
            $7::text[], $8::text[], $9::boolean[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::boolean[]) AS i
        ON CONFLICT (submitter) DO UPDATE SET
            next_nonce = excluded.next_nonce, chain_nonce = excluded.chain_nonce, final_nonce = excluded.final_nonce,
            open_nonce = excluded.open_nonce, state = excluded.state, protect_code = excluded.protect_code, protect_detail = excluded.protect_detail,
            paused = excluded.paused, low_balance = excluded.low_balance, version = excluded.version, event_seq = excluded.event_seq,
            epoch = excluded.epoch, fencing_token = excluded.fencing_token, updated_at = excluded.updated_at
        WHERE c.version = excluded.version - 1 AND c.fencing_token <= excluded.fencing_token
          AND c.next_nonce <= excluded.next_nonce AND c.final_nonce <= excluded.final_nonce AND c.open_nonce <= excluded.open_nonce
        RETURNING 1
    ) SELECT 1 / (count(*) = $16::bigint)::int FROM w";

const BIND_SLOTS: &str = "
    INSERT INTO slot (submitter, nonce, kind, tx_id, fencing_token, above_block, above_hash, evidence, bound_at)
    SELECT i.*, $9::timestamptz
    FROM unnest($1::text[], $2::bigint[], $3::text[], $4::uuid[], $5::bigint[], $6::bigint[], $7::bytea[], $8::text[]) AS i";

const CHANGE_TXS: &str = "
    WITH w AS (
        UPDATE managed_tx t
        SET state = i.state, sub_state = i.sub_state, nonce = i.nonce, detail = i.detail::jsonb, version = i.to_version,
            fencing_token = i.token, updated_at = $10::timestamptz,
            ended_at = CASE WHEN i.ended THEN $10::timestamptz END, replacement = coalesce(i.replacement::jsonb, t.replacement)
        FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::boolean[],
            $9::bigint[], $11::text[])
            AS i (tx_id, from_version, to_version, state, sub_state, nonce, detail, ended, token, replacement)
        WHERE t.tx_id = i.tx_id AND t.version = i.from_version AND t.fencing_token <= i.token AND t.ended_at IS NULL
        RETURNING 1
    ) SELECT 1 / (count(*) = $12::bigint)::int FROM w";

const ADD_ATTEMPTS: &str = "
    WITH w AS (
        INSERT INTO tx_attempt (submitter, nonce, ordinal, kind, hash, raw, fees, fencing_token, created_at, tx_id)
        SELECT i.submitter, i.nonce, i.ordinal, i.kind, i.hash, i.raw, i.fees::jsonb, i.token, $9::timestamptz, coalesce(s.tx_id, r.tx_id)
        FROM unnest($1::text[], $2::bigint[], $3::smallint[], $4::text[], $5::bytea[], $6::bytea[], $7::text[], $8::bigint[])
            AS i (submitter, nonce, ordinal, kind, hash, raw, fees, token)
        JOIN slot s ON (s.submitter, s.nonce) = (i.submitter, i.nonce)
        LEFT JOIN submitter_nonce_allocation r ON (r.submitter, r.nonce) = (i.submitter, i.nonce)
        WHERE r.status IS NULL OR r.status = 'USED'  -- a nonce that is lent, or may be lent again, has no transaction of ours
        RETURNING 1
    ) SELECT 1 / (count(*) = $10::bigint)::int FROM w";

/// Of the history the newest $8 are kept. A path is lax: a list that is shorter is taken whole. What is sent for the first time, as most
/// are, has none.
const REPORT_SENDS: &str = "
    WITH w AS (
        UPDATE tx_attempt a
        SET sends = a.sends + i.times, last_sent_at = $9::timestamptz, last_outcome = i.outcome, last_text = i.text, fencing_token = i.token,
            history = CASE WHEN a.sends = 0 AND i.times <= $8::bigint THEN i.sent::jsonb ELSE jsonb_path_query_array(
                a.history || i.sent::jsonb, '$[last - $kept + 1 to last]', jsonb_build_object('kept', $8::bigint)) END
        FROM unnest($1::text[], $2::bytea[], $3::integer[], $4::text[], $5::text[], $6::bigint[], $7::text[], $11::bigint[])
            AS i (submitter, hash, times, outcome, text, token, sent, nonce)
        WHERE (a.submitter, a.nonce) = (i.submitter, i.nonce) AND a.hash = i.hash AND a.fencing_token <= i.token
        RETURNING 1
    ) SELECT 1 / (count(*) = $10::bigint)::int FROM w";

const CLAIM_RESUBMITS: &str = "
    WITH w AS (
        UPDATE slot s
        SET next_resubmit_at = $7::timestamptz + i.pause * interval '1 microsecond', fencing_token = i.token, tries = i.tries,
            signal = coalesce(i.signal, s.signal)
        FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::text[])
            AS i (submitter, nonce, pause, token, tries, signal)
        WHERE (s.submitter, s.nonce) = (i.submitter, i.nonce) AND s.fencing_token <= i.token
        RETURNING 1
    ) SELECT 1 / (count(*) = $8::bigint)::int FROM w";

const WRITE_RESERVATIONS: &str = "
    WITH w AS (
        INSERT INTO submitter_nonce_allocation AS r (submitter, nonce, status, tx_id, lock_owner, locked_until, fencing_token)
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::uuid[], $5::text[], $6::timestamptz[], $7::bigint[])
        ON CONFLICT (submitter, nonce) DO UPDATE SET
            status = excluded.status, tx_id = excluded.tx_id, lock_owner = excluded.lock_owner,
            locked_until = excluded.locked_until, fencing_token = excluded.fencing_token
        WHERE r.fencing_token <= excluded.fencing_token
        RETURNING 1
    ) SELECT 1 / (count(*) = $8::bigint)::int FROM w";

/// One that was done before stays as it was.
const FINISH_COMMANDS: &str = "
    UPDATE lane_command c SET done_at = $5::timestamptz, result = i.result, refused = i.refused
    FROM unnest($1::text[], $2::bigint[], $3::text[], $4::boolean[]) AS i (submitter, id, result, refused)
    WHERE c.id = i.id AND c.submitter = i.submitter AND c.done_at IS NULL";

/// After the changes of this commit, no intent below a lane's new open nonce may still hold its nonce.
const CHECK_CLOSED: &str = "
    SELECT 1 / (count(*) = 0)::int
    FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS i (submitter, was_open, open)
    JOIN slot s ON s.submitter = i.submitter AND s.nonce >= i.was_open AND s.nonce < i.open
    LEFT JOIN submitter_nonce_allocation r ON (r.submitter, r.nonce) = (s.submitter, s.nonce)
    JOIN managed_tx t ON t.tx_id = coalesce(s.tx_id, r.tx_id) AND t.nonce = s.nonce AND t.ended_at IS NULL";

const TELL_EVENTS: &str = "
    INSERT INTO tx_event (xid, submitter, tx_id, seq, kind, state, nonce, detail, text, notice, at)
    SELECT (SELECT event_xid()), submitter, tx_id, seq, kind, state, nonce, detail::jsonb, text, notice::jsonb,
        $10::timestamptz
    FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[])
        WITH ORDINALITY AS i (submitter, tx_id, seq, kind, state, nonce, detail, text, notice, place)
    ORDER BY place";

const WRITE_AUDITS: &str = "
    INSERT INTO audit_log (subject, actor, action, detail, at)
    SELECT subject, actor, action, detail, $5::timestamptz
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
        WITH ORDINALITY AS i (subject, actor, action, detail, place)
    ORDER BY place";

/// One statement with its arrays.
struct Write {
    sql: &'static str,
    params: Vec<Box<dyn ToSql + Sync + Send>>,
}

macro_rules! write {
    ($sql:expr, $($param:expr),+ $(,)?) => {
        Write { sql: $sql, params: vec![$(Box::new($param)),+] }
    };
}

pub(super) async fn write_and_commit(
    session: &Session,
    store: &PgStore,
    plan: &[Planned<'_>],
    at: SystemTime,
) -> Result<(), Error> {
    // In the order of the locks: lease, cursor, slot, tx, attempt, event. Attempts take their intent from the reservations
    // before them.
    let writes: Vec<Write> = [
        extend_leases(plan, store),
        write_cursors(plan, at),
        bind_slots(plan, at),
        change_txs(plan, at),
        write_reservations(plan),
        add_attempts(plan, at),
        report_sends(plan, at),
        claim_resubmits(plan, at),
        finish_commands(plan, at),
        check_closed(plan),
        tell_events(plan, at),
        write_audits(plan, at),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut statements = Vec::with_capacity(writes.len());
    for write in &writes {
        statements.push(session.prepared(write.sql).await?);
    }
    let params: Vec<Vec<&(dyn ToSql + Sync)>> = writes
        .iter()
        .map(|write| write.params.iter().map(|param| param.as_ref() as &(dyn ToSql + Sync)).collect())
        .collect();
    // All leave before the first is answered: futures are polled in order, and a statement is on its way once polled.
    let client = session.client();
    let flight = join_all(statements.iter().zip(&params).map(|(statement, params)| client.query(statement, params)));
    let (answers, committed) = tokio::join!(biased; flight, client.batch_execute("COMMIT"));
    // COMMIT answers "ok" also when it rolled back, so every answer before it counts.
    for answer in answers {
        answer?;
    }
    committed
}

fn extend_leases(plan: &[Planned<'_>], store: &PgStore) -> Option<Write> {
    let lanes: Vec<String> = plan.iter().map(lane).collect();
    let tokens: Vec<i64> = plan.iter().map(|planned| token(planned.commit)).collect();
    let wanted = count(&lanes)?;
    let owner = store.owner.as_str().to_owned();
    Some(write!(EXTEND_LEASES, lanes, tokens, owner, micros(store.options.lease.duration), wanted))
}

fn write_cursors(plan: &[Planned<'_>], at: SystemTime) -> Option<Write> {
    let (mut lanes, mut next, mut chain, mut finalized, mut open) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut states, mut codes, mut details) = (vec![], vec![], vec![]);
    let (mut paused, mut low, mut versions, mut event_seqs) = (vec![], vec![], vec![], vec![]);
    let (mut epochs, mut tokens) = (vec![], vec![]);
    for planned in plan {
        let Some(change) = planned.commit.cursor() else { continue };
        let cursor = change.to();
        let protection = match &cursor.state {
            LaneState::Protect(protection) => Some(protection),
            LaneState::Idle | LaneState::InFlight => None,
        };
        lanes.push(lane(planned));
        next.push(signed(cursor.next_nonce.get()));
        chain.push(signed(cursor.chain_nonce.get()));
        finalized.push(signed(cursor.final_nonce.get()));
        open.push(signed(cursor.open_nonce.get()));
        states.push(cursor.state.as_str());
        codes.push(protection.map(|protection| protection.code.as_str()));
        details.push(protection.map(|protection| protection.detail.to_string()));
        paused.push(cursor.paused);
        low.push(cursor.low_balance);
        versions.push(signed(cursor.version));
        event_seqs.push(signed(cursor.event_seq));
        epochs.push(planned.epoch);
        tokens.push(token(planned.commit));
    }
    let wanted = count(&lanes)?;
    Some(write!(
        WRITE_CURSORS,
        lanes,
        next,
        chain,
        finalized,
        open,
        states,
        codes,
        details,
        paused,
        versions,
        event_seqs,
        epochs,
        tokens,
        low,
        at,
        wanted
    ))
}

fn bind_slots(plan: &[Planned<'_>], at: SystemTime) -> Option<Write> {
    let (mut lanes, mut nonces, mut kinds, mut txs, mut tokens) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut above, mut above_hashes, mut evidence) = (vec![], vec![], vec![]);
    for planned in plan {
        for slot in planned.commit.slots() {
            let (kind, tx_id) = slot_kind(&slot.kind);
            lanes.push(lane(planned));
            nonces.push(signed(slot.nonce.get()));
            kinds.push(kind);
            txs.push(tx_id);
            above.push(slot.above.map(|block| signed(block.number)));
            above_hashes.push(slot.above.map(|block| block.hash.to_vec()));
            evidence.push(slot.evidence.as_ref().map(ToString::to_string));
            tokens.push(token(planned.commit));
        }
    }
    count(&lanes)?;
    Some(write!(BIND_SLOTS, lanes, nonces, kinds, txs, tokens, above, above_hashes, evidence, at))
}

fn change_txs(plan: &[Planned<'_>], at: SystemTime) -> Option<Write> {
    let (mut ids, mut from, mut to): (Vec<Uuid>, Vec<i32>, Vec<i32>) = (vec![], vec![], vec![]);
    let (mut states, mut subs, mut nonces, mut details) = (vec![], vec![], vec![], vec![]);
    let (mut ended, mut tokens, mut replacements) = (vec![], vec![], vec![]);
    for planned in plan {
        for (id, step) in steps(planned.commit) {
            let row = state_to_row(step.last.to());
            ids.push(id);
            from.push(int(step.from_version));
            to.push(int(step.last.to_version()));
            states.push(row.state.as_str());
            subs.push(row.sub_state.map(|sub| sub.as_str()));
            nonces.push(row.nonce);
            details.push(row.detail);
            ended.push(row.state.is_terminal());
            tokens.push(token(planned.commit));
            replacements.push(step.replacement.map(payload_to_json));
        }
    }
    let wanted = count(&ids)?;
    Some(write!(CHANGE_TXS, ids, from, to, states, subs, nonces, details, ended, tokens, at, replacements, wanted))
}

/// Several changes of one intent are one step of its row, from the first to the last; each is an event of its own.
struct Step<'a> {
    from_version: u32,
    last: &'a Change,
    /// The newest, if there is one.
    replacement: Option<&'a Payload>,
}

fn steps(commit: &LaneCommit) -> BTreeMap<Uuid, Step<'_>> {
    let mut steps: BTreeMap<Uuid, Step<'_>> = BTreeMap::new();
    for change in commit.changes() {
        let first = Step { from_version: change.from_version(), last: change, replacement: None };
        let step = steps.entry(change.tx_id().uuid()).or_insert(first);
        step.last = change;
        step.replacement = change.replacement().or(step.replacement);
    }
    steps
}

fn add_attempts(plan: &[Planned<'_>], at: SystemTime) -> Option<Write> {
    let (mut lanes, mut nonces, mut ordinals, mut kinds) = (vec![], vec![], vec![], vec![]);
    let (mut hashes, mut raws, mut fees, mut tokens) = (vec![], vec![], vec![], vec![]);
    for planned in plan {
        for attempt in planned.commit.attempts() {
            lanes.push(lane(planned));
            nonces.push(signed(attempt.nonce.get()));
            ordinals.push(i16::try_from(attempt.ordinal).unwrap_or(i16::MAX));
            kinds.push(attempt.kind.as_str());
            hashes.push(attempt.hash.to_vec());
            raws.push(attempt.raw.to_vec());
            fees.push(fees_to_json(&attempt.fees));
            tokens.push(token(planned.commit));
        }
    }
    let wanted = count(&lanes)?;
    Some(write!(ADD_ATTEMPTS, lanes, nonces, ordinals, kinds, hashes, raws, fees, tokens, at, wanted))
}

fn report_sends(plan: &[Planned<'_>], at: SystemTime) -> Option<Write> {
    let (mut lanes, mut hashes, mut times, mut nonces) = (vec![], vec![], vec![], vec![]);
    let (mut outcomes, mut texts, mut tokens, mut sent) = (vec![], vec![], vec![], vec![]);
    for planned in plan {
        // The same bytes may have been sent several times: all of them are history, and the last outcome is the one that counts.
        let mut sends: BTreeMap<Vec<u8>, Vec<&SendReport>> = BTreeMap::new();
        for report in planned.commit.reports() {
            sends.entry(report.hash.to_vec()).or_default().push(report);
        }
        for (hash, reports) in sends {
            let Some(last) = reports.last() else { continue };
            lanes.push(lane(planned));
            nonces.push(signed(last.nonce.get()));
            hashes.push(hash);
            times.push(i32::try_from(reports.len()).unwrap_or(i32::MAX));
            outcomes.push(last.outcome.as_str());
            texts.push(last.text.to_string());
            tokens.push(token(planned.commit));
            sent.push(sends_to_json(timestamp(at), &reports));
        }
    }
    let wanted = count(&lanes)?;
    let kept = signed(Attempt::HISTORY as u64);
    Some(write!(REPORT_SENDS, lanes, hashes, times, outcomes, texts, tokens, sent, kept, at, wanted, nonces))
}

fn claim_resubmits(plan: &[Planned<'_>], at: SystemTime) -> Option<Write> {
    let (mut lanes, mut nonces, mut pauses, mut tokens) = (vec![], vec![], vec![], vec![]);
    let (mut tries, mut signals) = (vec![], vec![]);
    for planned in plan {
        let mut claims: BTreeMap<Nonce, Claim> = BTreeMap::new();
        for claim in planned.commit.claims() {
            let before = claims.get(&claim.nonce).and_then(|before| before.signal);
            claims.insert(claim.nonce, Claim { signal: claim.signal.or(before), ..*claim });
        }
        for claim in claims.into_values() {
            lanes.push(lane(planned));
            nonces.push(signed(claim.nonce.get()));
            pauses.push(micros(claim.pause));
            tokens.push(token(planned.commit));
            tries.push(i32::from(claim.tries));
            signals.push(claim.signal.map(|signal| signal.as_str()));
        }
    }
    let wanted = count(&lanes)?;
    Some(write!(CLAIM_RESUBMITS, lanes, nonces, pauses, tokens, tries, signals, at, wanted))
}

fn write_reservations(plan: &[Planned<'_>]) -> Option<Write> {
    let (mut lanes, mut nonces, mut statuses) = (vec![], vec![], vec![]);
    let (mut txs, mut owners, mut untils, mut tokens) = (vec![], vec![], vec![], vec![]);
    for planned in plan {
        for reservation in &planned.reservations {
            let (status, tx_id, owner, until) = match &reservation.status {
                ReservationStatus::Reserved { tx_id, lock_owner, locked_until } => {
                    ("RESERVED", Some(tx_id.uuid()), Some(lock_owner.to_string()), Some(system_time(*locked_until)))
                }
                ReservationStatus::Used { tx_id } => ("USED", tx_id.map(|id| id.uuid()), None, None),
                ReservationStatus::Recyclable => ("RECYCLABLE", None, None, None),
            };
            lanes.push(lane(planned));
            nonces.push(signed(reservation.nonce.get()));
            statuses.push(status);
            txs.push(tx_id);
            owners.push(owner);
            untils.push(until);
            tokens.push(token(planned.commit));
        }
    }
    let wanted = count(&lanes)?;
    Some(write!(WRITE_RESERVATIONS, lanes, nonces, statuses, txs, owners, untils, tokens, wanted))
}

fn finish_commands(plan: &[Planned<'_>], at: SystemTime) -> Option<Write> {
    let (mut lanes, mut ids, mut results, mut refused) = (vec![], vec![], vec![], vec![]);
    for planned in plan {
        for (id, result) in planned.commit.commands_done() {
            lanes.push(lane(planned));
            ids.push(signed(id.0));
            results.push(result.report().to_string());
            refused.push(matches!(result, CommandResult::Refused(_)));
        }
    }
    count(&lanes)?;
    Some(write!(FINISH_COMMANDS, lanes, ids, results, refused, at))
}

fn check_closed(plan: &[Planned<'_>]) -> Option<Write> {
    let (mut lanes, mut was_open, mut open) = (vec![], vec![], vec![]);
    for planned in plan {
        let Some(change) = planned.commit.cursor() else { continue };
        let to = signed(change.to().open_nonce.get());
        if to > planned.open_nonce {
            lanes.push(lane(planned));
            was_open.push(planned.open_nonce);
            open.push(to);
        }
    }
    count(&lanes)?;
    Some(write!(CHECK_CLOSED, lanes, was_open, open))
}

fn tell_events(plan: &[Planned<'_>], at: SystemTime) -> Option<Write> {
    let (mut lanes, mut txs, mut seqs, mut kinds) = (vec![], vec![], vec![], vec![]);
    let (mut states, mut nonces, mut details, mut texts, mut notices) = (vec![], vec![], vec![], vec![], vec![]);
    for planned in plan {
        for change in planned.commit.changes() {
            let row = state_to_row(change.to());
            lanes.push(lane(planned));
            txs.push(Some(change.tx_id().uuid()));
            seqs.push(i64::from(change.to_version()));
            kinds.push(change.event().as_str());
            states.push(Some(row.state.as_str()));
            nonces.push(row.nonce);
            details.push(Some(row.detail));
            texts.push(None);
            notices.push(change.notice().map(notice_to_json));
        }
        for (seq, kind, text) in planned.commit.lane_events() {
            lanes.push(lane(planned));
            txs.push(None);
            seqs.push(signed(seq));
            kinds.push(kind.as_str());
            states.push(None);
            nonces.push(None);
            details.push(None);
            texts.push(Some(text.to_string()));
            notices.push(None);
        }
    }
    count(&lanes)?;
    Some(write!(TELL_EVENTS, lanes, txs, seqs, kinds, states, nonces, details, texts, notices, at))
}

fn write_audits(plan: &[Planned<'_>], at: SystemTime) -> Option<Write> {
    let (mut subjects, mut actors, mut actions, mut details) = (vec![], vec![], vec![], vec![]);
    for planned in plan {
        for entry in planned.commit.audits() {
            subjects.push(lane(planned));
            actors.push(entry.actor.to_string());
            actions.push(entry.action);
            details.push(entry.detail.to_string());
        }
    }
    count(&subjects)?;
    Some(write!(WRITE_AUDITS, subjects, actors, actions, details, at))
}

fn lane(planned: &Planned<'_>) -> String {
    planned.commit.lease().submitter().as_str().to_owned()
}

/// How many rows must be written; None if there is nothing to write.
fn count<T>(rows: &[T]) -> Option<i64> {
    i64::try_from(rows.len()).ok().filter(|count| *count > 0)
}

fn int(version: u32) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}
