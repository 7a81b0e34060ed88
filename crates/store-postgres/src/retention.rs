//! Retention: ended intents move out in batches, and later their events and attempts are deleted. Slots, request keys,
//! leases and the records of moved-out intents stay for ever.
//!
//! Every batch is one statement, so one transaction. Locked rows are left for the next batch, except lane events, which
//! are deleted in order. No row that the commit of a lane writes is locked here: ended intents and closed nonces never
//! change.

use std::time::Duration;

use gapless_domain::Timestamp;
use gapless_store::{RetentionKind, StoreError};

use crate::rows::{micros, time};
use crate::store::PgStore;

/// $2 is the duration of a claim, $3 the longest time that an honest claim can last.
const CLAIM: &str = "
    INSERT INTO retention_claim AS c (one, owner_node, locked_until)
    VALUES (TRUE, $1, clock_timestamp() + $2::bigint * interval '1 microsecond')
    ON CONFLICT (one) DO UPDATE SET owner_node = excluded.owner_node, locked_until = excluded.locked_until
    WHERE c.owner_node = excluded.owner_node OR c.locked_until <= clock_timestamp()
       OR c.locked_until > clock_timestamp() + $3::bigint * interval '1 microsecond'
    RETURNING clock_timestamp() AS now";

/// One statement moves one batch, oldest first. Only the oldest intents are considered: consumers acknowledge events in
/// order, so a consumer that is behind the oldest is behind the others too. The attempts of a nonce that is still open
/// stay where the lane loads them.
const MOVE_INTENTS: &str = "
    WITH oldest AS (
        SELECT tx_id FROM managed_tx
        WHERE ended_at <= clock_timestamp() - $1::bigint * interval '1 microsecond'
        ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ), old AS (
        SELECT tx_id FROM oldest o
        WHERE NOT EXISTS (
            SELECT FROM tx_event e, event_consumer c WHERE e.tx_id = o.tx_id AND (e.xid, e.id) > (c.xid, c.id))
    ), txs AS (
        DELETE FROM managed_tx t USING old WHERE t.tx_id = old.tx_id RETURNING t.*
    ), attempts AS (
        DELETE FROM tx_attempt a USING old
        WHERE a.tx_id = old.tx_id
          AND a.nonce < (SELECT c.open_nonce FROM submitter_nonce_cursor c WHERE c.submitter = a.submitter)
        RETURNING a.*
    ), events AS (
        DELETE FROM tx_event e USING old WHERE e.tx_id = old.tx_id RETURNING e.*
    ), keys AS (
        UPDATE request_key k SET end_state = txs.state FROM txs
        WHERE (k.submitter, k.request_id) = (txs.submitter, txs.request_id)
    ), kept_attempts AS (
        INSERT INTO archived_attempt (submitter, nonce, ordinal, tx_id, kind, hash, raw, fees, sends, last_sent_at,
            last_outcome, last_text, fencing_token, created_at, history)
        SELECT submitter, nonce, ordinal, tx_id, kind, hash, raw, fees, sends, last_sent_at,
            last_outcome, last_text, fencing_token, created_at, history FROM attempts
    ), kept_events AS (
        INSERT INTO archived_event (xid, id, submitter, tx_id, seq, kind, state, nonce, detail, text, at, notice)
        SELECT xid, id, submitter, tx_id, seq, kind, state, nonce, detail, text, at, notice FROM events
    ), kept AS (
        INSERT INTO archived_tx (archived_at, tx_id, seq, submitter, request_id, payload, speed, valid_until, metadata,
            state, sub_state, nonce, detail, version, fencing_token, created_at, updated_at, ended_at, replacement,
            has_attempts)
        SELECT clock_timestamp(), tx_id, seq, submitter, request_id, payload, speed, valid_until, metadata,
            state, sub_state, nonce, detail, version, fencing_token, created_at, updated_at, ended_at, replacement,
            EXISTS (SELECT FROM tx_attempt a WHERE a.tx_id = txs.tx_id)
        FROM txs RETURNING 1
    )
    SELECT count(*) FROM kept";

const DELETE_EVENTS: &str = "
    WITH due AS (
        SELECT tx_id FROM archived_tx
        WHERE has_events AND ended_at <= clock_timestamp() - $1::bigint * interval '1 microsecond'
        ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM archived_event e USING due WHERE e.tx_id = due.tx_id
    ), stripped AS (
        UPDATE archived_tx x SET has_events = FALSE FROM due WHERE x.tx_id = due.tx_id RETURNING 1
    )
    SELECT count(*) FROM stripped";

/// An intent waits while its lane still loads one of its attempts.
const DELETE_ATTEMPTS: &str = "
    WITH due AS (
        SELECT x.tx_id FROM archived_tx x
        WHERE x.has_attempts AND x.ended_at <= clock_timestamp() - $1::bigint * interval '1 microsecond'
          AND NOT EXISTS (
              SELECT FROM tx_attempt a JOIN submitter_nonce_cursor c ON c.submitter = a.submitter
              WHERE a.tx_id = x.tx_id AND a.nonce >= c.open_nonce)
        ORDER BY x.ended_at LIMIT $2 FOR UPDATE OF x SKIP LOCKED
    ), moved_out AS (
        DELETE FROM archived_attempt a USING due WHERE a.tx_id = due.tx_id
    ), left_behind AS (
        DELETE FROM tx_attempt a USING due WHERE a.tx_id = due.tx_id
    ), stripped AS (
        UPDATE archived_tx x SET has_attempts = FALSE FROM due WHERE x.tx_id = due.tx_id RETURNING 1
    )
    SELECT count(*) FROM stripped";

/// Events are deleted in the order of their positions, up to the first event that is not due: after a jump of the clock
/// a later event can have an earlier time, and a consumer must never see a gap between two events.
const DELETE_LANE_EVENTS: &str = "
    WITH oldest AS (
        SELECT xid, id, at FROM tx_event WHERE tx_id IS NULL ORDER BY xid, id LIMIT $2
    ), due AS (
        SELECT xid, id, bool_and(
            at <= clock_timestamp() - $1::bigint * interval '1 microsecond'
            AND NOT EXISTS (SELECT FROM event_consumer c WHERE (o.xid, o.id) > (c.xid, c.id))
        ) OVER (ORDER BY xid, id) AS is_due
        FROM oldest o
    ), gone AS (
        DELETE FROM tx_event e USING due d WHERE (e.xid, e.id) = (d.xid, d.id) AND d.is_due RETURNING 1
    )
    SELECT count(*) FROM gone";

/// The time of the oldest lane event, if it is in the future: the clock went back since. The event stops the deletion
/// of all lane events behind it until it is due.
const FUTURE_LANE_EVENT: &str = "
    SELECT at FROM (SELECT at FROM tx_event WHERE tx_id IS NULL ORDER BY xid, id LIMIT 1) AS oldest
    WHERE at > clock_timestamp()";

const DELETE_COMMANDS: &str = "
    WITH due AS (
        SELECT id FROM lane_command
        WHERE done_at IS NOT NULL AND done_at <= clock_timestamp() - $1::bigint * interval '1 microsecond'
        ORDER BY done_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM lane_command c USING due WHERE c.id = due.id RETURNING 1
    )
    SELECT count(*) FROM gone";

/// Only the first rows are read: ids and times grow together, so if the oldest entry is too young, so are the others.
const DELETE_AUDITS: &str = "
    WITH oldest AS (
        SELECT id, at FROM audit_log ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM audit_log a USING oldest o
        WHERE a.id = o.id AND o.at <= clock_timestamp() - $1::bigint * interval '1 microsecond'
        RETURNING 1
    )
    SELECT count(*) FROM gone";

/// $3 is the caller, $4 the longest time that an honest lease can last. A process may hold a lease for that time after
/// its last sign of life. Its row is deleted when the process gave no sign of life for that time after the row was
/// marked. The lock skips a process that is writing its row at this moment.
const DELETE_NODES: &str = "
    WITH stale AS (
        SELECT owner_node,
               coalesce(seen_at = dead_seen_at
                   AND dead_marked_at <= clock_timestamp() - $4::bigint * interval '1 microsecond', FALSE) AS is_dead
        FROM node n
        WHERE seen_at <= clock_timestamp() - greatest($1::bigint, $4::bigint) * interval '1 microsecond'
          AND owner_node <> $3
          AND NOT EXISTS (
              SELECT FROM submitter_lease l WHERE l.owner_node = n.owner_node AND l.expires_at > clock_timestamp())
        ORDER BY seen_at LIMIT $2 FOR UPDATE OF n SKIP LOCKED
    ), marked AS (
        UPDATE node n SET dead_seen_at = n.seen_at, dead_marked_at = clock_timestamp()
        FROM stale s WHERE n.owner_node = s.owner_node AND NOT s.is_dead AND n.dead_seen_at IS DISTINCT FROM n.seen_at
    ), gone AS (
        DELETE FROM node n USING stale s WHERE n.owner_node = s.owner_node AND s.is_dead RETURNING 1
    )
    SELECT count(*) FROM gone";

pub(crate) async fn claim(store: &PgStore) -> Result<Option<Timestamp>, StoreError> {
    let lease = &store.options.lease;
    let (hold, horizon) = (micros(lease.duration), micros(lease.duration + lease.clock_skew));
    let claimed = store
        .with_session("claiming retention", async |session| {
            let statement = session.prepared(CLAIM).await?;
            session.client().query_opt(&statement, &[&store.owner.as_str(), &hold, &horizon]).await
        })
        .await?;
    claimed.map(|row| Ok(time(&row, "now")?)).transpose()
}

pub(crate) async fn apply(store: &PgStore, kind: RetentionKind, age: Duration, limit: u32) -> Result<u32, StoreError> {
    let sql = match kind {
        RetentionKind::Intents => MOVE_INTENTS,
        RetentionKind::Events => DELETE_EVENTS,
        RetentionKind::LaneEvents => DELETE_LANE_EVENTS,
        RetentionKind::Attempts => DELETE_ATTEMPTS,
        RetentionKind::Commands => DELETE_COMMANDS,
        RetentionKind::Audit => DELETE_AUDITS,
        RetentionKind::Nodes => DELETE_NODES,
    };
    let (age, limit) = (micros(age), i64::from(limit));
    let moved: i64 = store
        .with_session("applying retention", async |session| {
            let statement = session.prepared(sql).await?;
            let client = session.client();
            let row = if kind == RetentionKind::Nodes {
                let dead_after = micros(store.options.lease.duration + store.options.lease.clock_skew);
                client.query_one(&statement, &[&age, &limit, &store.owner.as_str(), &dead_after]).await?
            } else {
                client.query_one(&statement, &[&age, &limit]).await?
            };
            Ok(row.get(0))
        })
        .await?;
    if kind == RetentionKind::LaneEvents {
        warn_of_future_event(store).await?;
    }
    Ok(u32::try_from(moved).unwrap_or(u32::MAX))
}

async fn warn_of_future_event(store: &PgStore) -> Result<(), StoreError> {
    let oldest = store
        .with_session("reading the oldest lane event", async |session| {
            let statement = session.prepared(FUTURE_LANE_EVENT).await?;
            session.client().query_opt(&statement, &[]).await
        })
        .await?;
    if let Some(row) = oldest {
        let at = time(&row, "at")?;
        tracing::warn!(?at, "lane events are not deleted: the oldest one is from the future, the clock went back");
    }
    Ok(())
}
