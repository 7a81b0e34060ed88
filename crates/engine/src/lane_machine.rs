//! The state machines of lanes, as the runner drives them.

use std::fmt;

use gapless_domain::{Bytes, Fact, Lane, LaneSetup, LaneSnapshot, Lease, Outline, Step, Tick};

/// The state machine of one lane: facts in, effects out. [`Lane`] is the machine of every running program; the
/// simulator wraps it to plant bugs.
pub trait LaneMachine: fmt::Debug + Send {
    /// Applies a fact and returns the effects to begin.
    fn handle(&mut self, fact: Fact, now: Tick) -> Step;

    /// True if the lane waits for new heads.
    fn follows_heads(&self) -> bool;

    /// Limits the number of attempts in a signing request.
    fn limit_signing(&mut self, batch_max: Option<usize>);
}

/// Decodes the effect and the highest cost of signed bytes.
pub type OutlineOf<'a> = dyn Fn(&Bytes) -> Option<Outline> + 'a;

/// Makes the state machine of a lane that this node has acquired.
pub trait LaneFactory: fmt::Debug + Send + Sync {
    fn restore(
        &self,
        lease: &Lease,
        snapshot: LaneSnapshot,
        setup: LaneSetup,
        outline_of: &OutlineOf<'_>,
        now: Tick,
    ) -> Box<dyn LaneMachine>;
}

/// The factory of every running program: the lanes of the domain, unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct DomainLanes;

impl LaneFactory for DomainLanes {
    fn restore(
        &self,
        lease: &Lease,
        snapshot: LaneSnapshot,
        setup: LaneSetup,
        outline_of: &OutlineOf<'_>,
        now: Tick,
    ) -> Box<dyn LaneMachine> {
        Box::new(Lane::restore(lease, snapshot, setup, outline_of, now))
    }
}

impl LaneMachine for Lane {
    fn handle(&mut self, fact: Fact, now: Tick) -> Step {
        Lane::handle(self, fact, now)
    }

    fn follows_heads(&self) -> bool {
        Lane::follows_heads(self)
    }

    fn limit_signing(&mut self, batch_max: Option<usize>) {
        Lane::limit_signing(self, batch_max);
    }
}
