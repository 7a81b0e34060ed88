//! The rules of Gapless as plain values and pure functions: intents and their states, leases, lane commits, and the
//! lane that decides for one submitter.
//!
//! Architecture invariant: nothing in this crate is async, reads a clock, draws a random number or does I/O, and no
//! type derives serde. Time is passed in as [`Timestamp`] (the database's clock) or [`Tick`] (a node's own monotonic
//! clock). Stores and wire types convert at their own boundary.

mod action;
mod amount;
mod attempt;
mod audit;
mod backoff;
mod batch_size;
mod bidding;
mod block;
mod command;
mod confirmation;
#[cfg(feature = "conformance")]
mod conformance;
mod cursor;
mod event;
mod id;
mod intent;
mod intent_record;
mod lane;
mod lease;
pub mod ledger;
mod limits;
mod names;
mod nonce;
mod payload;
mod policy;
mod reservation;
mod rules;
mod signing;
mod slot;
mod snapshot;
mod state;
mod stuck;
mod tail;
mod text;
mod time;
mod transition;

pub use alloy_primitives::{B256, Bytes, U256, keccak256};

#[cfg(any(test, feature = "samples"))]
pub use action::samples;
pub use action::{
    AccessListItem, Action, ActionLimits, Address, Authorization, EvmCall, EvmLimits, Fees, RowFieldError, RowFields,
    RowValue, Work,
};
pub use amount::{Amount, AmountError};
pub use attempt::{
    Attempt, AttemptKind, EndpointAnswer, MempoolSignal, NewAttempt, SendOutcome, SendRecord, SendReport,
};
pub use audit::{AuditEntry, NewAudit};
pub use backoff::Backoff;
pub use batch_size::{BatchSize, TimedOut};
pub use block::{BlockLink, BlockRef, Execution, Inclusion};
pub use command::{Command, CommandId, CommandKind, CommandResult, CommandStatus, LostRule, NewCommand};
pub use confirmation::ConfirmationNotice;
pub use cursor::{Cursor, CursorChange, LaneState, ProtectCode, Protection};
pub use event::{Event, EventBody, EventKind, EventPosition, LaneEventKind};
pub use id::{ChainId, IdError, RequestId, SubmitterId, TxId};
pub use intent::{FieldError, Intent, IntentDraft, InvalidIntent, Metadata, Speed};
pub use intent_record::{Change, IntentRecord};
pub use lane::{
    AccountFacts, BindBlocker, ChainFacts, CommitOutcome, DiagnoseRequest, Effect, Fact, Lane, LaneLimits, LanePauses,
    LaneSetup, MinedTx, Outgoing, Peeked, PrepareFailure, PrepareKey, PrepareRequest, Prepared, ScanRequest,
    ScanResult, ScannedTx, SentTx, Sighting, SignFailure, SignRequest, Step, WatchRequest,
};
pub use lease::{FencingToken, Lapsed, Lease, LeaseTerms, OwnerId, Permit, Term};
pub use ledger::{CommitError, Conflict, LaneCommit, LaneLedger, SlotRecord};
pub use limits::Limits;
pub use nonce::{Nonce, NonceError};
pub use payload::{Payload, PayloadFingerprint, ReservationRequest};
pub use policy::{
    BumpPolicy, ConfirmationPolicy, ExternalNoncePolicy, FeePolicy, FundsPolicy, MempoolPolicy, NoncePolicy,
    OnShortage, PolicyError, ReleaseRule, ResubmitPolicy, StartFrom, StuckRule, SubmitterPolicy,
};
pub use reservation::{LockOwner, Reservation, ReservationStatus, ReservationStep};
pub use rules::{ChainRules, EvmRules, Words};
pub use signing::{Outline, SignedPlan, SignedTx, TxPlan};
pub use slot::{Claim, NewSlot, Slot, SlotKind};
pub use snapshot::LaneSnapshot;
pub use state::{
    Bound, CancelReason, Cancellation, FailReason, FinalFailure, Goal, Mined, Progress, Settled, StateName,
    StuckReason, SubStateName, TxState,
};
pub use stuck::{Decision, StuckAttempt, StuckCase};
pub use tail::{Head, Tail};
pub use text::{CommandReport, NodeText};
pub use time::{Tick, Timestamp};
pub use transition::{IllegalTransition, Transition, TransitionName, targets};
