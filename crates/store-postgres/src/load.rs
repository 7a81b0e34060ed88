//! Loading lanes for their new owner.

use std::collections::HashMap;

use gapless_domain::Lease;
use gapless_store::codec::signed;
use gapless_store::{LaneSnapshot, Loaded, StoreError};
use tokio_postgres::Row;

use crate::rows::{
    ATTEMPT_COLUMNS, TX_COLUMNS, attempt, command, cursor, get, managed_tx, micros, reservation, slot, timestamp,
};
use crate::store::PgStore;

/// Waits for whoever is writing the row, in order; so what is read afterwards is what every older owner left behind.
const LOCK: &str = "
    SELECT l.submitter FROM submitter_lease l
    JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, token) ON w.submitter = l.submitter
    WHERE l.owner_node = $3 AND l.fencing_token = w.token AND l.expires_at > clock_timestamp()
      AND l.expires_at <= clock_timestamp() + $4::bigint * interval '1 microsecond'
    ORDER BY l.submitter FOR NO KEY UPDATE OF l";

const CURSORS: &str = "
    SELECT c.*, c.epoch < (SELECT max(epoch) FROM store_epoch) AS regressed FROM submitter_nonce_cursor c WHERE submitter = ANY($1)";

/// A lane that has not written its cursor has no slots.
const SLOTS: &str = "
    SELECT s.submitter, s.nonce, s.kind, s.tx_id, s.bound_at, s.next_resubmit_at
    FROM submitter_nonce_cursor c JOIN slot s ON s.submitter = c.submitter AND s.nonce >= c.final_nonce
    WHERE c.submitter = ANY($1) ORDER BY s.submitter, s.nonce";

const RESERVATIONS: &str = "
    SELECT submitter, nonce, status, tx_id, lock_owner, locked_until FROM submitter_nonce_allocation
    WHERE submitter = ANY($1) AND status <> 'USED' ORDER BY submitter, nonce";

const COMMANDS: &str = "
    SELECT id, submitter, body::text AS body, issued_by, issued_at FROM lane_command
    WHERE submitter = ANY($1) AND done_at IS NULL ORDER BY id";

pub(crate) async fn load_lanes(store: &PgStore, leases: &[Lease]) -> Result<Vec<Loaded>, StoreError> {
    let attempts_sql = format!(
        "SELECT {ATTEMPT_COLUMNS} FROM tx_attempt a
         WHERE EXISTS (SELECT FROM submitter_nonce_cursor c WHERE c.submitter = a.submitter AND a.nonce >= c.final_nonce)
           AND a.submitter = ANY($1) ORDER BY submitter, nonce, ordinal"
    );
    // The queue can be long; bound intents are few and stand at its front or behind it, so the open index is read by lane
    // and the slots name the intents.
    let bound_sql = format!(
        "SELECT {TX_COLUMNS} FROM managed_tx WHERE ended_at IS NULL AND state <> 'QUEUED' AND tx_id IN (
             SELECT s.tx_id FROM submitter_nonce_cursor c JOIN slot s ON s.submitter = c.submitter AND s.nonce >= c.final_nonce
             WHERE c.submitter = ANY($1) AND s.tx_id IS NOT NULL
             UNION
             SELECT r.tx_id FROM submitter_nonce_allocation r
             JOIN submitter_nonce_cursor c ON c.submitter = r.submitter AND r.nonce >= c.final_nonce
             WHERE r.submitter = ANY($1) AND r.tx_id IS NOT NULL)
         ORDER BY submitter, nonce"
    );
    let lanes: Vec<&str> = leases.iter().map(|lease| lease.submitter().as_str()).collect();
    let tokens: Vec<i64> = leases.iter().map(|lease| signed(lease.token().get())).collect();
    let owner = store.owner.as_str();
    let horizon = micros(store.options.lease.duration + store.options.lease.clock_skew);
    let read = store
        .with_session("loading lanes", async |session| {
            let client = session.client();
            client.batch_execute("BEGIN").await?;
            let locked = client.query(LOCK, &[&lanes, &tokens, &owner, &horizon]).await?;
            let held: Vec<String> = locked.iter().map(|row| row.get(0)).collect();
            let now = client.query_one("SELECT clock_timestamp()", &[]).await?;
            let read = Read {
                now: now.get(0),
                cursors: client.query(CURSORS, &[&held]).await?,
                slots: client.query(SLOTS, &[&held]).await?,
                attempts: client.query(&attempts_sql, &[&held]).await?,
                bound: client.query(&bound_sql, &[&held]).await?,
                reservations: client.query(RESERVATIONS, &[&held]).await?,
                commands: client.query(COMMANDS, &[&held]).await?,
                held,
            };
            client.batch_execute("COMMIT").await?;
            Ok(read)
        })
        .await?;
    let mut snapshots = read.snapshots()?;
    Ok(lanes.iter().map(|lane| snapshots.remove(*lane).map_or(Loaded::Fenced, Loaded::Lane)).collect())
}

struct Read {
    held: Vec<String>,
    now: std::time::SystemTime,
    cursors: Vec<Row>,
    slots: Vec<Row>,
    attempts: Vec<Row>,
    bound: Vec<Row>,
    reservations: Vec<Row>,
    commands: Vec<Row>,
}

impl Read {
    fn snapshots(&self) -> Result<HashMap<&str, LaneSnapshot>, StoreError> {
        let mut lanes: HashMap<&str, LaneSnapshot> = HashMap::new();
        for lane in &self.held {
            let empty = LaneSnapshot {
                cursor: None,
                slots: Vec::new(),
                attempts: Vec::new(),
                bound: Vec::new(),
                reservations: Vec::new(),
                commands: Vec::new(),
                regressed: false,
                now: timestamp(self.now),
            };
            lanes.insert(lane, empty);
        }
        for row in &self.cursors {
            if let Some(lane) = lanes.get_mut(get::<&str>(row, "submitter")?) {
                lane.cursor = Some(cursor(row)?);
                lane.regressed = get::<Option<bool>>(row, "regressed")?.unwrap_or(false);
            }
        }
        sort_into(&mut lanes, &self.slots, |lane, row| Ok(lane.slots.push(slot(row)?)))?;
        sort_into(&mut lanes, &self.attempts, |lane, row| Ok(lane.attempts.push(attempt(row)?)))?;
        sort_into(&mut lanes, &self.bound, |lane, row| Ok(lane.bound.push(managed_tx(row)?)))?;
        sort_into(&mut lanes, &self.reservations, |lane, row| Ok(lane.reservations.push(reservation(row)?)))?;
        sort_into(&mut lanes, &self.commands, |lane, row| Ok(lane.commands.push(command(row)?)))?;
        Ok(lanes)
    }
}

fn sort_into(
    lanes: &mut HashMap<&str, LaneSnapshot>,
    rows: &[Row],
    mut add: impl FnMut(&mut LaneSnapshot, &Row) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for row in rows {
        if let Some(lane) = lanes.get_mut(get::<&str>(row, "submitter")?) {
            add(lane, row)?;
        }
    }
    Ok(())
}
