//! Everything that happened, in order: what the store wrote, what left for the chain, what the chain did, what callers saw.
//!
//! The checkers read it as it grows; a failing seed prints its end in words.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_domain::{
    B256, BlockRef, ChainId, CommandId, CommandKind, Intent, LaneCommit, Lease, OwnerId, RequestId, SignedPlan,
    SignedTx, SubmitterId, Timestamp, TxId,
};
use gapless_store::{CommitVerdict, RetentionKind};

use crate::fault::Fault;
use crate::stage::Stage;

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Moment {
    // --- The store: at the moment at which it was written. ---
    /// A row in QUEUED. Whether the caller hears of it is another matter.
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
    /// All of it is durable.
    Committed {
        commit: Arc<LaneCommit>,
        at: Timestamp,
    },
    /// A commit that the store did not take, in its own words.
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
    /// A final block of the chain is kept, for whoever follows it next.
    FinalKept {
        block: BlockRef,
    },
    /// Retention moved or deleted so many rows of a kind.
    Retained {
        kind: RetentionKind,
        count: u32,
    },
    /// An operator accepted that the chain is another one.
    HeadForgotten {
        chain: ChainId,
    },
    /// Everything that the store wrote since that moment (an index into the history) is gone.
    StoreLost {
        since: usize,
    },

    // --- People. ---
    /// A caller has seen that it is accepted (P6).
    Acknowledged {
        id: TxId,
        lane: SubmitterId,
        request: RequestId,
    },
    /// A caller has asked for long, and was never told that it is accepted.
    GaveUp {
        lane: SubmitterId,
        number: u64,
    },
    /// What an operator did, in words.
    Operator {
        what: String,
    },

    // --- Between nodes and the chain. ---
    /// Bytes left a process for the chain's endpoints.
    Sent {
        by: OwnerId,
        tx: SignedTx,
    },

    // --- The chain. ---
    Mined {
        block: ChainBlock,
    },
    /// A block that only one endpoint has, and shows for a while as if it were canonical.
    MinedAside {
        block: ChainBlock,
    },
    /// No longer canonical. Newest first, where several go at once.
    Orphaned {
        block: BlockRef,
    },
    /// Blocks up to this one are final by the chain's rule.
    Final {
        block: BlockRef,
    },
    /// A chain of another genesis stands in its place. Nothing that was mined before is on it.
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
    /// From here on nothing goes wrong any more.
    Calm,
}

/// A block as the chain's own history has it.
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
    /// Signed by somebody else with the same key, not by any of our nodes.
    pub by_stranger: bool,
}

impl ChainTx {
    pub fn hash(&self) -> B256 {
        self.read.signed.hash
    }

    /// The number of the intent whose payload it carries; none for a filler, a cancel, or what a stranger sent.
    pub fn effect(&self) -> Option<u64> {
        if self.by_stranger { None } else { effect_of(&self.read.plan.call.data) }
    }
}

/// Every intent of a world carries a number in its calldata, and no two the same.
pub fn effect_of(data: &[u8]) -> Option<u64> {
    data.first_chunk().copied().map(u64::from_be_bytes)
}

/// Grows as the world goes on. Clones share it.
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

    /// What came since the moment with this index.
    pub fn since(&self, index: usize) -> Vec<(Duration, Moment)> {
        self.moments().get(index..).unwrap_or_default().to_vec()
    }

    fn moments(&self) -> MutexGuard<'_, Vec<(Duration, Moment)>> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Moment {
    /// The lane that it is about, if it is about one.
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

/// In words, for whoever reads a trace.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::words::moment(self, f)
    }
}
