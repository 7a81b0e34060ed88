//! What can go wrong with a request, as the classifier takes it: the node's own word is kept apart from the road to it.

/// What was asked. Only a call can revert; only a send can be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Send,
    /// Something that executes without sending: a call, an estimate, a trace.
    Call,
    Other,
}

impl Method {
    pub fn of(rpc_method: &str) -> Self {
        let name = rpc_method.to_ascii_lowercase();
        if name.contains("send") {
            Method::Send
        } else if name.contains("call") || name.contains("estimate") || name.contains("createaccesslist") {
            Method::Call
        } else {
            Method::Other
        }
    }
}

/// A request that brought no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFailure<'a> {
    /// A JSON-RPC error object. `data` is its data as text, `0x…` for a revert.
    Answer { code: Option<i64>, text: &'a str, data: Option<&'a str> },
    /// An HTTP status that is no success, with whatever stood in the body.
    Http { status: u16, body: &'a str },
    /// No answer in time. The bytes may have arrived.
    TimedOut,
    /// Refused, reset, unresolved: there was no connection, or it broke. `text` is what the transport said.
    Unreachable { text: &'a str },
}

impl<'a> NodeFailure<'a> {
    /// From what a library or a log gives: one code that may be either a JSON-RPC code or an HTTP status. JSON-RPC has no
    /// codes from 400 to 599, so the two cannot be confused.
    pub fn from_code(code: Option<i64>, text: &'a str) -> Self {
        match code.and_then(|code| u16::try_from(code).ok()) {
            Some(status @ 400..=599) => NodeFailure::Http { status, body: text },
            _ => NodeFailure::Answer { code, text, data: None },
        }
    }

    pub(crate) fn text(&self) -> &'a str {
        match *self {
            NodeFailure::Answer { text, .. } | NodeFailure::Unreachable { text } => text,
            NodeFailure::Http { body, .. } => body,
            NodeFailure::TimedOut => "",
        }
    }
}
