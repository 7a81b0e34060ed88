//! P5: a process that lost its lease changes no row of the lane.

use gapless_domain::Lease;

use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct Fenced;

impl Check for Fenced {
    fn promise(&self) -> &'static str {
        "P5"
    }

    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        let (lease, verdict) = match moment {
            Moment::Leased { lease } => (lease, granted(lease, view)),
            Moment::Committed { commit, .. } => (commit.lease(), may_write(commit.lease(), view)),
            _ => return Ok(()),
        };
        verdict.map_err(|what| CheckFailure::of(lease.submitter(), what))
    }
}

/// The token grows with every new owner, so no two owners have the same token.
fn granted(lease: &Lease, view: &WorldView) -> Result<(), String> {
    let Some(newest) = &view.before.lease else { return Ok(()) };
    let (token, owner) = (lease.token(), lease.owner());
    if token < newest.token() {
        return Err(format!("{owner} was granted token {token} after {}", newest.token()));
    }
    if token == newest.token() && owner != newest.owner() {
        return Err(format!("{owner} was granted token {token}, which {} has", newest.owner()));
    }
    if token == newest.token() && view.before.released {
        return Err(format!("{owner} was granted token {token} again after it released it"));
    }
    Ok(())
}

fn may_write(lease: &Lease, view: &WorldView) -> Result<(), String> {
    let (token, owner) = (lease.token(), lease.owner());
    match &view.before.lease {
        None => Err(format!("{owner} wrote with token {token}, but the lane was never leased")),
        Some(newest) if newest != lease => {
            Err(format!("{owner} wrote with token {token}, but {} has {}", newest.owner(), newest.token()))
        }
        Some(_) if view.before.released => Err(format!("{owner} wrote with token {token}, which it had released")),
        Some(_) if view.before.written_by > Some(token) => {
            Err(format!("{owner} wrote with token {token} after a newer one"))
        }
        Some(_) => Ok(()),
    }
}
