//! Loading lanes for their new owner.

use std::collections::HashMap;

use gapless_domain::{Lease, ReservationStatus};
use gapless_store::{LaneSnapshot, Loaded, StoreError};
use gapless_store_sql::signed;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::rows::{
    ATTEMPT_COLUMNS, INTENT_COLUMNS, SLOT_COLUMNS, attempt, command, cursor, get, intent_record, micros, reservation,
    slot, timestamp,
};
use crate::store::PgStore;

/// Locks the lease rows in order, and waits for transactions that hold them. So the reads after it see the last commit
/// of every older owner.
const LOCK: &str = "
    SELECT l.submitter FROM submitter_lease l
    JOIN unnest($1::text[], $2::bigint[]) AS w (submitter, token) ON w.submitter = l.submitter
    WHERE l.owner_node = $3 AND l.fencing_token = w.token AND l.expires_at > clock_timestamp()
      AND l.expires_at <= clock_timestamp() + $4::bigint * interval '1 microsecond'
    ORDER BY l.submitter FOR NO KEY UPDATE OF l";

const CURSORS: &str = "SELECT * FROM submitter_nonce_cursor WHERE submitter = ANY($1)";

/// A lane without a cursor may have had one that was lost. The epoch of its submitter tells: it is older then.
const REGRESSED: &str = "
    SELECT s.submitter FROM submitter s LEFT JOIN submitter_nonce_cursor c ON c.submitter = s.submitter
    WHERE s.submitter = ANY($1) AND coalesce(c.epoch, s.epoch) < (SELECT max(epoch) FROM store_epoch)";

// Slots are kept for ever, so open ones must be found by the index, whatever the planner estimates. `OFFSET 0` keeps
// each of these statements a walk of the index from the open nonce of one lane.

const RESERVATIONS: &str = "
    SELECT r.* FROM submitter_nonce_cursor c CROSS JOIN LATERAL (
        SELECT r.submitter, r.nonce, r.status, r.tx_id, r.lock_owner, r.locked_until FROM submitter_nonce_allocation r
        WHERE r.submitter = c.submitter AND r.nonce >= c.open_nonce ORDER BY r.nonce OFFSET 0) AS r
    WHERE c.submitter = ANY($1) ORDER BY r.submitter, r.nonce";

const COMMANDS: &str = "
    SELECT id, submitter, body::text AS body, issued_by, issued_at FROM lane_command
    WHERE submitter = ANY($1) AND done_at IS NULL ORDER BY id";

pub(crate) async fn load_lanes(store: &PgStore, leases: &[Lease]) -> Result<Vec<Loaded>, StoreError> {
    // A lane that has not written its cursor has no slots.
    let slots_sql = format!(
        "SELECT s.* FROM submitter_nonce_cursor c CROSS JOIN LATERAL (
             SELECT submitter, {SLOT_COLUMNS} FROM slot s
             WHERE s.submitter = c.submitter AND s.nonce >= c.open_nonce ORDER BY s.nonce OFFSET 0) AS s
         WHERE c.submitter = ANY($1) ORDER BY s.submitter, s.nonce"
    );
    let attempts_sql = format!(
        "SELECT a.* FROM submitter_nonce_cursor c CROSS JOIN LATERAL (
             SELECT {ATTEMPT_COLUMNS} FROM tx_attempt a
             WHERE a.submitter = c.submitter AND a.nonce >= c.open_nonce ORDER BY a.nonce, a.ordinal OFFSET 0) AS a
         WHERE c.submitter = ANY($1) ORDER BY a.submitter, a.nonce, a.ordinal"
    );
    let bound_sql = format!(
        "SELECT {INTENT_COLUMNS} FROM managed_tx WHERE tx_id = ANY($1) AND ended_at IS NULL AND state <> 'QUEUED'
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
            let slots = client.query(&slots_sql, &[&held]).await?;
            let reservations = client.query(RESERVATIONS, &[&held]).await?;
            let owners: Vec<Uuid> =
                slots.iter().chain(&reservations).filter_map(|row| row.get::<_, Option<Uuid>>("tx_id")).collect();
            let read = LaneRows {
                now: now.get(0),
                cursors: client.query(CURSORS, &[&held]).await?,
                regressed: client.query(REGRESSED, &[&held]).await?,
                slots,
                attempts: client.query(&attempts_sql, &[&held]).await?,
                bound: client.query(&bound_sql, &[&owners]).await?,
                reservations,
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

struct LaneRows {
    held: Vec<String>,
    now: std::time::SystemTime,
    cursors: Vec<Row>,
    regressed: Vec<Row>,
    slots: Vec<Row>,
    attempts: Vec<Row>,
    bound: Vec<Row>,
    reservations: Vec<Row>,
    commands: Vec<Row>,
}

impl LaneRows {
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
        sort_into(&mut lanes, &self.cursors, |lane, row| {
            lane.cursor = Some(cursor(row)?);
            Ok(())
        })?;
        sort_into(&mut lanes, &self.regressed, |lane, _| {
            lane.regressed = true;
            Ok(())
        })?;
        sort_into(&mut lanes, &self.slots, |lane, row| {
            lane.slots.push(slot(row)?);
            Ok(())
        })?;
        sort_into(&mut lanes, &self.attempts, |lane, row| {
            lane.attempts.push(attempt(row)?);
            Ok(())
        })?;
        sort_into(&mut lanes, &self.bound, |lane, row| {
            lane.bound.push(intent_record(row)?);
            Ok(())
        })?;
        sort_into(&mut lanes, &self.reservations, |lane, row| {
            let reservation = reservation(row)?;
            if !matches!(reservation.status, ReservationStatus::Used { .. }) {
                lane.reservations.push(reservation);
            }
            Ok(())
        })?;
        sort_into(&mut lanes, &self.commands, |lane, row| {
            lane.commands.push(command(row)?);
            Ok(())
        })?;
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
