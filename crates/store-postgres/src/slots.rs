//! The open slots of a lane, with what hangs on each: four statements for a page, all of one moment.

use std::collections::HashMap;

use gapless_domain::{Attempt, IntentRecord, Nonce, Reservation, SubmitterId, TxId};
use gapless_store::codec::signed;
use gapless_store::{SlotStatus, StoreError};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::rows::{SLOT_COLUMNS, TOLD_ATTEMPT_COLUMNS, TX_COLUMNS, managed_tx, reservation, slot, told_attempt};
use crate::store::PgStore;

/// Nothing is written, so a snapshot costs nobody anything; it keeps the statements from seeing different states of a lane.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

const RESERVATIONS: &str = "
    SELECT nonce, status, tx_id, lock_owner, locked_until FROM submitter_nonce_allocation
    WHERE submitter = $1 AND nonce = ANY($2)";

struct Read {
    slots: Vec<Row>,
    reservations: Vec<Row>,
    attempts: Vec<Row>,
    txs: Vec<Row>,
}

pub(crate) async fn open_slots(
    store: &PgStore,
    lane: &SubmitterId,
    from: Option<Nonce>,
    limit: u32,
) -> Result<Vec<SlotStatus>, StoreError> {
    let slots_sql = format!(
        "SELECT {SLOT_COLUMNS} FROM slot
         WHERE submitter = $1 AND nonce >= $2
           AND nonce >= coalesce((SELECT open_nonce FROM submitter_nonce_cursor WHERE submitter = $1), 0)
         ORDER BY nonce LIMIT $3"
    );
    // Also what retention has moved out: an intent may have ended long before its slot is closed.
    let attempts_sql = format!(
        "SELECT {TOLD_ATTEMPT_COLUMNS} FROM tx_attempt WHERE submitter = $1 AND nonce = ANY($2)
         UNION ALL SELECT {TOLD_ATTEMPT_COLUMNS} FROM archived_attempt WHERE submitter = $1 AND nonce = ANY($2)
         ORDER BY nonce, ordinal"
    );
    let txs_sql = format!(
        "SELECT {TX_COLUMNS} FROM managed_tx WHERE tx_id = ANY($1)
         UNION ALL SELECT {TX_COLUMNS} FROM archived_tx WHERE tx_id = ANY($1)"
    );
    let (lane, from) = (lane.as_str(), signed(from.unwrap_or(Nonce::ZERO).get()));
    let read = store
        .with_session("reading the open slots of a lane", async |session| {
            let client = session.client();
            client.batch_execute(BEGIN).await?;
            let slots = client.query(&slots_sql, &[&lane, &from, &i64::from(limit)]).await?;
            let nonces: Vec<i64> = slots.iter().map(|row| row.get("nonce")).collect();
            let reservations = client.query(RESERVATIONS, &[&lane, &nonces]).await?;
            let attempts = client.query(&attempts_sql, &[&lane, &nonces]).await?;
            let owners: Vec<Uuid> = slots.iter().chain(&reservations).filter_map(|row| row.get("tx_id")).collect();
            let txs = client.query(&txs_sql, &[&owners]).await?;
            client.batch_execute("COMMIT").await?;
            Ok(Read { slots, reservations, attempts, txs })
        })
        .await?;
    read.statuses()
}

impl Read {
    fn statuses(&self) -> Result<Vec<SlotStatus>, StoreError> {
        let mut reservations: HashMap<Nonce, Reservation> = HashMap::new();
        for row in &self.reservations {
            let lent = reservation(row)?;
            reservations.insert(lent.nonce, lent);
        }
        let mut attempts: HashMap<Nonce, Vec<Attempt>> = HashMap::new();
        for row in &self.attempts {
            let made = told_attempt(row)?;
            attempts.entry(made.nonce).or_default().push(made);
        }
        let txs: HashMap<TxId, IntentRecord> =
            self.txs.iter().map(|row| managed_tx(row).map(|tx| (tx.id, tx))).collect::<Result<_, _>>()?;
        let status = |row: &Row| {
            let slot = slot(row)?;
            let reservation = reservations.remove(&slot.nonce);
            let holder = SlotStatus::bound_to(&slot, reservation.as_ref()).and_then(|id| txs.get(&id));
            Ok(SlotStatus {
                // One that lost this nonce may hold another by now.
                tx: holder.filter(|tx| tx.state.nonce() == Some(slot.nonce)).cloned(),
                attempts: attempts.remove(&slot.nonce).unwrap_or_default(),
                slot,
                reservation,
            })
        };
        self.slots.iter().map(status).collect()
    }
}
