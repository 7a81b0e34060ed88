//! Fault points: named places in a transaction's life where a test stops or ends the process.

use std::fmt;

use gapless_domain::{EventKind, LaneCommit, TransitionName};

gapless_domain::names! {
    /// Before and after each effect. A process that ends at any of them loses nothing and does nothing twice (S02).
    FaultPoint {
        BeforeAccept = "before_accept",
        AfterAccept = "after_accept",
        BeforePeek = "before_peek",
        AfterPeek = "after_peek",
        BeforePrepare = "before_prepare",
        AfterPrepare = "after_prepare",
        BeforeSign = "before_sign",
        AfterSign = "after_sign",
        BeforeBindCommit = "before_bind_commit",
        AfterBindCommit = "after_bind_commit",
        BeforeBroadcast = "before_broadcast",
        AfterBroadcast = "after_broadcast",
        BeforeAcknowledgeCommit = "before_acknowledge_commit",
        AfterAcknowledgeCommit = "after_acknowledge_commit",
        BeforeMinedCommit = "before_mined_commit",
        AfterMinedCommit = "after_mined_commit",
        BeforeSettleCommit = "before_settle_commit",
        AfterSettleCommit = "after_settle_commit",
        BeforeOtherCommit = "before_other_commit",
        AfterOtherCommit = "after_other_commit",
        BeforeRelease = "before_release",
        AfterRelease = "after_release",
    }
}

pub trait FaultPoints: Send + Sync + fmt::Debug {
    fn reach(&self, point: FaultPoint);
}

/// The production implementation: does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaults;

impl FaultPoints for NoFaults {
    fn reach(&self, _point: FaultPoint) {}
}

impl FaultPoint {
    /// The fault points before and after a commit, by the furthest step in it.
    pub(crate) fn around_commit(commit: &LaneCommit) -> (FaultPoint, FaultPoint) {
        let has = |name| commit.changes().iter().any(|change| change.event() == EventKind::Tx(name));
        if has(TransitionName::Settle) {
            (FaultPoint::BeforeSettleCommit, FaultPoint::AfterSettleCommit)
        } else if has(TransitionName::Mine) {
            (FaultPoint::BeforeMinedCommit, FaultPoint::AfterMinedCommit)
        } else if has(TransitionName::Bind) {
            (FaultPoint::BeforeBindCommit, FaultPoint::AfterBindCommit)
        } else if has(TransitionName::Acknowledge) {
            (FaultPoint::BeforeAcknowledgeCommit, FaultPoint::AfterAcknowledgeCommit)
        } else {
            (FaultPoint::BeforeOtherCommit, FaultPoint::AfterOtherCommit)
        }
    }
}
