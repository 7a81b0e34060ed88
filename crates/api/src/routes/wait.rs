//! `?wait=`: an answer at the change, not at a poll.
//!
//! A wait first asks to be told of changes, then reads the row, then sleeps. A change between the two is seen by the
//! reading, one after it by the hint; a hint that is lost costs only time, since the deadline reads once more.

use std::time::Duration;

use gapless_domain::{CommandId, CommandStatus, ManagedTx, SubmitterId};
use gapless_wire::ProblemCode;

use crate::problem::Refusal;
use crate::shared::{InFlight, Shared};

/// The intent as soon as it differs from `tx`, or as it is at the deadline.
pub(super) async fn for_change(
    shared: &Shared,
    in_flight: &InFlight,
    tx: ManagedTx,
    wait: Duration,
) -> Result<ManagedTx, Refusal> {
    let _place = shared.begin_to_wait(in_flight)?;
    let app = &shared.app;
    let mut deadline = app.timer.sleep(wait);
    for _ in 0..app.limits.wait_rereads {
        let changed = app.changes.changed(tx.intent.submitter(), tx.id, tx.version);
        let now = shared.find(tx.id).await?;
        if now.version != tx.version || app.drain.has_begun() {
            return Ok(now);
        }
        tokio::select! {
            () = changed => {}
            () = &mut deadline => break,
            () = app.drain.begun() => break,
        }
    }
    shared.find(tx.id).await
}

/// The command's status as soon as it is done, or as it is at the deadline.
pub(super) async fn for_command(
    shared: &Shared,
    in_flight: &InFlight,
    submitter: &SubmitterId,
    id: CommandId,
    wait: Duration,
) -> Result<CommandStatus, Refusal> {
    let _place = shared.begin_to_wait(in_flight)?;
    let app = &shared.app;
    let mut deadline = app.timer.sleep(wait);
    for _ in 0..app.limits.wait_rereads {
        let changed = app.changes.lane_changed(submitter);
        let status = status(shared, id).await?;
        if status != CommandStatus::Open || app.drain.has_begun() {
            return Ok(status);
        }
        tokio::select! {
            () = changed => {}
            () = &mut deadline => break,
            () = app.drain.begun() => break,
        }
    }
    status(shared, id).await
}

pub(super) async fn status(shared: &Shared, id: CommandId) -> Result<CommandStatus, Refusal> {
    let found = shared.app.store.commands(&[id]).await.map_err(|error| shared.store_failed(&error))?;
    found.into_iter().next().flatten().ok_or_else(|| Refusal::of(ProblemCode::CommandNotFound))
}
