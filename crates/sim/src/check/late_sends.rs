//! N06: who has lost a lane sends nothing more for it.
//!
//! It would be harmless (P5), and still is a sign of an owner that trusts its lease for too long.

use crate::fault::Fault;
use crate::history::Moment;

use super::{Broken, Check, Picture};

#[derive(Debug, Default)]
pub(super) struct LateSends {
    /// One of them has struck.
    apart: bool,
}

/// An owner trusts its lease by its own clock, and the database ends it by another. Where these jump apart, or where a lease itself is
/// lost, the one cannot know of the other.
const CLOCKS_APART: [Fault; 3] = [Fault::NodeClockJump, Fault::DatabaseClockJump, Fault::Failover];

impl Check for LateSends {
    fn promise(&self) -> &'static str {
        "N06"
    }

    fn see(&mut self, moment: &Moment, picture: &Picture) -> Result<(), Broken> {
        if let Moment::Struck { fault, .. } = moment {
            self.apart |= CLOCKS_APART.contains(fault);
        }
        let Moment::Sent { by, tx } = moment else { return Ok(()) };
        if self.apart {
            return Ok(());
        }
        let Some(lane) = picture.lane_of(&tx.hash) else { return Ok(()) };
        let newest = picture.ledger.lane(lane).and_then(|book| book.lease.as_ref());
        match newest.filter(|lease| lease.owner() != by) {
            Some(lease) => {
                let what = format!("{by} sent {}, and {} has the lane", tx.hash, lease.owner());
                Err(Broken::of(lane, what))
            }
            None => Ok(()),
        }
    }
}
