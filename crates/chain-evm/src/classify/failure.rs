//! The failures of a request, as input of the classifier. Answers of the node and failures of the transport are
//! distinct.

/// The kind of a request. Only a call can revert; only a send can be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Send,
    /// Execution without sending: a call, an estimate, a trace.
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

/// A request without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFailure<'a> {
    /// A JSON-RPC error object. `data` is its data as text, `0x…` for a revert.
    Answer { code: Option<i64>, text: &'a str, data: Option<&'a str> },
    /// An HTTP status that is no success, with its body.
    Http { status: u16, body: &'a str },
    /// No answer in time. The request may have arrived.
    TimedOut,
    /// No connection, or a broken one. `text` is the error of the transport.
    Unreachable { text: &'a str },
}

impl<'a> NodeFailure<'a> {
    /// A failure from one code that is a JSON-RPC code or an HTTP status. JSON-RPC has no codes from 400 to 599, so
    /// they cannot be confused.
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
