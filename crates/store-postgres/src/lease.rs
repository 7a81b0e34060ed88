//! Leases: acquire, renew, release. All statements use `clock_timestamp()`: `now()` is the time at which the
//! transaction began, and an owner whose lease expired since would still pass.
//!
//! Acquiring and renewing lock lease rows with SKIP LOCKED, so they never wait for a write. A release waits for a write
//! of its own process, and locks the rows in order, so it cannot be part of a deadlock.

use std::collections::{BTreeSet, HashMap, HashSet};

use gapless_domain::{FencingToken, Lease, SubmitterId};
use gapless_store::{Acquired, Renewal, StoreError};
use gapless_store_sql::{signed, submitter, token};
use tokio_postgres::Row;

use crate::canary::lost_commits;
use crate::rows::{get, micros};
use crate::store::PgStore;

/// Grants leases that were never held, with token 1. A lease that exists is not changed.
const FIRST: &str = "
    INSERT INTO submitter_lease (submitter, owner_node, fencing_token, expires_at)
    SELECT s, $2, 1, clock_timestamp() + $3::bigint * interval '1 microsecond'
    FROM unnest($1::text[]) AS s ORDER BY s COLLATE \"C\"
    ON CONFLICT (submitter) DO NOTHING";

/// $3 is the duration, $4 the skew. A lease that lasts longer than any lease can was granted by a server whose clock
/// was ahead. It counts as expired.
const TAKE: &str = "
    WITH free AS (
        SELECT submitter,
               owner_node = $2 AND expires_at > clock_timestamp()
                   AND expires_at <= clock_timestamp() + ($3::bigint + $4::bigint) * interval '1 microsecond' AS mine
        FROM submitter_lease
        WHERE submitter = ANY($1)
          AND (owner_node = $2
               OR expires_at <= clock_timestamp() - $4::bigint * interval '1 microsecond'
               OR expires_at > clock_timestamp() + ($3::bigint + $4::bigint) * interval '1 microsecond')
        ORDER BY submitter FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE submitter_lease l
    SET owner_node = $2, fencing_token = l.fencing_token + CASE WHEN f.mine THEN 0 ELSE 1 END,
        expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond', updated_at = clock_timestamp()
    FROM free f WHERE l.submitter = f.submitter
    RETURNING l.submitter, l.fencing_token";

const HELD_BY_OTHERS: &str = "
    SELECT submitter FROM submitter_lease
    WHERE submitter = ANY($1) AND owner_node <> $2
      AND expires_at > clock_timestamp() - $4::bigint * interval '1 microsecond'
      AND expires_at <= clock_timestamp() + ($3::bigint + $4::bigint) * interval '1 microsecond'";

const RENEW: &str = "
    WITH mine AS (
        SELECT submitter FROM submitter_lease
        WHERE owner_node = $1 AND expires_at > clock_timestamp()
          AND expires_at <= clock_timestamp() + ($2::bigint + $3::bigint) * interval '1 microsecond'
        ORDER BY submitter FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE submitter_lease l
    SET expires_at = clock_timestamp() + $2::bigint * interval '1 microsecond', updated_at = clock_timestamp()
    FROM mine m WHERE l.submitter = m.submitter AND l.owner_node = $1
    RETURNING l.submitter, l.fencing_token";

const STILL_MINE: &str = "
    SELECT submitter, fencing_token FROM submitter_lease
    WHERE owner_node = $1 AND expires_at > clock_timestamp()
      AND expires_at <= clock_timestamp() + ($2::bigint + $3::bigint) * interval '1 microsecond'";

/// Without a lock: a commit of this process may hold the row, and is not acknowledged yet.
const CANARY: &str = "SELECT canary FROM node WHERE owner_node = $1";

/// A row that is locked is skipped: the commit that holds it writes `seen_at` too.
const ALIVE: &str = "
    UPDATE node n SET seen_at = clock_timestamp()
    FROM (SELECT owner_node FROM node WHERE owner_node = $1 FOR NO KEY UPDATE SKIP LOCKED) AS free
    WHERE n.owner_node = free.owner_node";

const OTHERS: &str = "
    SELECT EXISTS (
        SELECT FROM node
        WHERE owner_node <> $1 AND seen_at > clock_timestamp() - $2::bigint * interval '1 microsecond')";

const RELEASE: &str = "
    UPDATE submitter_lease l SET expires_at = '-infinity', updated_at = clock_timestamp()
    FROM (
        SELECT l.submitter FROM submitter_lease l
        JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, token) ON w.submitter = l.submitter
        WHERE l.owner_node = $3 AND l.fencing_token = w.token
        ORDER BY l.submitter FOR NO KEY UPDATE OF l
    ) AS held
    WHERE l.submitter = held.submitter AND l.owner_node = $3
    RETURNING l.submitter,
        EXISTS (SELECT FROM managed_tx t WHERE t.submitter = l.submitter AND t.nonce IS NULL AND t.ended_at IS NULL)
        OR EXISTS (SELECT FROM lane_command c WHERE c.submitter = l.submitter AND c.done_at IS NULL)
        OR EXISTS (SELECT FROM submitter_nonce_cursor c WHERE c.submitter = l.submitter AND c.has_open) AS has_work";

pub(crate) async fn acquire(store: &PgStore, lanes: &[SubmitterId]) -> Result<Vec<Acquired>, StoreError> {
    let ids: Vec<&str> = lanes.iter().map(SubmitterId::as_str).collect();
    let owner = store.owner.as_str();
    let duration = micros(store.options.lease.duration);
    let skew = micros(store.options.lease.clock_skew);
    let (taken, others) = store
        .with_session_of(&store.lease_pool, "acquiring leases", async |session| {
            let first = session.prepared(FIRST).await?;
            let take = session.prepared(TAKE).await?;
            let held = session.prepared(HELD_BY_OTHERS).await?;
            session.client().execute(&first, &[&ids, &owner, &duration]).await?;
            let taken = session.client().query(&take, &[&ids, &owner, &duration, &skew]).await?;
            let others = session.client().query(&held, &[&ids, &owner, &duration, &skew]).await?;
            Ok((taken, others))
        })
        .await?;
    let taken: HashMap<SubmitterId, FencingToken> = taken.iter().map(lane_and_token).collect::<Result<_, _>>()?;
    let others: Vec<&str> = others.iter().map(|row| row.get(0)).collect();
    Ok(lanes
        .iter()
        .map(|lane| match taken.get(lane) {
            Some(token) => Acquired::Held(Lease::granted(lane.clone(), store.owner.clone(), *token)),
            None if others.contains(&lane.as_str()) => Acquired::HeldByOther,
            None => Acquired::Busy,
        })
        .collect())
}

pub(crate) async fn renew(store: &PgStore) -> Result<Renewal, StoreError> {
    let owner = store.owner.as_str();
    let duration = micros(store.options.lease.duration);
    let skew = micros(store.options.lease.clock_skew);
    let forgotten = micros(store.options.node_forgotten_after);
    // Remembered before the question: the server must have at least the commits that it acknowledged until now.
    // Compared before the renewal: a process whose commits were lost must not keep its lanes.
    let remembered = store.canary.get();
    let found: Option<i64> = store
        .with_session_of(&store.lease_pool, "reading the canary", async |session| {
            let canary = session.prepared(CANARY).await?;
            Ok(session.client().query_opt(&canary, &[&owner]).await?.map(|row| row.get(0)))
        })
        .await?;
    if found.is_none_or(|found| found < remembered) {
        let session = store.lease_pool.get().await?;
        let lost = lost_commits(store, session.client(), remembered, found).await?;
        session.put_back();
        return Err(lost);
    }
    let (extended, mine) = store
        .with_session_of(&store.lease_pool, "renewing leases", async |session| {
            let renew = session.prepared(RENEW).await?;
            let still = session.prepared(STILL_MINE).await?;
            let alive = session.prepared(ALIVE).await?;
            let extended = session.client().query(&renew, &[&owner, &duration, &skew]).await?;
            let mine = session.client().query(&still, &[&owner, &duration, &skew]).await?;
            session.client().execute(&alive, &[&owner]).await?;
            let others = session.prepared(OTHERS).await?;
            let received = store.notifier.peers().received();
            let others = session.client().query_one(&others, &[&owner, &forgotten]).await?;
            store.notifier.peers().found(others.get(0), received);
            Ok((extended, mine))
        })
        .await?;
    let lease = |row: &Row| lane_and_token(row).map(|(lane, token)| Lease::granted(lane, store.owner.clone(), token));
    let extended: Vec<Lease> = extended.iter().map(lease).collect::<Result<_, StoreError>>()?;
    let sure: HashSet<&Lease> = extended.iter().collect();
    let mut busy: Vec<Lease> = mine.iter().map(lease).collect::<Result<_, StoreError>>()?;
    busy.retain(|lease| !sure.contains(lease));
    Ok(Renewal { extended, busy })
}

pub(crate) async fn release(store: &PgStore, leases: &[Lease]) -> Result<(), StoreError> {
    let lanes: Vec<&str> = leases.iter().map(|lease| lease.submitter().as_str()).collect();
    let tokens: Vec<i64> = leases.iter().map(|lease| signed(lease.token().get())).collect();
    let owner = store.owner.as_str();
    let released = store
        .with_session_of(&store.lease_pool, "releasing leases", async |session| {
            let statement = session.prepared(RELEASE).await?;
            session.client().query(&statement, &[&lanes, &tokens, &owner]).await
        })
        .await?;
    // Other nodes are told only of lanes with work left. An idle lane would be passed from node to node for ever.
    let mut left = BTreeSet::new();
    for row in released.iter().filter(|row| row.get("has_work")) {
        left.insert(submitter(get(row, "submitter")?)?);
    }
    store.notifier.wake_others(left);
    Ok(())
}

fn lane_and_token(row: &Row) -> Result<(SubmitterId, FencingToken), StoreError> {
    Ok((submitter(get(row, "submitter")?)?, token(get(row, "fencing_token")?)?))
}
