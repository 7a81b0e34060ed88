//! Request and response types of the API, and the HTTP client.
//!
//! - [`TxRequest`] is a caller's request; [`TxRequest::read`] turns it into domain values and reports all faults at
//!   once, each with its JSON pointer.
//! - [`TxView`], [`SubmitterView`], [`ChainView`], [`CommandView`], [`AuditView`] are the views of callers and
//!   operators.
//! - [`ReserveRequest`] and its neighbours are the low-level API: nonces for callers who sign.
//! - [`StuckCaseView`] is the question to the stuck webhook, [`StuckAnswer`] its answer.
//! - [`Problem`] is every unsuccessful answer (RFC 9457), with a stable [`ProblemCode`].
//! - `Client` (feature `client`) calls every route; `Client::with_nonce` is the safe way to use a reservation.
//!
//! JSON is camelCase, amounts are decimal strings or 0x-hex, times are RFC 3339.
//!
//! Architecture invariant: no code here decides anything about a transaction or keeps state, and no type carries a
//! nonce unless the caller asked for it. The domain has no serde; this crate converts at the edge.

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
mod nonce;
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
pub use nonce::JsonNonce;
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
pub use wait::{WaitError, parse_duration, parse_wait};
