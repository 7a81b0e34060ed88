//! Ownership of lanes.

use std::fmt;

use async_trait::async_trait;
use gapless_domain::{Lease, OwnerId, SubmitterId};

use crate::error::StoreError;
use crate::wake::Wakeups;

/// Gives lanes to nodes, for a limited time, and finds lanes that need an owner.
#[async_trait]
pub trait Leases: Send + Sync + fmt::Debug {
    /// The node that this handle acts for. Each start of a process has an owner id of its own.
    fn owner(&self) -> &OwnerId;

    /// Wake-ups for this node: a lane has new work, or a queued intent was canceled. A wake-up carries no data and may
    /// be lost.
    /// [`Leases::lanes_with_work`] finds lanes without an owner, and the owner of a lane peeks its queue from time to
    /// time anyway.
    fn wakeups(&self) -> Wakeups;

    /// Acquires each lane that is free: never leased (token 1), released, or expired by more than the clock skew
    /// (token + 1). A lease that this owner holds is renewed. A lease that this owner let expire gets a new token.
    async fn acquire(&self, lanes: &[SubmitterId]) -> Result<Vec<Acquired>, StoreError>;

    /// Renews every lease that this owner still holds, and records that the node is alive.
    async fn renew(&self) -> Result<Renewal, StoreError>;

    /// Releases leases; other nodes may acquire the lanes at once. A lease that is no longer held is ignored. Other
    /// nodes are woken for released lanes that have work.
    async fn release(&self, leases: &[Lease]) -> Result<(), StoreError>;

    /// The sweep: lanes that have work and no valid lease, ordered by submitter, at most `limit` of them, beginning
    /// after `after`. Work is a queued intent, an open intent, an open command, or a nonce that is not closed. A nonce
    /// without an intent counts too (a filler, a nonce that may be reserved again), so a lane is idle only after all
    /// its slots are closed.
    async fn lanes_with_work(&self, after: Option<&SubmitterId>, limit: u32) -> Result<Vec<SubmitterId>, StoreError>;

    /// The number of live nodes and of valid leases. Each node computes its fair share of the lanes from it.
    async fn census(&self) -> Result<Census, StoreError>;
}

/// The answer of [`Leases::acquire`] for one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// This owner holds the lane. A new token means that the lane had another lease before.
    Held(Lease),
    /// Another node holds the lane.
    HeldByOther,
    /// Another transaction is writing the lease row. Ask again.
    Busy,
}

/// The leases that this owner still has. A lease that is in neither list is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    pub extended: Vec<Lease>,
    /// Leases that are still held, whose row is locked by a commit of this owner. The commit extends them too.
    pub busy: Vec<Lease>,
}

/// The nodes that share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// Nodes that renewed within the duration of a lease, or have just started. The asking node is always counted.
    pub nodes: u32,
    /// Valid leases.
    pub lanes: u32,
}
