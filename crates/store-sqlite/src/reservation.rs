//! The rows of reservations.

use gapless_domain::{Reservation, ReservationStatus};
use gapless_store_sql::signed;

use crate::error::Failure;
use crate::ledger::Writing;

/// Writes reservations as a commit leaves them.
pub(crate) fn write(
    writing: &Writing<'_>,
    lane: &str,
    token: i64,
    reservations: &[Reservation],
) -> Result<(), Failure> {
    let mut statement = writing.sql.prepare_cached(
        "INSERT INTO submitter_nonce_allocation
             (submitter, nonce, status, tx_id, lock_owner, locked_until, fencing_token)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (submitter, nonce) DO UPDATE SET status = excluded.status, tx_id = excluded.tx_id,
             lock_owner = excluded.lock_owner, locked_until = excluded.locked_until,
             fencing_token = excluded.fencing_token",
    )?;
    for Reservation { nonce, status } in reservations {
        let (name, tx_id, lock_owner, until) = match status {
            ReservationStatus::Reserved { tx_id, lock_owner, locked_until } => {
                ("RESERVED", Some(*tx_id), Some(lock_owner.as_str()), Some(locked_until.as_micros()))
            }
            ReservationStatus::Used { tx_id } => ("USED", *tx_id, None, None),
            ReservationStatus::Recyclable => ("RECYCLABLE", None, None, None),
        };
        let tx_id = tx_id.map(|id| id.to_string());
        statement.execute((lane, signed(nonce.get()), name, tx_id, lock_owner, until, token))?;
    }
    Ok(())
}
