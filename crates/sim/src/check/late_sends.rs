//! N06: a process that has lost a lane sends no more transactions for it.
//!
//! Such a send is harmless (P5), but it shows that an owner trusts its lease for too long.

use crate::fault::Fault;
use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct LateSends {
    /// A fault of `CLOCKS_APART` has struck.
    apart: bool,
}

/// Faults after which an owner cannot know that its lease is over: it trusts the lease by its own clock, and the
/// database ends it by another. The clocks jump apart, or the lease itself is lost.
const CLOCKS_APART: [Fault; 3] = [Fault::NodeClockJump, Fault::DatabaseClockJump, Fault::Failover];

impl Check for LateSends {
    fn promise(&self) -> &'static str {
        "N06"
    }

    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        if let Moment::Struck { fault, .. } = moment {
            self.apart |= CLOCKS_APART.contains(fault);
        }
        let Moment::Sent { by, tx } = moment else { return Ok(()) };
        if self.apart {
            return Ok(());
        }
        let Some(lane) = view.lane_of(&tx.hash) else { return Ok(()) };
        let newest = view.ledger.lane(lane).and_then(|lane_ledger| lane_ledger.lease.as_ref());
        match newest.filter(|lease| lease.owner() != by) {
            Some(lease) => {
                let what = format!("{by} sent {}, but {} owns the lane", tx.hash, lease.owner());
                Err(CheckFailure::of(lane, what))
            }
            None => Ok(()),
        }
    }
}
