//! The history of a world, in order: the writes of the store, the bytes that nodes sent, the blocks of the chain, the
//! answers that callers got.
//!
//! The checks read the history while it grows. A failing seed prints its end as text.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_domain::{
    B256, BlockRef, ChainId, CommandId, CommandKind, Intent, LaneCommit, Lease, OwnerId, RequestId, SignedPlan,
    SignedTx, SubmitterId, Timestamp, TxId,
};
use gapless_store::{CommitVerdict, RetentionKind};

use crate::chain::data_of;
use crate::fault::Fault;
use crate::stage::Stage;

/// One entry of the history.
#[derive(Clone, Debug)]
pub enum Moment {
    // --- The store: recorded when the rows are written. ---
    /// A new intent is QUEUED in the store. The caller may not have got the answer.
    Accepted {
        id: TxId,
        intent: Arc<Intent>,
    },
    Leased {
        lease: Lease,
    },
    Released {
        lease: Lease,
    },
    /// The whole commit is durable.
    Committed {
        commit: Arc<LaneCommit>,
        at: Timestamp,
    },
    /// The store refused a commit, with its verdict.
    NotCommitted {
        commit: Arc<LaneCommit>,
        verdict: CommitVerdict,
    },
    CanceledInQueue {
        id: TxId,
    },
    CommandPut {
        id: CommandId,
        lane: SubmitterId,
        kind: CommandKind,
    },
    /// The store keeps a final block of the chain, for the next watcher of that chain.
    FinalKept {
        block: BlockRef,
    },
    /// Retention moved or deleted so many rows of a kind.
    Retained {
        kind: RetentionKind,
        count: u32,
    },
    /// An operator accepted the chain as it is, and the store dropped its final block.
    HeadForgotten {
        chain: ChainId,
    },
    /// The store lost all writes since this index of the history.
    StoreLost {
        since: usize,
    },

    // --- People. ---
    /// A caller got the answer that its request is accepted (P6).
    Acknowledged {
        id: TxId,
        lane: SubmitterId,
        request: RequestId,
    },
    /// A caller stopped retrying and never got the answer that its request is accepted.
    GaveUp {
        lane: SubmitterId,
        number: u64,
    },
    /// An operator's action, as text.
    Operator {
        what: String,
    },

    // --- The network between nodes and the chain. ---
    /// A process sent a transaction to the chain's endpoints.
    Sent {
        by: OwnerId,
        tx: SignedTx,
    },

    // --- The chain. ---
    Mined {
        block: ChainBlock,
    },
    /// A block that only one endpoint has, and shows for a while as canonical.
    MinedPrivately {
        block: ChainBlock,
    },
    /// A block is no longer canonical. A reorg records its blocks from the newest to the oldest.
    Orphaned {
        block: BlockRef,
    },
    /// All blocks up to this one are final by the chain's rule.
    Final {
        block: BlockRef,
    },
    /// A chain with another genesis replaced the old one. No block of the old chain is on it.
    ChainReset {
        genesis: BlockRef,
    },

    // --- The world. ---
    Started {
        owner: OwnerId,
    },
    Ended {
        owner: OwnerId,
        how: &'static str,
    },
    Struck {
        fault: Fault,
        what: String,
    },
    /// The storm is over: no fault strikes from now on.
    Calm,
}

/// A block in the chain's own history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainBlock {
    pub block: BlockRef,
    pub parent: B256,
    pub txs: Vec<ChainTx>,
}

/// A transaction in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainTx {
    pub read: SignedPlan,
    pub succeeded: bool,
    /// Another user of the same key signed the transaction, not one of our nodes.
    pub by_stranger: bool,
}

impl ChainTx {
    pub fn hash(&self) -> B256 {
        self.read.signed.hash
    }

    /// The number of the intent whose payload the transaction carries. None for a filler, a cancel, or a stranger's
    /// transaction.
    pub fn effect(&self) -> Option<u64> {
        if self.by_stranger { None } else { effect_of(data_of(&self.read.plan.action)) }
    }
}

/// The number in the bytes of an intent. Each intent of a world has its own number.
pub fn effect_of(data: &[u8]) -> Option<u64> {
    data.first_chunk().copied().map(u64::from_be_bytes)
}

/// The list of all moments so far. Clones share it.
#[derive(Clone, Debug)]
pub struct History {
    stage: Stage,
    moments: Arc<Mutex<Vec<(Duration, Moment)>>>,
}

impl History {
    pub fn new(stage: Stage) -> Self {
        History { stage, moments: Arc::default() }
    }

    pub fn tell(&self, moment: Moment) {
        let at = self.stage.now();
        self.moments().push((at, moment));
    }

    pub fn len(&self) -> usize {
        self.moments().len()
    }

    pub fn is_empty(&self) -> bool {
        self.moments().is_empty()
    }

    /// All moments from this index on.
    pub fn since(&self, index: usize) -> Vec<(Duration, Moment)> {
        self.moments().get(index..).unwrap_or_default().to_vec()
    }

    fn moments(&self) -> MutexGuard<'_, Vec<(Duration, Moment)>> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Moment {
    /// The lane that the moment belongs to, if it belongs to one.
    pub fn lane(&self) -> Option<&SubmitterId> {
        match self {
            Moment::Accepted { intent, .. } => Some(intent.submitter()),
            Moment::Leased { lease } | Moment::Released { lease } => Some(lease.submitter()),
            Moment::Committed { commit, .. } | Moment::NotCommitted { commit, .. } => Some(commit.lease().submitter()),
            Moment::CommandPut { lane, .. } | Moment::Acknowledged { lane, .. } | Moment::GaveUp { lane, .. } => {
                Some(lane)
            }
            _ => None,
        }
    }
}

/// One line of text, for the reader of a trace.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::describe::moment(self, f)
    }
}
