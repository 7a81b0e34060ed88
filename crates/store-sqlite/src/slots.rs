//! The open slots of a lane with their intents, reservations and attempts.

use gapless_domain::{Attempt, Nonce, Slot, SubmitterId, TxId};
use gapless_store::SlotStatus;
use gapless_store_sql::signed;

use crate::error::Failure;
use crate::ledger::Reading;
use crate::read::get_one;
use crate::retention;
use crate::rows::{self, ATTEMPT_WITH_HISTORY_COLUMNS, RESERVATION_COLUMNS, SLOT_COLUMNS};

/// Some statements for each slot of a page: there is no round trip to a server that one statement would save.
pub(crate) fn open_slots(
    reading: &Reading<'_>,
    lane: &SubmitterId,
    from: Option<Nonce>,
    limit: u32,
) -> Result<Vec<SlotStatus>, Failure> {
    let slots = reading.sql.prepare_cached(&format!(
        "SELECT {SLOT_COLUMNS} FROM slot
         WHERE submitter = ?1 AND nonce >= ?2
             AND nonce >= (SELECT coalesce(max(open_nonce), 0) FROM submitter_nonce_cursor WHERE submitter = ?1)
         ORDER BY nonce LIMIT ?3"
    ))?;
    let from = signed(from.unwrap_or(Nonce::ZERO).get());
    let slots = rows::all(slots, (lane.as_str(), from, limit), rows::slot)?;
    slots.into_iter().map(|slot| status(reading, lane, slot)).collect()
}

fn status(reading: &Reading<'_>, lane: &SubmitterId, slot: Slot) -> Result<SlotStatus, Failure> {
    let reservation = reading.sql.prepare_cached(&format!(
        "SELECT {RESERVATION_COLUMNS} FROM submitter_nonce_allocation WHERE submitter = ?1 AND nonce = ?2"
    ))?;
    let reservation = rows::first(reservation, (lane.as_str(), signed(slot.nonce.get())), rows::reservation)?;
    let intent = SlotStatus::bound_to(&slot, reservation.as_ref());
    // An intent that lost this nonce may hold another one.
    let holder = intent.map(|id| get_one(reading, id)).transpose()?.flatten();
    let tx = holder.filter(|tx| tx.state.nonce() == Some(slot.nonce));
    let attempts = attempts(reading, lane, slot.nonce, intent)?;
    Ok(SlotStatus { slot, tx, reservation, attempts })
}

/// The attempts of an archived intent are in the archive.
fn attempts(
    reading: &Reading<'_>,
    lane: &SubmitterId,
    nonce: Nonce,
    intent: Option<TxId>,
) -> Result<Vec<Attempt>, Failure> {
    let sql = format!(
        "SELECT {ATTEMPT_WITH_HISTORY_COLUMNS} FROM tx_attempt WHERE submitter = ?1 AND nonce = ?2 ORDER BY ordinal"
    );
    let found =
        rows::all(reading.sql.prepare_cached(&sql)?, (lane.as_str(), signed(nonce.get())), rows::attempt_with_history)?;
    match intent {
        Some(id) if found.is_empty() => {
            let mut moved = retention::attempts(reading, id)?;
            moved.retain(|attempt| attempt.nonce == nonce);
            Ok(moved)
        }
        _ => Ok(found),
    }
}
