//! What a lane wants done.

use alloy_primitives::B256;

use crate::attempt::AttemptKind;
use crate::block::BlockRef;
use crate::id::TxId;
use crate::intent::Speed;
use crate::ledger::LaneCommit;
use crate::nonce::Nonce;
use crate::payload::EvmCall;
use crate::plan::{SignedTx, TxPlan};
use crate::stuck::StuckCase;
use crate::text::NodeText;
use crate::time::Tick;

use super::fact::PrepareKey;

/// What to do now, and when to come back if nothing else happens.
#[derive(Debug, Default)]
pub struct Step {
    /// In this order; those that wait for an answer are not waited for before the next one begins.
    pub effects: Vec<Effect>,
    pub wake_at: Option<Tick>,
}

#[derive(Debug)]
pub enum Effect {
    /// Read the first `limit` of the queue but for those of `without`, and the commands; with 0 only the commands. Answer:
    /// [`Fact::Peeked`](super::Fact::Peeked).
    Peek {
        limit: u32,
        without: Vec<TxId>,
    },
    /// Estimate and price; needs no nonce. Answer: [`Fact::Prepared`](super::Fact::Prepared), for all of them.
    Prepare(Vec<PrepareRequest>),
    /// Needs a permit. Answer: [`Fact::Signed`](super::Fact::Signed), in this order.
    Sign(Vec<SignRequest>),
    /// Answer: [`Fact::Committed`](super::Fact::Committed); every other verdict of the store is the end of this `Lane`, which
    /// is dropped, or loaded anew.
    Commit(Box<LaneCommit>),
    /// Needs a permit. In this order. Answer: [`Fact::Sent`](super::Fact::Sent), for all of them.
    Broadcast(Vec<Outgoing>),
    /// Read counts and balance. Answer: [`Fact::Account`](super::Fact::Account).
    ReadAccount,
    /// Read blocks for what the account has sent. Answer: [`Fact::Scanned`](super::Fact::Scanned).
    Scan(ScanRequest),
    /// Look into nodes' pools. Answer: [`Fact::Diagnosed`](super::Fact::Diagnosed), for all of them.
    Diagnose(Vec<DiagnoseRequest>),
    /// Ask whoever decides what is to be done. Answer: [`Fact::Decided`](super::Fact::Decided).
    Decide(Box<StuckCase>),
    /// Look out for these hashes from now on, before anything that follows is begun. Answers come as
    /// [`Fact::Seen`](super::Fact::Seen), for as long as they are watched. One that is watched already may be asked for again;
    /// then what is known of it is told again, also that it is final.
    Watch(Vec<Watched>),
    Unwatch(Vec<B256>),
    /// Something that people should know. It changes nothing.
    Notice {
        nonce: Option<Nonce>,
        text: NodeText,
    },
    /// There is nothing left to do here: give the lease back.
    Release,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepareRequest {
    pub key: PrepareKey,
    pub call: EvmCall,
    pub speed: Speed,
}

/// Does any node have one of these, all of one nonce, in its pool?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagnoseRequest {
    pub nonce: Nonce,
    pub hashes: Vec<B256>,
}

/// Which nonces were used by what? Those from `from` on, up to the account's count (the latest, or the final one if that is higher)
/// as it is when the survey begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanRequest {
    pub from: Nonce,
    /// Nothing of it lies in this block or below, on a chain that has this block: it need not be read there. On another chain, or if
    /// it is `None`: as far down as a limit allows.
    pub above: Option<BlockRef>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignRequest {
    pub kind: AttemptKind,
    pub plan: TxPlan,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub nonce: Nonce,
    pub tx: SignedTx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    pub hash: B256,
    /// Where the ledger says that it was mined: to be compared with the canonical chain.
    pub known: Option<BlockRef>,
    /// May have been mined before anybody looked: to be asked for by its hash.
    pub look_up: bool,
}
