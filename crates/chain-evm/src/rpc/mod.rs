//! JSON-RPC over HTTP and WebSocket. It carries questions and answers and tells what went wrong on the road; what an answer
//! means is not its business.

mod frame;
mod http;
mod prompt;
mod tls;
mod websocket;

use std::time::Duration;

use gapless_chain::NodeFailure;
use gapless_secret::SecretUrl;
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use http::HttpRoad;
pub(crate) use tls::client_config;
pub(crate) use websocket::{HeadNews, WebSocketRoad};

/// An answer may be as large as all receipts of a full block, and not larger.
pub(crate) const MAX_ANSWER_BYTES: usize = 128 << 20;
/// Of an error's body only the beginning is of use.
pub(crate) const MAX_ERROR_BYTES: usize = 64 << 10;

/// One question.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    /// A node that cannot answer this is none the worse for it.
    pub(crate) optional: bool,
}

impl Call {
    pub(crate) fn new(method: &'static str, params: Value) -> Self {
        Call { method, params, optional: false }
    }

    /// For what many nodes do not have, or do not give everybody.
    pub(crate) fn optional(method: &'static str, params: Value) -> Self {
        Call { method, params, optional: true }
    }
}

/// What a question brought: JSON, `null` too.
pub(crate) type Reply = Result<Box<RawValue>, Fault>;

/// A question without a result. The owned form of [`NodeFailure`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Answer {
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
    /// More came than anybody reads. The node is there; the question was too large for it.
    TooLarge,
    /// Too much was under way with this endpoint already: it was not asked at all.
    NoPlace,
    /// A request before this one got no answer, so that this one was not made.
    NotAsked,
}

impl Fault {
    pub(crate) fn failure(&self) -> NodeFailure<'_> {
        match self {
            Fault::Answer { code, text, data } => NodeFailure::Answer { code: *code, text, data: data.as_deref() },
            Fault::Http { status, body, .. } => NodeFailure::Http { status: *status, body },
            Fault::TimedOut => NodeFailure::TimedOut,
            Fault::Unreachable { text } => NodeFailure::Unreachable { text },
            Fault::TooLarge => NodeFailure::Unreachable { text: "its answer has too many bytes" },
            Fault::NoPlace => NodeFailure::Unreachable { text: "all places for this endpoint are taken" },
            Fault::NotAsked => NodeFailure::Unreachable { text: "not asked: it gave no answer just before" },
        }
    }

    /// What came is no JSON-RPC. Whoever asked learns nothing, whatever the status says.
    pub(crate) fn unreadable(body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(body.get(..MAX_ERROR_BYTES).unwrap_or(body)).into_owned();
        Fault::Http { status: 200, body, retry_after: None }
    }

    pub(crate) fn unreachable(text: impl ToString) -> Self {
        Fault::Unreachable { text: text.to_string() }
    }

    /// The same without what the URL has of secrets.
    pub(crate) fn redacted(mut self, url: &SecretUrl) -> Self {
        match &mut self {
            Fault::Answer { text, data, .. } => {
                *text = url.redact(text);
                // What a call returned is no gateway's word, and must stay what it is.
                if let Some(words) = data.as_mut().filter(|data| !data.starts_with("0x")) {
                    *words = url.redact(words);
                }
            }
            Fault::Unreachable { text } => *text = url.redact(text),
            Fault::Http { body, .. } => *body = url.redact(body),
            Fault::TimedOut | Fault::TooLarge | Fault::NoPlace | Fault::NotAsked => {}
        }
        self
    }

    /// Nothing came back, and what is asked next would fare no better.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Fault::TimedOut | Fault::Unreachable { .. } | Fault::NoPlace | Fault::NotAsked)
    }
}

/// What became of several questions that went together.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// One reply each, in the order of the questions.
    Replies(Vec<Reply>),
    /// The node does not take (so many) questions at once; nothing was looked at.
    BatchRefused(Fault),
    /// None of them got an answer.
    Failed(Fault),
}

/// How questions travel.
#[derive(Debug)]
pub(crate) enum Road {
    Http(Box<HttpRoad>),
    WebSocket(WebSocketRoad),
}

impl Road {
    /// Never ends by itself when the node does not answer: the time-out is the caller's.
    pub(crate) async fn exchange(&self, calls: &[Call]) -> Exchange {
        match self {
            Road::Http(road) => road.exchange(calls).await,
            Road::WebSocket(road) => road.exchange(calls).await,
        }
    }
}
