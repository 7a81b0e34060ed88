//! The first flight: locks, and the rows that the commits depend on.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::SystemTime;

use gapless_domain::ledger::{AttemptFact, CommitFacts, CursorFact, FactKeys, IntentFact, LeaseFact};
use gapless_domain::{LaneCommit, Nonce, ProtectCode, Reservation, StateName, TxId};
use gapless_store::{RowError, StoreError};
use gapless_store_sql::{nonce, signed, token as fencing_token, unsigned};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};
use uuid::Uuid;

use super::token;
use crate::counted::Counted;
use crate::error::unavailable;
use crate::rows::{get, hash, micros, ordinal, reservation, timestamp, version};
use crate::session::Session;
use crate::store::PgStore;

/// The fence: locks the holder's own lease rows that are valid by the database's clock, and that no other transaction
/// writes. A takeover must lock the same row, so it waits until this transaction has ended.
const LOCK_LEASES: &str = "
    SELECT l.submitter FROM submitter_lease l
    JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, token) ON w.submitter = l.submitter
    WHERE l.owner_node = $3 AND l.fencing_token = w.token AND l.expires_at > clock_timestamp()
      AND l.expires_at <= clock_timestamp() + $4::bigint * interval '1 microsecond'
    ORDER BY l.submitter FOR NO KEY UPDATE OF l SKIP LOCKED";

/// The leases that are held, without a lock. A lane that was skipped above and is still held goes into the next flush;
/// every other lane is fenced.
const HELD_LEASES: &str = "
    SELECT l.submitter FROM submitter_lease l
    JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, token) ON w.submitter = l.submitter
    WHERE l.owner_node = $3 AND l.fencing_token = w.token AND l.expires_at > clock_timestamp()
      AND l.expires_at <= clock_timestamp() + $4::bigint * interval '1 microsecond'";

const RAISE_CANARY: &str = "
    UPDATE node SET canary = canary + 1, seen_at = clock_timestamp() WHERE owner_node = $1
    RETURNING canary";

const TIME: &str = "SELECT clock_timestamp() AS now, (SELECT max(epoch) FROM store_epoch) AS epoch";

/// The condition on $2 keeps a process that lost its lanes from locking their rows.
const LOCK_CURSORS: &str = "
    SELECT c.submitter, c.version, c.epoch, c.fencing_token, c.next_nonce, c.open_nonce, c.protect_code
    FROM submitter_nonce_cursor c
    WHERE c.submitter = ANY($1)
      AND EXISTS (SELECT FROM submitter_lease l WHERE l.submitter = c.submitter AND l.owner_node = $2)
    ORDER BY c.submitter FOR NO KEY UPDATE OF c";

/// For lanes without a cursor: the epoch in which their submitter was registered.
const FIRST_EPOCHS: &str = "SELECT submitter, epoch FROM submitter WHERE submitter = ANY($1)";

/// Queued intents are locked, because a cancellation in the queue needs no lease.
const LOCK_QUEUED: &str = "
    SELECT t.tx_id, t.submitter, t.version, t.fencing_token FROM managed_tx t
    WHERE t.tx_id = ANY($1)
      AND EXISTS (SELECT FROM submitter_lease l WHERE l.submitter = t.submitter AND l.owner_node = $2)
    ORDER BY t.tx_id FOR NO KEY UPDATE OF t";

/// Intents that hold a nonce need no lock: only their lane's owner writes them, and its lease is locked.
const READ_BOUND: &str = "SELECT tx_id, submitter, version, fencing_token FROM managed_tx WHERE tx_id = ANY($1)";

const SLOTS: &str = "
    SELECT s.submitter, s.nonce FROM slot s
    JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, nonce) ON (w.submitter, w.nonce) = (s.submitter, s.nonce)";

const ATTEMPTS: &str = "
    SELECT a.submitter, a.nonce, a.ordinal, a.hash FROM tx_attempt a
    JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, nonce) ON (w.submitter, w.nonce) = (a.submitter, a.nonce)";

/// The named reservations, and every recyclable nonce that is open.
const RESERVATIONS: &str = "
    SELECT r.submitter, r.nonce, r.status, r.tx_id, r.lock_owner, r.locked_until FROM submitter_nonce_allocation r
    JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, nonce) ON (w.submitter, w.nonce) = (r.submitter, r.nonce)
    UNION
    (SELECT r.submitter, r.nonce, r.status, r.tx_id, r.lock_owner, r.locked_until FROM submitter_nonce_allocation r
     JOIN submitter_nonce_cursor c ON c.submitter = r.submitter
     WHERE r.submitter = ANY($1) AND r.status = 'RECYCLABLE' AND r.nonce >= c.open_nonce)";

/// The rows under the locks of this transaction.
pub(super) struct Facts {
    pub(super) now: SystemTime,
    pub(super) epoch: i64,
    /// This process's canary after it was raised; `None` if its row is gone.
    pub(super) canary: Option<i64>,
    /// The facts for the check, by lane.
    pub(super) lanes: HashMap<String, CommitFacts>,
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
    reservations: (Vec<&'a str>, Vec<i64>),
}

impl<'a> Keys<'a> {
    fn of(commits: &[&'a LaneCommit]) -> Self {
        let mut keys = Keys::default();
        for commit in commits {
            let lane = commit.lease().submitter().as_str();
            keys.lanes.push(lane);
            keys.tokens.push(token(commit));
            for change in commit.changes() {
                let is_queued = change.from() == StateName::Queued;
                if is_queued { &mut keys.queued } else { &mut keys.bound }.push(change.tx_id().uuid());
            }
            let wanted = FactKeys::of(commit);
            add(&mut keys.slots, lane, &wanted.slots);
            add(&mut keys.attempts, lane, &wanted.attempts);
            add(&mut keys.reservations, lane, &wanted.reservations);
        }
        keys
    }
}

fn add<'a>(keys: &mut (Vec<&'a str>, Vec<i64>), lane: &'a str, nonces: &BTreeSet<Nonce>) {
    for nonce in nonces {
        keys.0.push(lane);
        keys.1.push(signed(nonce.get()));
    }
}

pub(super) async fn gather(session: &Session, store: &PgStore, commits: &[&LaneCommit]) -> Result<Facts, StoreError> {
    let keys = Keys::of(commits);
    // Boxed: ten statements in flight at once are a large future.
    let rows = Box::pin(fly(session, store, &keys)).await.map_err(unavailable)?;
    let now: SystemTime = get(&rows.time, "now")?;
    let mut facts = Facts {
        now,
        epoch: get::<Option<i64>>(&rows.time, "epoch")?.unwrap_or_default(),
        canary: rows.canary.as_ref().map(|row| get(row, "canary")).transpose()?,
        lanes: HashMap::new(),
    };
    for lane in &keys.lanes {
        facts.lanes.insert((*lane).to_owned(), CommitFacts::new(timestamp(now), LeaseFact::Lost));
    }
    facts.add_lane_rows(&rows)?;
    facts.add_named_rows(&rows)?;
    Ok(facts)
}

impl Facts {
    /// Leases, cursors, and the epochs that lanes have acknowledged.
    fn add_lane_rows(&mut self, rows: &Rows) -> Result<(), RowError> {
        for row in &rows.held {
            self.lane(row)?.lease = LeaseFact::Busy;
        }
        for row in &rows.locked {
            self.lane(row)?.lease = LeaseFact::Held;
        }
        let newest = self.epoch;
        for row in &rows.first_epochs {
            self.lane(row)?.regressed = get::<i64>(row, "epoch")? < newest;
        }
        for row in &rows.cursors {
            let lane = self.lane(row)?;
            lane.regressed = get::<i64>(row, "epoch")? < newest;
            lane.written_by = Some(fencing_token(get(row, "fencing_token")?)?);
            lane.cursor = Some(CursorFact {
                version: unsigned("version", get(row, "version")?)?,
                next_nonce: nonce(get(row, "next_nonce")?)?,
                open_nonce: nonce(get(row, "open_nonce")?)?,
                unreconciled: get::<Option<&str>>(row, "protect_code")? == Some(ProtectCode::StoreRegressed.as_str()),
            });
        }
        Ok(())
    }

    /// The rows that the commits name.
    fn add_named_rows(&mut self, rows: &Rows) -> Result<(), RowError> {
        for row in rows.queued.iter().chain(&rows.bound) {
            let fact = IntentFact {
                version: version(get(row, "version")?)?,
                written_by: Some(fencing_token(get(row, "fencing_token")?)?),
            };
            // An intent may belong to a lane without a commit here; then no check asks for it.
            if let Some(lane) = self.lanes.get_mut(get::<&str>(row, "submitter")?) {
                lane.intents.insert(TxId::from_uuid(get(row, "tx_id")?), fact);
            }
        }
        for row in &rows.slots {
            let nonce = nonce(get(row, "nonce")?)?;
            self.lane(row)?.slots.insert(nonce);
        }
        for row in &rows.attempts {
            let fact = AttemptFact { ordinal: ordinal(get(row, "ordinal")?)?, hash: hash(get(row, "hash")?)? };
            let nonce = nonce(get(row, "nonce")?)?;
            self.lane(row)?.attempts.entry(nonce).or_default().push(fact);
        }
        for row in &rows.reservations {
            let Reservation { nonce, status } = reservation(row)?;
            self.lane(row)?.reservations.insert(nonce, status);
        }
        Ok(())
    }

    fn lane(&mut self, row: &Row) -> Result<&mut CommitFacts, RowError> {
        let lane: &str = get(row, "submitter")?;
        self.lanes.get_mut(lane).ok_or_else(|| RowError::new("submitter", lane))
    }
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

/// Sends all statements at once; the server answers them in order. A statement without keys is not sent.
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
    // `join!` polls in order, and a statement is on its way once it is polled.
    let lanes: Params<'_> = &[&keys.lanes, &keys.tokens, &owner, &horizon];
    let own: Params<'_> = &[&owner];
    let cursors: Params<'_> = &[&keys.lanes, &owner];
    let queued: Params<'_> = &[&keys.queued, &owner];
    let bound: Params<'_> = &[&keys.bound];
    let named: Params<'_> = &[&keys.slots.0, &keys.slots.1];
    let tried: Params<'_> = &[&keys.attempts.0, &keys.attempts.1];
    let reserved: Params<'_> = &[&keys.reservations.0, &keys.reservations.1];
    let answers = tokio::join!(
        biased;
        client.batch_execute("BEGIN"),
        client.query(&lock_leases, lanes),
        client.query_opt(&raise_canary, own),
        client.query_one(&time, &[]),
        client.query(&lock_cursors, cursors),
        query_if(client, &lock_queued, !keys.queued.is_empty(), queued),
        query_if(client, &read_bound, !keys.bound.is_empty(), bound),
        query_if(client, &slots, !keys.slots.0.is_empty(), named),
        query_if(client, &attempts, !keys.attempts.0.is_empty(), tried),
        query_if(client, &reservations, !keys.reservations.0.is_empty(), reserved),
    );
    answers.0?;
    let locked = answers.1?;
    // Rare: a lease is lost, or another transaction writes its row. This statement tells the two apart.
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

async fn query_if(
    client: &Counted,
    statement: &Statement,
    wanted: bool,
    params: Params<'_>,
) -> Result<Vec<Row>, Error> {
    if wanted { client.query(statement, params).await } else { Ok(Vec::new()) }
}
