//! The rows of reservations.

use gapless_domain::Reservation;
use gapless_store_sql::ReservationRow;

use crate::commit_statements::ReservationWrite;
use crate::error::Failure;
use crate::ledger::Writing;

/// Writes reservations as a commit leaves them.
pub(crate) fn write(
    writing: &Writing<'_>,
    lane: &str,
    token: i64,
    reservations: &[Reservation],
) -> Result<(), Failure> {
    for reservation in reservations {
        let row = ReservationRow::from(reservation);
        let write = ReservationWrite {
            submitter: lane,
            nonce: row.nonce,
            status: row.status,
            tx_id: row.tx_id.map(|id| id.to_string()),
            lock_owner: row.lock_owner,
            locked_until: row.locked_until.map(|until| until.as_micros()),
            fencing_token: token,
        };
        write.execute(writing.sql)?;
    }
    Ok(())
}
