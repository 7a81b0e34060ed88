//! The open slots of a lane with their intents, reservations and attempts: four statements for a page, in one snapshot.

use std::collections::HashMap;

use gapless_domain::{Attempt, IntentRecord, Nonce, Reservation, SubmitterId, TxId};
use gapless_store::{SlotStatus, StoreError};
use gapless_store_sql::signed;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::rows::{
    ATTEMPT_WITH_HISTORY_COLUMNS, INTENT_COLUMNS, SLOT_COLUMNS, attempt_with_history, intent_record, reservation, slot,
};
use crate::store::PgStore;

/// The snapshot keeps the statements from seeing different states of a lane. A transaction that only reads blocks no
/// other.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

const RESERVATIONS: &str = "
    SELECT nonce, status, tx_id, lock_owner, locked_until FROM submitter_nonce_allocation
    WHERE submitter = $1 AND nonce = ANY($2)";

struct SlotRows {
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
    // The archive is read too: an intent may have ended, and been moved out, long before its slot is closed.
    let attempts_sql = format!(
        "SELECT {ATTEMPT_WITH_HISTORY_COLUMNS} FROM tx_attempt WHERE submitter = $1 AND nonce = ANY($2)
         UNION ALL SELECT {ATTEMPT_WITH_HISTORY_COLUMNS} FROM archived_attempt WHERE submitter = $1 AND nonce = ANY($2)
         ORDER BY nonce, ordinal"
    );
    let txs_sql = format!(
        "SELECT {INTENT_COLUMNS} FROM managed_tx WHERE tx_id = ANY($1)
         UNION ALL SELECT {INTENT_COLUMNS} FROM archived_tx WHERE tx_id = ANY($1)"
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
            Ok(SlotRows { slots, reservations, attempts, txs })
        })
        .await?;
    read.statuses()
}

impl SlotRows {
    fn statuses(&self) -> Result<Vec<SlotStatus>, StoreError> {
        let mut reservations: HashMap<Nonce, Reservation> = HashMap::new();
        for row in &self.reservations {
            let reservation = reservation(row)?;
            reservations.insert(reservation.nonce, reservation);
        }
        let mut attempts: HashMap<Nonce, Vec<Attempt>> = HashMap::new();
        for row in &self.attempts {
            let attempt = attempt_with_history(row)?;
            attempts.entry(attempt.nonce).or_default().push(attempt);
        }
        let txs: HashMap<TxId, IntentRecord> =
            self.txs.iter().map(|row| intent_record(row).map(|tx| (tx.id, tx))).collect::<Result<_, _>>()?;
        let status = |row: &Row| {
            let slot = slot(row)?;
            let reservation = reservations.remove(&slot.nonce);
            let holder = SlotStatus::bound_to(&slot, reservation.as_ref()).and_then(|id| txs.get(&id));
            Ok(SlotStatus {
                // An intent that lost this nonce may hold another one.
                tx: holder.filter(|tx| tx.state.nonce() == Some(slot.nonce)).cloned(),
                attempts: attempts.remove(&slot.nonce).unwrap_or_default(),
                slot,
                reservation,
            })
        };
        self.slots.iter().map(status).collect()
    }
}
