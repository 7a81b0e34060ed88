//! Parameters and answers that several routes document alike. These types exist for the OpenAPI document only.

use gapless_wire::{CommandView, JsonNonce, Problem, TxCommandView};
use utoipa::{IntoParams, IntoResponses};

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documentation")]
pub(super) struct SubmitterPath {
    /// CAIP-10 id or alias
    submitter: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documentation")]
pub(super) struct ChainPath {
    /// CAIP-2 id, such as `eip155:1`
    chain: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documentation")]
pub(super) struct TxPath {
    /// The id in the answer to the request
    #[param(rename = "txId", format = "uuid")]
    tx_id: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "documentation")]
pub(super) struct NoncePath {
    /// The reserved nonce
    nonce: JsonNonce,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "documentation")]
pub(super) struct WaitQuery {
    /// Time to wait for the result, such as `500ms`, `30s` or `1m`. The server may grant less
    #[param(pattern = "^[0-9]{1,6}(ms|s|m)$")]
    wait: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "documentation")]
pub(super) struct PageParameters {
    /// Items per page
    #[param(minimum = 1)]
    limit: Option<u32>,
    /// `nextCursor` of the page before
    cursor: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "documentation")]
pub(super) struct TxReadQuery {
    /// The version that the caller knows
    version: Option<u32>,
    /// `attempts`: the nonce and every attempt, with the answer of each endpoint. `events`: the first 1000 events.
    /// `confirmations`: the linked blocks that begin with the transaction's own
    #[param(pattern = "^(attempts|events|confirmations)(,(attempts|events|confirmations))*$")]
    expand: Option<String>,
}

/// Answers to an operator's command.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "documentation")]
pub(super) enum CommandAnswers {
    /// Durable; the lane has not executed it yet
    #[response(status = 202)]
    Open(CommandView),
    /// Executed
    #[response(status = 200)]
    Done(CommandView),
    /// `unknown_submitter`
    #[response(status = 404)]
    UnknownSubmitter(Problem),
    /// `refused`: the caller waited, and the lane refused; `detail` has the reason
    #[response(status = 409)]
    Refused(Problem),
}

/// Answers to a replace or resubmit.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "documentation")]
pub(super) enum TxCommandAnswers {
    /// Durable; the lane has not executed it yet
    #[response(status = 202)]
    Open(TxCommandView),
    /// The lane has executed it, and the chain decides which attempt counts
    #[response(status = 200)]
    Done(TxCommandView),
    /// `tx_not_found`
    #[response(status = 404)]
    NotFound(Problem),
    /// `already_final`: the transaction has ended; `canceling`: it is being canceled and cannot be replaced;
    /// `signed_by_borrower`: its nonce is reserved, and only the caller can sign; `refused`: the caller waited, and the
    /// lane refused
    #[response(status = 409)]
    Refused(Problem),
}
