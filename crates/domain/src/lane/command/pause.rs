//! Pausing and resuming a lane.

use super::{Answer, Execution, done};

/// Compares with the cursor as this commit leaves it, because one command may follow another.
pub(super) fn execute(run: &mut Execution<'_>, wanted: bool) -> Answer {
    if run.draft.cursor().is_some_and(|cursor| cursor.paused == wanted) {
        return done(if wanted { "the lane is already paused" } else { "the lane is not paused" });
    }
    run.draft.set_paused(wanted, run.command.issued_by.clone())?;
    done(if wanted { "the lane is paused" } else { "the lane is resumed" })
}
