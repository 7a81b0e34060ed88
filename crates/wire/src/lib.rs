//! What travels between Gapless and its callers: request and response types, and the HTTP client.
//!
//! - [`TxRequest`] is what a caller hands in; [`TxRequest::read`] turns it into domain values, and tells everything that is
//!   wrong with it at once, each fault with its JSON pointer.
//! - [`TxView`], [`SubmitterView`], [`ChainView`], [`CommandView`], [`AuditView`] are what a caller gets to see.
//! - [`ReserveRequest`] and its neighbours are the low-level API: nonces for callers who sign by themselves.
//! - [`StuckCaseView`] is what a webhook is asked that decides about what is stuck, and [`StuckAnswer`] what it says.
//! - [`Problem`] is every answer that is not a success (RFC 9457), with a stable [`ProblemCode`].
//! - `Client` (feature `client`) calls every route; `Client::with_nonce` is the safe way to a nonce of one's own.
//!
//! JSON is camelCase, amounts are decimal strings or 0x-hex, times are RFC 3339.
//!
//! Architecture invariant: nothing in here decides anything about a transaction or keeps state, and no type carries a
//! nonce unless it was asked for. The domain has no serde; this is one of the edges where values are converted.

mod attempt;
mod audit;
mod batch;
mod chain;
#[cfg(feature = "client")]
mod client;
mod command;
mod confirmation;
mod health;
mod json;
mod moment;
mod names;
mod page;
mod payload;
mod problem;
mod quantity;
mod reason;
mod request;
mod reservation;
mod slot;
mod store;
mod stuck;
mod submitter;
mod tx;
mod wait;

pub use attempt::{AttemptView, HeardView, OutcomeView, SendView};
pub use audit::AuditView;
pub use batch::{BatchItem, BatchRequest, BatchResult};
pub use chain::{AcceptChainRequest, BlockView, ChainAccepted, ChainTroubleView, ChainView, EndpointView, HeadView};
#[cfg(feature = "client")]
pub use client::{
    AuditQuery, Client, ClientError, ListQuery, NonceContext, NonceFate, NonceOptions, PageQuery, TxQuery,
    WithNonceError,
};
pub use command::{
    CancelPendingView, CancelView, CommandState, CommandView, ReplaceRequest, ResubmitRequest, ResyncRequest,
    TxCommandName, TxCommandView,
};
pub use confirmation::{ConfirmationNoticeView, ConfirmationView};
pub use health::HealthView;
pub use json::{JsonError, from_json};
pub use moment::{moment_from_text, moment_to_text};
pub use names::{
    AttemptKindName, EndpointStandingName, FinalityName, LaneStateName, LostRuleName, MempoolSignalName, ReceiptStatus,
    Speed, StoreDeclarationName, SubStateName, TxEventName, TxStateName,
};
pub use page::Page;
pub use payload::{AccessListItem, Authorization, CallPayload, FeesPayload};
pub use problem::{FieldFault, FieldPlace, Problem, ProblemCode};
pub use quantity::Quantity;
pub use request::{RequestParts, SubmitterRef, SubmitterRefError, TxRequest};
pub use reservation::{
    MAX_RAW_BYTES, ReleaseRequest, ReservationResult, ReservationView, ReserveParts, ReserveRequest, SubmitRequest,
};
pub use slot::{ReservationState, SlotKindName, SlotReservationView, SlotView};
pub use store::{DeclareRequest, StoreDeclared};
pub use stuck::{StuckAnswer, StuckAttemptView, StuckCaseView};
pub use submitter::{
    LeaseView, LowestUnminedView, NoncesView, ProtectView, SubmitterExpand, SubmitterView, WindowView, protect_message,
};
pub use tx::{ReasonView, ReceiptView, RevertView, TxAccepted, TxEventView, TxExpand, TxView};
pub use wait::{WaitError, parse_wait};
