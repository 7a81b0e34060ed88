//! Loading lanes for their new owner.

use gapless_domain::{Lease, OwnerId};
use gapless_store::{LaneSnapshot, Loaded};
use gapless_store_sql::signed;

use crate::error::Failure;
use crate::lease;
use crate::ledger::Reading;
use crate::rows::{self, ATTEMPT_COLUMNS, CURSOR_COLUMNS, INTENT_COLUMNS, RESERVATION_COLUMNS, SLOT_COLUMNS};

/// The store has one connection, so no write of an older owner can still be under way.
pub(crate) fn load_lanes(reading: &Reading<'_>, owner: &OwnerId, leases: &[Lease]) -> Result<Vec<Loaded>, Failure> {
    let load = |lease: &Lease| {
        if lease::holds(reading, owner, lease)? {
            snapshot(reading, lease.submitter().as_str()).map(Loaded::Lane)
        } else {
            Ok(Loaded::Fenced)
        }
    };
    leases.iter().map(load).collect()
}

fn snapshot(reading: &Reading<'_>, lane: &str) -> Result<LaneSnapshot, Failure> {
    let sql = reading.sql;
    let cursor = sql
        .prepare_cached(&format!("SELECT {CURSOR_COLUMNS}, epoch FROM submitter_nonce_cursor WHERE submitter = ?1"))?;
    let cursor = rows::first(cursor, [lane], |row| Ok((rows::cursor(row)?, row.get::<_, i64>(11)?)))?;
    let (cursor, seen) = cursor.unzip();
    let first_open = cursor.as_ref().map_or(0, |cursor| signed(cursor.open_nonce.get()));
    let slots = sql.prepare_cached(&format!(
        "SELECT {SLOT_COLUMNS} FROM slot WHERE submitter = ?1 AND nonce >= ?2 ORDER BY nonce"
    ))?;
    let attempts = sql.prepare_cached(&format!(
        "SELECT {ATTEMPT_COLUMNS} FROM tx_attempt WHERE submitter = ?1 AND nonce >= ?2 ORDER BY nonce, ordinal"
    ))?;
    let bound = sql.prepare_cached(&format!(
        "SELECT {INTENT_COLUMNS} FROM managed_tx INDEXED BY managed_tx_bound
         WHERE submitter = ?1 AND nonce >= ?2 AND state IN ('ALLOCATED', 'TRACKING', 'STUCK') ORDER BY nonce"
    ))?;
    let reservations = sql.prepare_cached(&format!(
        "SELECT {RESERVATION_COLUMNS} FROM submitter_nonce_allocation INDEXED BY submitter_nonce_allocation_open
         WHERE submitter = ?1 AND nonce >= ?2 AND status <> 'USED' ORDER BY nonce"
    ))?;
    let commands = sql.prepare_cached(
        "SELECT id, submitter, body, issued_by, issued_at FROM lane_command INDEXED BY lane_command_open
         WHERE submitter = ?1 AND done_at IS NULL ORDER BY id",
    )?;
    Ok(LaneSnapshot {
        cursor,
        slots: rows::all(slots, (lane, first_open), rows::slot)?,
        attempts: rows::all(attempts, (lane, first_open), rows::attempt)?,
        bound: rows::all(bound, (lane, first_open), rows::intent_record)?,
        reservations: rows::all(reservations, (lane, first_open), rows::reservation)?,
        commands: rows::all(commands, [lane], rows::command)?,
        regressed: reading.is_regressed(lane, seen)?,
        now: reading.now,
    })
}
