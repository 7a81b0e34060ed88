//! JSON-RPC 2.0 as geth speaks it: what comes in, what goes out, and which error has which code.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::{RpcError, SERVER_ERROR_CODE};

pub(crate) const PARSE_ERROR_CODE: i64 = -32700;
pub(crate) const INVALID_REQUEST_CODE: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND_CODE: i64 = -32601;
/// What rate limits are answered with where there is no HTTP status to say it with (EIP-1474).
pub(crate) const LIMIT_EXCEEDED_CODE: i64 = -32005;

const VERSION: &str = "2.0";

/// A JSON text that came in.
#[derive(Debug)]
pub(crate) enum Incoming {
    Single(Result<Request, Invalid>),
    Batch(Vec<Result<Request, Invalid>>),
}

/// A call. Without an id it is a notification, and nobody waits for an answer.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: Option<Value>,
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// What is JSON but no call, with the id to answer it under.
#[derive(Debug)]
pub(crate) struct Invalid {
    pub(crate) id: Value,
}

/// What a method gives back: JSON that is written once and copied from then on.
pub(crate) type Answer = Box<RawValue>;

/// Why a text is not even taken apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MessageError {
    #[error("parse error")]
    Parse,
    #[error("empty batch")]
    EmptyBatch,
    /// With the id of the first call in it, under which it is answered.
    #[error("batch too large")]
    BatchTooLarge { id: Value },
}

impl MessageError {
    pub(crate) fn to_text(&self) -> String {
        let failed = |id: &Value, code| failure(id, &RpcError::new(code, self.to_string()));
        match self {
            Self::Parse => failed(&Value::Null, PARSE_ERROR_CODE),
            Self::EmptyBatch => failed(&Value::Null, INVALID_REQUEST_CODE),
            Self::BatchTooLarge { id } => format!("[{}]", failed(id, INVALID_REQUEST_CODE)),
        }
    }
}

impl Incoming {
    pub(crate) fn parse(text: &[u8], max_batch: usize) -> Result<Self, MessageError> {
        match serde_json::from_slice(text).map_err(|_| MessageError::Parse)? {
            Value::Array(messages) if messages.is_empty() => Err(MessageError::EmptyBatch),
            Value::Array(messages) if messages.len() > max_batch => {
                let first = messages.into_iter().find_map(|message| Request::read(message).ok()?.id);
                Err(MessageError::BatchTooLarge { id: first.unwrap_or_default() })
            }
            Value::Array(messages) => Ok(Self::Batch(messages.into_iter().map(Request::read).collect())),
            message => Ok(Self::Single(Request::read(message))),
        }
    }
}

impl Request {
    fn read(message: Value) -> Result<Self, Invalid> {
        let Value::Object(mut fields) = message else { return Err(Invalid { id: Value::Null }) };
        let id = fields.remove("id");
        // An id is a string, a number or null; anything else cannot be answered under it.
        let is_id = id.as_ref().is_none_or(|id| !id.is_object() && !id.is_array() && !id.is_boolean());
        let is_ours = fields.get("jsonrpc").and_then(Value::as_str) == Some(VERSION);
        match fields.remove("method") {
            Some(Value::String(method)) if is_id && is_ours => {
                Ok(Self { id, method, params: fields.remove("params").unwrap_or(Value::Null) })
            }
            _ => Err(Invalid { id: id.filter(|_| is_id).unwrap_or(Value::Null) }),
        }
    }
}

/// Turns a value into an answer. Nothing that we answer with has keys that are no strings, so this does not fail.
pub(crate) fn answer(value: &impl Serialize) -> Result<Answer, RpcError> {
    to_raw_value(value).map_err(|error| RpcError::new(SERVER_ERROR_CODE, error.to_string()))
}

#[derive(Serialize)]
struct Success<'a> {
    jsonrpc: &'static str,
    id: &'a Value,
    result: &'a RawValue,
}

#[derive(Serialize)]
struct Failure<'a> {
    jsonrpc: &'static str,
    id: &'a Value,
    error: ErrorObject<'a>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    code: i64,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
}

#[derive(Serialize)]
struct Notification<'a> {
    jsonrpc: &'static str,
    method: &'static str,
    params: NotificationParams<'a>,
}

#[derive(Serialize)]
struct NotificationParams<'a> {
    subscription: &'a str,
    result: &'a RawValue,
}

pub(crate) fn success(id: &Value, result: &RawValue) -> String {
    to_text(&Success { jsonrpc: VERSION, id, result })
}

pub(crate) fn failure(id: &Value, error: &RpcError) -> String {
    let data = error.data.as_ref().map(ToString::to_string);
    to_text(&Failure { jsonrpc: VERSION, id, error: ErrorObject { code: error.code, message: &error.message, data } })
}

pub(crate) fn invalid(invalid: &Invalid) -> String {
    failure(&invalid.id, &RpcError::new(INVALID_REQUEST_CODE, "invalid request"))
}

/// What a subscriber hears.
pub(crate) fn notification(subscription: &str, result: &RawValue) -> String {
    to_text(&Notification {
        jsonrpc: VERSION,
        method: "eth_subscription",
        params: NotificationParams { subscription, result },
    })
}

fn to_text(message: &impl Serialize) -> String {
    // Structs of strings, numbers and JSON always have a text.
    serde_json::to_string(message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(text: &str) -> Result<Request, Invalid> {
        match Incoming::parse(text.as_bytes(), 10) {
            Ok(Incoming::Single(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn calls_notifications_and_nonsense_are_told_apart() {
        let call = single(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}"#).unwrap();
        assert_eq!((call.id, call.method.as_str()), (Some(Value::from(7)), "m"));
        assert!(single(r#"{"jsonrpc":"2.0","method":"m"}"#).unwrap().id.is_none());
        assert_eq!(single(r#"{"jsonrpc":"2.0","id":7}"#).unwrap_err().id, Value::from(7));
        assert_eq!(single(r#"{"id":7,"method":"m"}"#).unwrap_err().id, Value::from(7));
        assert_eq!(single(r#"{"jsonrpc":"2.0","id":[],"method":"m"}"#).unwrap_err().id, Value::Null);
        assert_eq!(single("3").unwrap_err().id, Value::Null);
    }

    #[test]
    fn what_is_no_json_or_no_batch_is_refused_as_a_whole() {
        assert_eq!(Incoming::parse(b"{", 2).unwrap_err(), MessageError::Parse);
        assert_eq!(Incoming::parse(b"[]", 2).unwrap_err(), MessageError::EmptyBatch);
        let batch = br#"[1,{"jsonrpc":"2.0","id":4,"method":"m"},3]"#;
        assert_eq!(Incoming::parse(batch, 2).unwrap_err(), MessageError::BatchTooLarge { id: Value::from(4) });
        assert!(matches!(Incoming::parse(b"[1,2]", 2), Ok(Incoming::Batch(messages)) if messages.len() == 2));
    }
}
