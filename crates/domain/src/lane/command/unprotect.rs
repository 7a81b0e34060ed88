//! Ending PROTECT, if a scan shows that its cause is gone.

use crate::cursor::{LaneState, ProtectCode};

use super::{Answer, Execution, done, refused};
use crate::lane::reconcile::plan::ReconcilePlan;

pub(super) fn execute(run: &mut Execution<'_>, plan: &ReconcilePlan) -> Answer {
    let state = run.draft.base().map(|cursor| &cursor.state);
    let Some(LaneState::Protect(protection)) = state else { return done("the lane is not in PROTECT") };
    if protection.code == ProtectCode::StoreRegressed {
        return refused(
            "the database lost commits: run `resync`; it compares the ledger with the chain and ends PROTECT",
        );
    }
    let cause = plan.obstacle.as_ref().map(|(_, text)| text.clone()).or_else(|| plan.undecided());
    if let Some(cause) = cause {
        return refused(&format!("the cause of PROTECT persists: {cause}"));
    }
    let text = format!("PROTECT ended ({})", protection.code.as_str());
    run.draft.unprotect(!run.lane.ledger.slots.is_empty(), run.command.issued_by.clone())?;
    run.draft.take_protection(run.lane.commits.protection.take());
    done(&text)
}
