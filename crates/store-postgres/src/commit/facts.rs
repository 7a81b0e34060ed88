//! The first flight: locks, and what the rows are now.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::SystemTime;

use gapless_domain::{LaneCommit, Nonce, ProtectCode, Reservation, StateName};
use gapless_store::StoreError;
use gapless_store_sql::signed;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};
use uuid::Uuid;

use super::token;
use crate::counted::Counted;
use crate::error::unavailable;
use crate::rows::{get, micros, reservation};
use crate::session::Session;
use crate::store::PgStore;

/// The fence. Only the holder's own row, only while it is valid by the database's clock, and only if nobody else is
/// writing it: whoever takes the lease over must lock the same row, so it waits until this transaction has ended.
const LOCK_LEASES: &str = "
    SELECT l.submitter FROM submitter_lease l
    JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, token) ON w.submitter = l.submitter
    WHERE l.owner_node = $3 AND l.fencing_token = w.token AND l.expires_at > clock_timestamp()
      AND l.expires_at <= clock_timestamp() + $4::bigint * interval '1 microsecond'
    ORDER BY l.submitter FOR NO KEY UPDATE OF l SKIP LOCKED";

/// Without a lock: what was skipped above but still is ours comes into the next flush; the rest is fenced.
const HELD_LEASES: &str = "
    SELECT l.submitter FROM submitter_lease l
    JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, token) ON w.submitter = l.submitter
    WHERE l.owner_node = $3 AND l.fencing_token = w.token AND l.expires_at > clock_timestamp()
      AND l.expires_at <= clock_timestamp() + $4::bigint * interval '1 microsecond'";

const RAISE_CANARY: &str = "
    UPDATE node SET canary = canary + 1, seen_at = clock_timestamp() WHERE owner_node = $1
    RETURNING canary";

const TIME: &str = "SELECT clock_timestamp() AS now, (SELECT max(epoch) FROM store_epoch) AS epoch";

/// $2 keeps a process that lost its lanes from even locking their rows.
const LOCK_CURSORS: &str = "
    SELECT c.submitter, c.version, c.epoch, c.fencing_token, c.next_nonce, c.open_nonce, c.protect_code FROM submitter_nonce_cursor c
    WHERE c.submitter = ANY($1)
      AND EXISTS (SELECT FROM submitter_lease l WHERE l.submitter = c.submitter AND l.owner_node = $2)
    ORDER BY c.submitter FOR NO KEY UPDATE OF c";

/// Of lanes without a cursor: the epoch in which their submitter was registered.
const FIRST_EPOCHS: &str = "SELECT submitter, epoch FROM submitter WHERE submitter = ANY($1)";

/// Of intents in line: whoever cancels one there needs no lease.
const LOCK_QUEUED: &str = "
    SELECT t.tx_id, t.submitter, t.version, t.fencing_token FROM managed_tx t
    WHERE t.tx_id = ANY($1)
      AND EXISTS (SELECT FROM submitter_lease l WHERE l.submitter = t.submitter AND l.owner_node = $2)
    ORDER BY t.tx_id FOR NO KEY UPDATE OF t";

/// Of intents that hold a nonce: only their lane's owner writes them, and its lease is locked.
const READ_BOUND: &str = "SELECT tx_id, submitter, version, fencing_token FROM managed_tx WHERE tx_id = ANY($1)";

const SLOTS: &str = "
    SELECT s.submitter, s.nonce FROM slot s
    JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, nonce) ON (w.submitter, w.nonce) = (s.submitter, s.nonce)";

const ATTEMPTS: &str = "
    SELECT a.submitter, a.nonce, a.ordinal, a.hash FROM tx_attempt a
    JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, nonce) ON (w.submitter, w.nonce) = (a.submitter, a.nonce)";

const RESERVATIONS: &str = "
    SELECT r.submitter, r.nonce, r.status, r.tx_id, r.lock_owner, r.locked_until FROM submitter_nonce_allocation r
    JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, nonce) ON (w.submitter, w.nonce) = (r.submitter, r.nonce)
    UNION
    (SELECT r.submitter, r.nonce, r.status, r.tx_id, r.lock_owner, r.locked_until FROM submitter_nonce_allocation r
     JOIN submitter_nonce_cursor c ON c.submitter = r.submitter
     WHERE r.submitter = ANY($1) AND r.status = 'RECYCLABLE' AND r.nonce >= c.open_nonce)";

/// What the database says, under the locks of this transaction.
pub(super) struct Facts {
    pub(super) now: SystemTime,
    pub(super) epoch: i64,
    /// Our canary, raised. None if our row is gone.
    pub(super) canary: Option<i64>,
    pub(super) locked: HashSet<String>,
    pub(super) held: HashSet<String>,
    pub(super) cursors: HashMap<String, CursorFact>,
    pub(super) first_epochs: HashMap<String, i64>,
    pub(super) txs: HashMap<Uuid, TxFact>,
    /// Those that the commits name, and do not bind themselves.
    pub(super) slots: HashSet<(String, i64)>,
    /// The attempts of each nonce that the commits add to, or tell of sends for.
    pub(super) attempts: HashMap<(String, i64), Vec<AttemptFact>>,
    pub(super) reservations: HashMap<String, BTreeMap<i64, Reservation>>,
}

pub(super) struct CursorFact {
    pub(super) version: i64,
    pub(super) epoch: i64,
    pub(super) token: i64,
    pub(super) next_nonce: i64,
    pub(super) open_nonce: i64,
    pub(super) store_regressed: bool,
}

pub(super) struct TxFact {
    pub(super) submitter: String,
    pub(super) version: i32,
    pub(super) token: i64,
}

pub(super) struct AttemptFact {
    pub(super) ordinal: i16,
    pub(super) hash: Vec<u8>,
}

/// The keys that the commits name, as the arrays that the statements take.
#[derive(Default)]
struct Keys<'a> {
    lanes: Vec<&'a str>,
    tokens: Vec<i64>,
    queued: Vec<Uuid>,
    bound: Vec<Uuid>,
    slots: (Vec<&'a str>, Vec<i64>),
    attempts: (Vec<&'a str>, Vec<i64>),
    reserved: (Vec<&'a str>, Vec<i64>),
}

impl<'a> Keys<'a> {
    fn of(commits: &[&'a LaneCommit]) -> Self {
        let mut keys = Keys::default();
        for commit in commits {
            let lane = commit.lease().submitter().as_str();
            keys.lanes.push(lane);
            keys.tokens.push(token(commit));
            for change in commit.changes() {
                let in_line = change.from() == StateName::Queued;
                if in_line { &mut keys.queued } else { &mut keys.bound }.push(change.tx_id().uuid());
            }
            // What is bound by the commit itself is above all that is there: its cursor shows that, and nothing else is asked.
            let fresh: HashSet<Nonce> = commit.slots().iter().map(|slot| slot.nonce).collect();
            let tried = (commit.attempts().iter().map(|attempt| attempt.nonce))
                .chain(commit.reports().iter().map(|report| report.nonce));
            let named = (commit.attempts().iter().map(|attempt| attempt.nonce))
                .chain(commit.claims().iter().map(|claim| claim.nonce));
            let lent = commit.reservations().iter().map(|step| step.nonce());
            add(&mut keys.attempts, lane, tried.filter(|nonce| !fresh.contains(nonce)));
            add(&mut keys.slots, lane, named.filter(|nonce| !fresh.contains(nonce)));
            add(&mut keys.reserved, lane, lent);
        }
        keys
    }
}

fn add<'a>(keys: &mut (Vec<&'a str>, Vec<i64>), lane: &'a str, nonces: impl Iterator<Item = Nonce>) {
    for nonce in nonces {
        keys.0.push(lane);
        keys.1.push(signed(nonce.get()));
    }
}

pub(super) async fn gather(session: &Session, store: &PgStore, commits: &[&LaneCommit]) -> Result<Facts, StoreError> {
    let keys = Keys::of(commits);
    // Boxed: ten statements under way at once are a large future.
    let rows = Box::pin(fly(session, store, &keys)).await.map_err(unavailable)?;
    let mut facts = Facts {
        now: get(&rows.time, "now")?,
        epoch: get::<Option<i64>>(&rows.time, "epoch")?.unwrap_or_default(),
        canary: rows.canary.as_ref().map(|row| get(row, "canary")).transpose()?,
        locked: rows.locked.iter().map(|row| row.get(0)).collect(),
        held: rows.held.iter().map(|row| row.get(0)).collect(),
        cursors: HashMap::new(),
        first_epochs: rows.first_epochs.iter().map(|row| (row.get(0), row.get(1))).collect(),
        txs: HashMap::new(),
        slots: rows.slots.iter().map(|row| (row.get(0), row.get(1))).collect(),
        attempts: HashMap::new(),
        reservations: HashMap::new(),
    };
    for row in &rows.cursors {
        let fact = CursorFact {
            version: get(row, "version")?,
            epoch: get(row, "epoch")?,
            token: get(row, "fencing_token")?,
            next_nonce: get(row, "next_nonce")?,
            open_nonce: get(row, "open_nonce")?,
            store_regressed: get::<Option<&str>>(row, "protect_code")? == Some(ProtectCode::StoreRegressed.as_str()),
        };
        facts.cursors.insert(get(row, "submitter")?, fact);
    }
    for row in rows.queued.iter().chain(&rows.bound) {
        let fact = TxFact {
            submitter: get(row, "submitter")?,
            version: get(row, "version")?,
            token: get(row, "fencing_token")?,
        };
        facts.txs.insert(get(row, "tx_id")?, fact);
    }
    for row in &rows.attempts {
        let of_nonce = facts.attempts.entry((get(row, "submitter")?, get(row, "nonce")?)).or_default();
        of_nonce.push(AttemptFact { ordinal: get(row, "ordinal")?, hash: get(row, "hash")? });
    }
    for row in &rows.reservations {
        let lane = facts.reservations.entry(get(row, "submitter")?).or_default();
        lane.insert(get(row, "nonce")?, reservation(row)?);
    }
    Ok(facts)
}

struct Rows {
    locked: Vec<Row>,
    held: Vec<Row>,
    canary: Option<Row>,
    time: Row,
    cursors: Vec<Row>,
    first_epochs: Vec<Row>,
    queued: Vec<Row>,
    bound: Vec<Row>,
    slots: Vec<Row>,
    attempts: Vec<Row>,
    reservations: Vec<Row>,
}

/// All statements leave at once; the server answers them in order. What no commit needs is not asked.
async fn fly(session: &Session, store: &PgStore, keys: &Keys<'_>) -> Result<Rows, Error> {
    let client = session.client();
    let owner = store.owner.as_str();
    let horizon = micros(store.options.lease.duration + store.options.lease.clock_skew);
    let lock_leases = session.prepared(LOCK_LEASES).await?;
    let held_leases = session.prepared(HELD_LEASES).await?;
    let raise_canary = session.prepared(RAISE_CANARY).await?;
    let time = session.prepared(TIME).await?;
    let lock_cursors = session.prepared(LOCK_CURSORS).await?;
    let lock_queued = session.prepared(LOCK_QUEUED).await?;
    let read_bound = session.prepared(READ_BOUND).await?;
    let slots = session.prepared(SLOTS).await?;
    let attempts = session.prepared(ATTEMPTS).await?;
    let reservations = session.prepared(RESERVATIONS).await?;
    // Statements that nothing asks for are not sent. `join!` polls in order, and a statement is on its way once polled.
    let lanes: Params<'_> = &[&keys.lanes, &keys.tokens, &owner, &horizon];
    let own: Params<'_> = &[&owner];
    let cursors: Params<'_> = &[&keys.lanes, &owner];
    let queued: Params<'_> = &[&keys.queued, &owner];
    let bound: Params<'_> = &[&keys.bound];
    let named: Params<'_> = &[&keys.slots.0, &keys.slots.1];
    let tried: Params<'_> = &[&keys.attempts.0, &keys.attempts.1];
    let reserved: Params<'_> = &[&keys.reserved.0, &keys.reserved.1];
    let answers = tokio::join!(
        biased;
        client.batch_execute("BEGIN"),
        client.query(&lock_leases, lanes),
        client.query_opt(&raise_canary, own),
        client.query_one(&time, &[]),
        client.query(&lock_cursors, cursors),
        ask(client, &lock_queued, !keys.queued.is_empty(), queued),
        ask(client, &read_bound, !keys.bound.is_empty(), bound),
        ask(client, &slots, !keys.slots.0.is_empty(), named),
        ask(client, &attempts, !keys.attempts.0.is_empty(), tried),
        ask(client, &reservations, !keys.reserved.0.is_empty(), reserved),
    );
    answers.0?;
    let locked = answers.1?;
    // Seldom: some lease was not ours to lock, or somebody else was writing it. Which of the two is asked only then.
    let held = if locked.len() == keys.lanes.len() { Vec::new() } else { client.query(&held_leases, lanes).await? };
    let cursors = answers.4?;
    let first_epochs = match new_lanes(&keys.lanes, &cursors) {
        lanes if lanes.is_empty() => Vec::new(),
        lanes => client.query(FIRST_EPOCHS, &[&lanes]).await?,
    };
    Ok(Rows {
        locked,
        held,
        canary: answers.2?,
        time: answers.3?,
        cursors,
        first_epochs,
        queued: answers.5?,
        bound: answers.6?,
        slots: answers.7?,
        attempts: answers.8?,
        reservations: answers.9?,
    })
}

fn new_lanes<'a>(lanes: &[&'a str], cursors: &[Row]) -> Vec<&'a str> {
    let written: HashSet<&str> = cursors.iter().map(|row| row.get(0)).collect();
    lanes.iter().copied().filter(|lane| !written.contains(lane)).collect()
}

type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

async fn ask(client: &Counted, statement: &Statement, wanted: bool, params: Params<'_>) -> Result<Vec<Row>, Error> {
    if wanted { client.query(statement, params).await } else { Ok(Vec::new()) }
}
