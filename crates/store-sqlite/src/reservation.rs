//! Reservations: each step is asked of what the steps before it left, by the database's clock.

use gapless_domain::{NewSlot, Nonce, ReservationStep, SlotKind};
use gapless_store::Conflict;
use gapless_store_sql::signed;

use crate::commit::{LaneWrite, Stop};
use crate::rows;

pub(crate) fn take_steps(lane: &LaneWrite<'_>) -> Result<(), Stop> {
    for step in lane.commit.reservations() {
        if !take_step(lane, step)? {
            return Err(Conflict::Reservation(step.nonce()).into());
        }
    }
    Ok(())
}

/// False if the step is refused.
fn take_step(lane: &LaneWrite<'_>, step: &ReservationStep) -> Result<bool, Stop> {
    let nonce = signed(step.nonce().get());
    let now = lane.writing.now;
    match step {
        ReservationStep::Reserve { nonce: lent, tx_id, lock_owner, hold } => {
            if !may_reserve(lane, *lent)? {
                return Ok(false);
            }
            let until = now.saturating_add(*hold).as_micros();
            // A nonce that is lent or used already is left alone, and the step refused.
            let written = lane
                .writing
                .sql
                .prepare_cached(
                    "INSERT INTO submitter_nonce_allocation
                         (submitter, nonce, status, tx_id, lock_owner, locked_until, fencing_token)
                     VALUES (?1, ?2, 'RESERVED', ?3, ?4, ?5, ?6)
                     ON CONFLICT (submitter, nonce) DO UPDATE SET status = 'RESERVED', tx_id = excluded.tx_id,
                         lock_owner = excluded.lock_owner, locked_until = excluded.locked_until,
                         fencing_token = excluded.fencing_token
                     WHERE status = 'RECYCLABLE' AND fencing_token <= excluded.fencing_token",
                )?
                .execute((lane.lane, nonce, tx_id.to_string(), lock_owner.as_str(), until, lane.token))?;
            Ok(written == 1)
        }
        ReservationStep::Use { lock_owner, .. } => {
            let written = lane
                .writing
                .sql
                .prepare_cached(
                    "UPDATE submitter_nonce_allocation
                     SET status = 'USED', lock_owner = NULL, locked_until = NULL, fencing_token = ?5
                     WHERE submitter = ?1 AND nonce = ?2 AND status = 'RESERVED' AND lock_owner = ?3
                         AND locked_until > ?4 AND fencing_token <= ?5",
                )?
                .execute((lane.lane, nonce, lock_owner.as_str(), now.as_micros(), lane.token))?;
            adopt_attempts(lane, nonce)?;
            Ok(written == 1)
        }
        ReservationStep::Release { lock_owner, .. } => {
            let written = lane
                .writing
                .sql
                .prepare_cached(
                    "UPDATE submitter_nonce_allocation
                     SET status = 'RECYCLABLE', tx_id = NULL, lock_owner = NULL, locked_until = NULL,
                         fencing_token = ?5
                     WHERE submitter = ?1 AND nonce = ?2 AND status = 'RESERVED' AND lock_owner = ?3
                         AND locked_until > ?4 AND fencing_token <= ?5",
                )?
                .execute((lane.lane, nonce, lock_owner.as_str(), now.as_micros(), lane.token))?;
            Ok(written == 1)
        }
        ReservationStep::Expire { .. } => {
            let written = lane
                .writing
                .sql
                .prepare_cached(
                    "UPDATE submitter_nonce_allocation
                     SET status = 'RECYCLABLE', tx_id = NULL, lock_owner = NULL, locked_until = NULL,
                         fencing_token = ?4
                     WHERE submitter = ?1 AND nonce = ?2 AND status = 'RESERVED' AND locked_until <= ?3
                         AND fencing_token <= ?4",
                )?
                .execute((lane.lane, nonce, now.as_micros(), lane.token))?;
            Ok(written == 1)
        }
        ReservationStep::Fill { .. } => {
            let written = lane
                .writing
                .sql
                .prepare_cached(
                    "UPDATE submitter_nonce_allocation SET status = 'USED', fencing_token = ?3
                     WHERE submitter = ?1 AND nonce = ?2 AND status = 'RECYCLABLE' AND fencing_token <= ?3",
                )?
                .execute((lane.lane, nonce, lane.token))?;
            Ok(written == 1)
        }
    }
}

/// The smallest recyclable nonce that is not closed, or a fresh one if there is none. What this commit closes was open when
/// the lane looked, and counts.
fn may_reserve(lane: &LaneWrite<'_>, nonce: Nonce) -> Result<bool, Stop> {
    let smallest = lane.writing.sql.prepare_cached(
        "SELECT nonce FROM submitter_nonce_allocation INDEXED BY submitter_nonce_allocation_open
         WHERE submitter = ?1 AND nonce >= ?2 AND status <> 'USED' AND status = 'RECYCLABLE' ORDER BY nonce LIMIT 1",
    )?;
    Ok(match rows::first(smallest, (lane.lane, lane.first_open), rows::value::<i64>)? {
        Some(recyclable) => recyclable == signed(nonce.get()),
        None => {
            let is_fresh = |slot: &NewSlot| slot.nonce == nonce && slot.kind == SlotKind::Reservation;
            lane.commit.slots().iter().any(is_fresh)
        }
    })
}

/// From here on the nonce is its intent's like any other, and so is what was written for it, also in this commit.
fn adopt_attempts(lane: &LaneWrite<'_>, nonce: i64) -> Result<(), Stop> {
    lane.writing
        .sql
        .prepare_cached(
            "UPDATE tx_attempt SET tx_id = (SELECT lent.tx_id FROM submitter_nonce_allocation AS lent
                 WHERE lent.submitter = ?1 AND lent.nonce = ?2 AND lent.status = 'USED')
             WHERE submitter = ?1 AND nonce = ?2 AND tx_id IS NULL",
        )?
        .execute((lane.lane, nonce))?;
    Ok(())
}
