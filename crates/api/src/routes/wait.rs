//! `?wait=`: an answer at the change, without polling.
//!
//! A wait first subscribes to changes, then reads the row, then sleeps. A change in between is seen by the read, a
//! later change by the hint. A lost hint costs only time, because the deadline reads once more. Hints belong to the
//! lane, so on a busy lane most concern other intents: after some of them a wait pauses before it reads again.

use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_domain::{CommandId, CommandStatus, IntentRecord, SubmitterId};
use gapless_wire::ProblemCode;

use crate::app::App;
use crate::problem::Refusal;
use crate::shared::{InFlight, Place, Shared};

/// The intent as soon as it differs from `tx`, or its state at the deadline.
pub(super) async fn for_change(
    shared: &Shared,
    in_flight: &InFlight,
    tx: IntentRecord,
    place: Place,
) -> Result<IntentRecord, Refusal> {
    in_flight.give_up();
    let app = &shared.app;
    let mut patience = Patience::new(app, place.time);
    loop {
        let changed = app.changes.changed(tx.intent.submitter(), tx.id, tx.version);
        let now = shared.find(tx.id).await?;
        if now.version != tx.version || app.drain.has_begun() {
            return Ok(now);
        }
        if !patience.look_again(changed).await {
            return shared.find(tx.id).await;
        }
    }
}

/// The command's status as soon as it has ended, or its status at the deadline.
pub(super) async fn for_command(
    shared: &Shared,
    in_flight: &InFlight,
    submitter: &SubmitterId,
    id: CommandId,
    place: Place,
) -> Result<CommandStatus, Refusal> {
    in_flight.give_up();
    let app = &shared.app;
    let mut patience = Patience::new(app, place.time);
    loop {
        let changed = app.changes.lane_changed(submitter);
        let now = status(shared, id).await?;
        if now != CommandStatus::Open || app.drain.has_begun() {
            return Ok(now);
        }
        if !patience.look_again(changed).await {
            return status(shared, id).await;
        }
    }
}

/// The deadline of a wait, and its rate of reads.
struct Patience<'a> {
    app: &'a App,
    deadline: BoxFuture<'static, ()>,
    /// Number of hints that are still followed at once.
    prompt: u32,
}

impl<'a> Patience<'a> {
    fn new(app: &'a App, wait: Duration) -> Self {
        Patience { app, deadline: app.driver.sleep(wait), prompt: app.limits.wait_rereads }
    }

    /// Ends with `true` when it is time to read again, with `false` at the deadline or a drain.
    async fn look_again(&mut self, changed: BoxFuture<'static, ()>) -> bool {
        let drain = &self.app.drain;
        let prompt = self.prompt.checked_sub(1);
        self.prompt = prompt.unwrap_or_default();
        let pause = async {
            changed.await;
            if prompt.is_none() {
                self.app.driver.sleep(self.app.limits.wait_pause).await;
            }
        };
        tokio::select! {
            () = pause => true,
            () = &mut self.deadline => false,
            () = drain.begun() => false,
        }
    }
}

pub(super) async fn status(shared: &Shared, id: CommandId) -> Result<CommandStatus, Refusal> {
    let found = shared.app.views.commands(&[id]).await.map_err(|error| shared.store_failed(&error))?;
    found.into_iter().next().flatten().ok_or_else(|| Refusal::of(ProblemCode::CommandNotFound))
}
