//! JSON-RPC over HTTP and WebSocket (docs/adr/0013-rpc-client.md). This module carries calls and replies and reports
//! transport failures. It does not judge the content of a reply.

mod frame;
mod http;
mod quick_ack;
mod tls;
mod websocket;

use std::time::Duration;

use gapless_secret::SecretUrl;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::classify::NodeFailure;

pub(crate) use http::HttpTransport;
pub(crate) use tls::client_config;
pub(crate) use websocket::{HeadListener, WebSocketTransport};

/// The limit for one response. All receipts of a full block fit into it.
pub(crate) const MAX_RESPONSE_BYTES: usize = 128 << 20;
/// The limit for the body of an HTTP error, of which only the beginning is useful.
pub(crate) const MAX_ERROR_BYTES: usize = 64 << 10;

/// One JSON-RPC call.
#[derive(Clone, Debug)]
pub(crate) struct RpcCall {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    /// A failure of this call does not count against the endpoint's health.
    pub(crate) optional: bool,
}

impl RpcCall {
    pub(crate) fn new(method: &'static str, params: Value) -> Self {
        RpcCall { method, params, optional: false }
    }

    /// A call of a method that many nodes lack or restrict.
    pub(crate) fn optional(method: &'static str, params: Value) -> Self {
        RpcCall { method, params, optional: true }
    }
}

/// The result of one call: JSON, which may be `null`.
pub(crate) type Reply = Result<Box<RawValue>, RpcFailure>;

/// A call without a result. The owned form of [`NodeFailure`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RpcFailure {
    /// A JSON-RPC error object.
    ErrorObject {
        code: Option<i64>,
        text: String,
        data: Option<String>,
    },
    Http {
        status: u16,
        body: String,
        retry_after: Option<Duration>,
    },
    TimedOut,
    Unreachable {
        text: String,
    },
    /// The response exceeds [`MAX_RESPONSE_BYTES`]. The node is up; the request asked for too much.
    TooLarge,
    /// The limit of requests in flight is reached. The call was not sent.
    Saturated,
    /// An earlier request of the same series got no answer. The call was not sent.
    NotSent,
}

impl RpcFailure {
    pub(crate) fn as_node_failure(&self) -> NodeFailure<'_> {
        match self {
            RpcFailure::ErrorObject { code, text, data } => {
                NodeFailure::Answer { code: *code, text, data: data.as_deref() }
            }
            RpcFailure::Http { status, body, .. } => NodeFailure::Http { status: *status, body },
            RpcFailure::TimedOut => NodeFailure::TimedOut,
            RpcFailure::Unreachable { text } => NodeFailure::Unreachable { text },
            RpcFailure::TooLarge => NodeFailure::Unreachable { text: "the response is too large" },
            RpcFailure::Saturated => {
                NodeFailure::Unreachable { text: "all requests that may be in flight to this endpoint are in flight" }
            }
            RpcFailure::NotSent => NodeFailure::Unreachable { text: "not sent: the request before got no answer" },
        }
    }

    /// A response that is not JSON-RPC. It proves nothing, whatever its HTTP status was.
    pub(crate) fn unreadable(body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(body.get(..MAX_ERROR_BYTES).unwrap_or(body)).into_owned();
        RpcFailure::Http { status: 200, body, retry_after: None }
    }

    pub(crate) fn unreachable(text: impl ToString) -> Self {
        RpcFailure::Unreachable { text: text.to_string() }
    }

    /// This failure without the secrets of the URL.
    pub(crate) fn redacted(mut self, url: &SecretUrl) -> Self {
        match &mut self {
            RpcFailure::ErrorObject { text, data, .. } => {
                *text = url.redact(text);
                // Hex data is the return value of a call and has to stay exact.
                if let Some(words) = data.as_mut().filter(|data| !data.starts_with("0x")) {
                    *words = url.redact(words);
                }
            }
            RpcFailure::Unreachable { text } => *text = url.redact(text),
            RpcFailure::Http { body, .. } => *body = url.redact(body),
            RpcFailure::TimedOut | RpcFailure::TooLarge | RpcFailure::Saturated | RpcFailure::NotSent => {}
        }
        self
    }

    /// The node gave no answer. The next request would probably get none either.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(
            self,
            RpcFailure::TimedOut | RpcFailure::Unreachable { .. } | RpcFailure::Saturated | RpcFailure::NotSent
        )
    }
}

/// The outcome of several calls that were sent together.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// One reply for each call, in the order of the calls.
    Replies(Vec<Reply>),
    /// The node does not take batches, or not of this size. No call was executed.
    BatchRefused(RpcFailure),
    /// No call got an answer.
    Failed(RpcFailure),
}

#[derive(Debug)]
pub(crate) enum Transport {
    Http(Box<HttpTransport>),
    WebSocket(WebSocketTransport),
}

impl Transport {
    /// Sends calls and waits for their replies. The caller sets the time-out: this never ends while the node is silent.
    pub(crate) async fn exchange(&self, calls: &[RpcCall]) -> Exchange {
        match self {
            Transport::Http(transport) => transport.exchange(calls).await,
            Transport::WebSocket(transport) => transport.exchange(calls).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::{Classifier, Method, Overrides};
    use gapless_chain::Reason;

    #[test]
    fn own_failures_are_classified_as_unreachable() {
        let classifier = Classifier::new(Overrides::default()).unwrap();
        for failure in [RpcFailure::TooLarge, RpcFailure::Saturated, RpcFailure::NotSent] {
            for method in [Method::Send, Method::Call, Method::Other] {
                let classified = classifier.classify(None, method, &failure.as_node_failure());
                assert_eq!(classified.reason, Reason::Unreachable, "{failure:?}");
            }
        }
        let missing = frame::missing_reply();
        let classified = classifier.classify(None, Method::Send, &missing.as_node_failure());
        assert_eq!(classified.reason, Reason::Unrecognized);
    }
}
