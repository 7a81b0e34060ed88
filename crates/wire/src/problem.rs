//! Unsuccessful answers: RFC 9457, with a stable code.

use serde::{Deserialize, Serialize};

use crate::names::words;

words! {
    /// Stable codes of problems. Programs use the codes; titles and details are for people.
    ProblemCode {
        /// The body is not JSON.
        MalformedJson = "malformed_json",
        /// The URL or a header is not valid HTTP.
        MalformedRequest = "malformed_request",
        /// One or more fields cannot be accepted; `errors` names them.
        InvalidRequest = "invalid_request",
        /// Transactions with blobs (EIP-4844) are not sent.
        BlobsUnsupported = "blobs_unsupported",
        /// More items than one call may have.
        TooManyItems = "too_many_items",
        /// The call used a host name that is not this server's, or came from a web page of another origin.
        ForeignOrigin = "foreign_origin",
        /// No such path.
        NotFound = "not_found",
        TxNotFound = "tx_not_found",
        UnknownSubmitter = "unknown_submitter",
        CommandNotFound = "command_not_found",
        /// The chain is not in this node's config.
        UnknownChain = "unknown_chain",
        MethodNotAllowed = "method_not_allowed",
        /// The body did not arrive in time.
        BodyTimeout = "body_timeout",
        /// The request id belongs to another payload.
        RequestIdConflict = "request_id_conflict",
        /// The submitter accepts no new request until an operator has decided.
        SubmitterProtected = "submitter_protected",
        /// The lane refused the command and changed nothing; `detail` has the reason.
        Refused = "refused",
        /// The transaction has ended, which never changes.
        AlreadyFinal = "already_final",
        /// The transaction is being canceled and can no longer be replaced.
        Canceling = "canceling",
        /// The nonce is reserved by a caller who signs, so Gapless cannot sign another transaction for it.
        SignedByBorrower = "signed_by_borrower",
        /// The nonce is not, or no longer, reserved by this lock owner.
        ReservationLost = "reservation_lost",
        BodyTooLarge = "body_too_large",
        UnsupportedMediaType = "unsupported_media_type",
        TooManyRequests = "too_many_requests",
        /// Too many callers wait for changes.
        TooManyWaiters = "too_many_waiters",
        HeadersTooLarge = "headers_too_large",
        Internal = "internal",
        /// The database does not answer. Whether the request was accepted is unknown; repeat the same request to find
        /// out.
        StoreUnavailable = "store_unavailable",
        ShuttingDown = "shutting_down",
    }
}

impl ProblemCode {
    /// HTTP status of an answer with this code.
    pub const fn status(self) -> u16 {
        match self {
            ProblemCode::MalformedJson | ProblemCode::MalformedRequest => 400,
            ProblemCode::ForeignOrigin => 403,
            ProblemCode::NotFound
            | ProblemCode::TxNotFound
            | ProblemCode::UnknownSubmitter
            | ProblemCode::CommandNotFound
            | ProblemCode::UnknownChain => 404,
            ProblemCode::MethodNotAllowed => 405,
            ProblemCode::BodyTimeout => 408,
            ProblemCode::RequestIdConflict
            | ProblemCode::SubmitterProtected
            | ProblemCode::Refused
            | ProblemCode::AlreadyFinal
            | ProblemCode::Canceling
            | ProblemCode::SignedByBorrower
            | ProblemCode::ReservationLost => 409,
            ProblemCode::BodyTooLarge => 413,
            ProblemCode::UnsupportedMediaType => 415,
            ProblemCode::InvalidRequest | ProblemCode::BlobsUnsupported | ProblemCode::TooManyItems => 422,
            ProblemCode::TooManyRequests | ProblemCode::TooManyWaiters => 429,
            ProblemCode::HeadersTooLarge => 431,
            ProblemCode::Internal => 500,
            ProblemCode::StoreUnavailable | ProblemCode::ShuttingDown => 503,
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            ProblemCode::MalformedJson => "The body is not JSON",
            ProblemCode::MalformedRequest => "The request is malformed",
            ProblemCode::InvalidRequest => "The request cannot be accepted as it is",
            ProblemCode::BlobsUnsupported => "Transactions with blobs are not sent",
            ProblemCode::TooManyItems => "Too many items in one call",
            ProblemCode::ForeignOrigin => "Calls by this host name or from this origin are not taken",
            ProblemCode::NotFound => "There is nothing at this path",
            ProblemCode::TxNotFound => "There is no such transaction",
            ProblemCode::UnknownSubmitter => "There is no such submitter",
            ProblemCode::CommandNotFound => "There is no such command",
            ProblemCode::UnknownChain => "There is no such chain",
            ProblemCode::MethodNotAllowed => "This path does not know the method",
            ProblemCode::BodyTimeout => "The body did not arrive in time",
            ProblemCode::RequestIdConflict => "The request id stands for another payload",
            ProblemCode::SubmitterProtected => "The submitter is in PROTECT and takes nothing new",
            ProblemCode::Refused => "The lane has refused",
            ProblemCode::AlreadyFinal => "The transaction has ended already",
            ProblemCode::Canceling => "The transaction is being canceled",
            ProblemCode::SignedByBorrower => "The transaction is signed by whoever borrowed its nonce",
            ProblemCode::ReservationLost => "The nonce is not lent to this lock owner",
            ProblemCode::BodyTooLarge => "The body is too large",
            ProblemCode::UnsupportedMediaType => "The body must be application/json",
            ProblemCode::TooManyRequests => "Too many requests at once",
            ProblemCode::TooManyWaiters => "Too many callers wait for changes",
            ProblemCode::HeadersTooLarge => "The headers are too large",
            ProblemCode::Internal => "Something went wrong inside Gapless",
            ProblemCode::StoreUnavailable => "The database does not answer",
            ProblemCode::ShuttingDown => "This node is shutting down",
        }
    }
}

/// Media type `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// `urn:gapless:problem:` and the code.
    #[serde(rename = "type", default)]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// The stable code. A newer server may have codes that this client does not know.
    #[cfg_attr(feature = "schema", schema(value_type = ProblemCode))]
    pub code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldFault>,
    /// Seconds after which a retry makes sense; equal to the header `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// Id of the transaction that holds the request id or the nonce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_id: Option<String>,
    /// Id of the refused command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
}

/// Codes as Ethereum's JSON-RPC and the usual libraries write them.
const BLOB_FIELDS: [&str; 7] =
    ["blobs", "blobVersionedHashes", "maxFeePerBlobGas", "sidecar", "sidecars", "commitments", "proofs"];

words! {
    /// The part of the request that a pointer refers to.
    FieldPlace {
        Body = "body",
        Query = "query",
        Path = "path",
        Header = "header",
    }
}

/// One field that cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FieldFault {
    #[serde(rename = "in")]
    pub place: FieldPlace,
    /// A JSON pointer into the body, or `/` and the name of the parameter or header.
    pub pointer: String,
    pub message: String,
}

impl FieldFault {
    pub fn body(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        FieldFault { place: FieldPlace::Body, pointer: pointer.into(), message: message.into() }
    }

    pub fn query(name: &str, message: impl Into<String>) -> Self {
        FieldFault { place: FieldPlace::Query, pointer: format!("/{name}"), message: message.into() }
    }

    pub fn path(name: &str, message: impl Into<String>) -> Self {
        FieldFault { place: FieldPlace::Path, pointer: format!("/{name}"), message: message.into() }
    }

    pub fn header(name: &str, message: impl Into<String>) -> Self {
        FieldFault { place: FieldPlace::Header, pointer: format!("/{name}"), message: message.into() }
    }
}

impl Problem {
    pub fn new(code: ProblemCode) -> Self {
        Problem {
            kind: format!("urn:gapless:problem:{code}"),
            title: code.title().to_owned(),
            status: code.status(),
            code: code.as_str().to_owned(),
            detail: None,
            errors: Vec::new(),
            retry_after: None,
            tx_id: None,
            command_id: None,
        }
    }

    /// A body of another shape than expected. Fields of blobs (EIP-4844) have a code of their own, because they are not
    /// a typing mistake.
    pub fn shape(fault: FieldFault) -> Self {
        let field = fault.pointer.rsplit('/').next().unwrap_or_default();
        let is_blob = BLOB_FIELDS.contains(&field);
        let code = if is_blob { ProblemCode::BlobsUnsupported } else { ProblemCode::InvalidRequest };
        Problem { errors: vec![fault], ..Problem::new(code) }
    }

    pub fn invalid(errors: Vec<FieldFault>) -> Self {
        Problem { errors, ..Problem::new(ProblemCode::InvalidRequest) }
    }

    pub fn detail(self, detail: impl Into<String>) -> Self {
        Problem { detail: Some(detail.into()), ..self }
    }

    pub fn retry_after(self, seconds: u64) -> Self {
        Problem { retry_after: Some(seconds), ..self }
    }

    /// The code, if this version knows it.
    pub fn known_code(&self) -> Option<ProblemCode> {
        ProblemCode::parse(&self.code)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.title, self.code)?;
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        for fault in &self.errors {
            write!(f, "; {} {}: {}", fault.place, fault.pointer, fault.message)?;
        }
        Ok(())
    }
}
