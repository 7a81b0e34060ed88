//! Faults at named moments: a world that plays a known scenario, whatever its dice say.

use std::collections::VecDeque;

use gapless_domain::{AttemptKind, EventKind, LaneEventKind, ReservationStep, TransitionName};

use crate::fault::{Fault, Faults};
use crate::history::Moment;

/// One step of a script: a fault that strikes at its first chance after a moment. The next step begins when the fault
/// has struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cue {
    pub after: Landmark,
    pub fault: Fault,
}

gapless_domain::names! {
    /// A moment that a script waits for.
    Landmark {
        /// A process has started.
        Started = "started",
        /// An intent or a reservation has got a nonce.
        Bound = "bound",
        /// Bytes have left for the chain.
        Sent = "sent",
        /// A block has a transaction of a lane's owner.
        OwnMined = "own_mined",
        Orphaned = "orphaned",
        /// An attempt that carries another payload is durable.
        Replaced = "replaced",
        /// A caller's cancel of an intent with a nonce is durable.
        CancelWanted = "cancel_wanted",
        /// A nonce is reserved for a caller.
        Reserved = "reserved",
        /// A lane is in PROTECT.
        Protected = "protected",
        /// The resync of an operator is done.
        Resynced = "resynced",
    }
}

impl Landmark {
    pub fn is(self, moment: &Moment) -> bool {
        match (self, moment) {
            (Landmark::Started, Moment::Started { .. })
            | (Landmark::Sent, Moment::Sent { .. })
            | (Landmark::Orphaned, Moment::Orphaned { .. }) => true,
            (Landmark::OwnMined, Moment::Mined { block }) => block.txs.iter().any(|tx| !tx.by_stranger),
            (Landmark::Bound, Moment::Committed { commit, .. }) => !commit.slots().is_empty(),
            (Landmark::Replaced, Moment::Committed { commit, .. }) => {
                commit.attempts().iter().any(|attempt| attempt.kind == AttemptKind::Replace)
            }
            (Landmark::CancelWanted, Moment::Committed { commit, .. }) => {
                let wanted = EventKind::Tx(TransitionName::WantCancel);
                commit.changes().iter().any(|change| change.event() == wanted && change.to().bound().is_some())
            }
            (Landmark::Reserved, Moment::Committed { commit, .. }) => {
                commit.reservations().iter().any(|step| matches!(step, ReservationStep::Reserve { .. }))
            }
            (Landmark::Protected, Moment::Committed { commit, .. }) => {
                commit.lane_events().any(|(_, kind, _)| kind == LaneEventKind::Protected)
            }
            (Landmark::Resynced, Moment::Committed { commit, .. }) => {
                commit.lane_events().any(|(_, kind, _)| kind == LaneEventKind::Resynced)
            }
            _ => false,
        }
    }
}

/// How far a script has come.
#[derive(Debug)]
pub(crate) struct Progress {
    left: VecDeque<Cue>,
    /// The fault of the first step may strike.
    armed: bool,
}

impl Progress {
    pub(crate) fn new(script: &[Cue]) -> Self {
        Progress { left: script.iter().copied().collect(), armed: false }
    }

    /// Every moment, in order.
    pub(crate) fn see(&mut self, moment: &Moment, faults: &Faults) {
        let Some(cue) = self.left.front().copied() else { return };
        if !self.armed && cue.after.is(moment) {
            faults.arm(cue.fault);
            self.armed = true;
        } else if self.armed && matches!(moment, Moment::Struck { fault, .. } if *fault == cue.fault) {
            self.left.pop_front();
            self.armed = false;
        }
    }
}
