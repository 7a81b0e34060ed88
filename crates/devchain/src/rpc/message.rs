//! JSON-RPC 2.0 as geth implements it: requests, answers and error codes.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::{INVALID_PARAMS_CODE, RpcError, SERVER_ERROR_CODE};

pub(crate) const PARSE_ERROR_CODE: i64 = -32700;
pub(crate) const INVALID_REQUEST_CODE: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND_CODE: i64 = -32601;
/// The code for rate limits where no HTTP status exists (EIP-1474).
pub(crate) const LIMIT_EXCEEDED_CODE: i64 = -32005;

const VERSION: &str = "2.0";

/// A parsed request text.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    Single(Result<Request<'a>, InvalidRequest<'a>>),
    Batch(Vec<Result<Request<'a>, InvalidRequest<'a>>>),
}

/// A call that borrows from the request text. Without an id it is a notification, which gets no answer.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) id: Option<&'a RawValue>,
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Option<&'a RawValue>,
}

/// Valid JSON that is not a call, with the id for the answer.
#[derive(Debug)]
pub(crate) struct InvalidRequest<'a> {
    pub(crate) id: &'a RawValue,
}

/// The result of a method: serialised once, then copied.
pub(crate) type Answer = Box<RawValue>;

/// The reason why a request text cannot be parsed.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum MessageError {
    #[error("parse error")]
    Parse,
    #[error("empty batch")]
    EmptyBatch,
    /// The id is that of the first call in the batch. The answer uses it.
    #[error("batch too large")]
    BatchTooLarge { id: Box<RawValue> },
}

impl MessageError {
    pub(crate) fn to_text(&self) -> String {
        let failed = |id: &RawValue, code| failure(id, &RpcError::new(code, self.to_string()));
        match self {
            Self::Parse => failed(RawValue::NULL, PARSE_ERROR_CODE),
            Self::EmptyBatch => failed(RawValue::NULL, INVALID_REQUEST_CODE),
            Self::BatchTooLarge { id } => format!("[{}]", failed(id, INVALID_REQUEST_CODE)),
        }
    }
}

impl<'a> Incoming<'a> {
    pub(crate) fn parse(text: &'a [u8], max_batch: usize) -> Result<Self, MessageError> {
        if text.trim_ascii_start().first() != Some(&b'[') {
            let message = serde_json::from_slice(text).map_err(|_| MessageError::Parse)?;
            return Ok(Self::Single(Request::read(message)));
        }
        let messages: Vec<&RawValue> = serde_json::from_slice(text).map_err(|_| MessageError::Parse)?;
        if messages.is_empty() {
            return Err(MessageError::EmptyBatch);
        }
        if messages.len() > max_batch {
            let first = messages.into_iter().find_map(|message| Request::read(message).ok()?.id);
            return Err(MessageError::BatchTooLarge { id: first.unwrap_or(RawValue::NULL).to_owned() });
        }
        Ok(Self::Batch(messages.into_iter().map(Request::read).collect()))
    }
}

/// The fields of a call. Each may have any value or be missing.
#[derive(Deserialize)]
struct RequestFields<'a> {
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    params: Option<&'a RawValue>,
}

/// Distinguishes a `null` value from a missing field.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> Request<'a> {
    fn read(message: &'a RawValue) -> Result<Self, InvalidRequest<'a>> {
        let Ok(RequestFields { id, jsonrpc, method, params }) = serde_json::from_str(message.get()) else {
            return Err(InvalidRequest { id: RawValue::NULL });
        };
        // An id is a string, a number or null. An answer cannot carry any other id.
        let is_id = id.is_none_or(|id| !id.get().starts_with(['{', '[', 't', 'f']));
        let is_ours = jsonrpc.and_then(text_of).as_deref() == Some(VERSION);
        match method.and_then(text_of) {
            Some(method) if is_id && is_ours => Ok(Self { id, method, params }),
            _ => Err(InvalidRequest { id: id.filter(|_| is_id).unwrap_or(RawValue::NULL) }),
        }
    }
}

/// The content of a JSON string; `None` for other values. A string without escapes is borrowed.
pub(crate) fn text_of(value: &RawValue) -> Option<Cow<'_, str>> {
    let borrowed = serde_json::from_str::<&str>(value.get()).map(Cow::Borrowed);
    borrowed.or_else(|_| serde_json::from_str(value.get()).map(Cow::Owned)).ok()
}

/// Parses the arguments of a call.
pub(crate) fn read_params(params: Option<&RawValue>) -> Result<Value, RpcError> {
    let read = |params: &RawValue| serde_json::from_str(params.get());
    params.map_or(Ok(Value::Null), read).map_err(|error| RpcError::new(INVALID_PARAMS_CODE, error.to_string()))
}

/// Serialises a result. No result has map keys other than strings, so this does not fail.
pub(crate) fn answer(value: &impl Serialize) -> Result<Answer, RpcError> {
    to_raw_value(value).map_err(|error| RpcError::new(SERVER_ERROR_CODE, error.to_string()))
}

#[derive(Serialize)]
struct ErrorAnswer<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
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

pub(crate) fn success(id: &RawValue, result: &RawValue) -> String {
    let mut text = String::new();
    begin_success(&mut text, id);
    text.push_str(result.get());
    end_success(&mut text);
    text
}

/// Writes the part of an answer before the result. The caller then writes the result itself.
pub(crate) fn begin_success(text: &mut String, id: &RawValue) {
    text.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    text.push_str(id.get());
    text.push_str(",\"result\":");
}

pub(crate) fn end_success(text: &mut String) {
    text.push('}');
}

pub(crate) fn failure(id: &RawValue, error: &RpcError) -> String {
    let data = error.data.as_ref().map(ToString::to_string);
    to_text(&ErrorAnswer {
        jsonrpc: VERSION,
        id,
        error: ErrorObject { code: error.code, message: &error.message, data },
    })
}

pub(crate) fn invalid(invalid: &InvalidRequest<'_>) -> String {
    failure(invalid.id, &RpcError::new(INVALID_REQUEST_CODE, "invalid request"))
}

/// The text of a subscription notification.
pub(crate) fn notification(subscription: &str, result: &RawValue) -> String {
    to_text(&Notification {
        jsonrpc: VERSION,
        method: "eth_subscription",
        params: NotificationParams { subscription, result },
    })
}

fn to_text(message: &impl Serialize) -> String {
    // Structs of strings, numbers and JSON can always be serialised.
    serde_json::to_string(message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(text: &str) -> Result<Request<'_>, InvalidRequest<'_>> {
        match Incoming::parse(text.as_bytes(), 10) {
            Ok(Incoming::Single(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn request_notification_and_invalid_are_distinguished() {
        let call = single(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}"#).unwrap();
        assert_eq!((call.id.unwrap().get(), &*call.method), ("7", "m"));
        assert_eq!(single(r#"{"jsonrpc":"2.0","id":null,"method":"\u006d"}"#).unwrap().id.unwrap().get(), "null");
        assert_eq!(single(r#"{"jsonrpc":"2.0","method":"\u006d"}"#).unwrap().method, "m");
        assert!(single(r#"{"jsonrpc":"2.0","method":"m"}"#).unwrap().id.is_none());
        assert_eq!(single(r#"{"jsonrpc":"2.0","id":7}"#).unwrap_err().id.get(), "7");
        assert_eq!(single(r#"{"id":7,"method":"m"}"#).unwrap_err().id.get(), "7");
        assert_eq!(single(r#"{"jsonrpc":"2.0","id":[],"method":"m"}"#).unwrap_err().id.get(), "null");
        assert_eq!(single("3").unwrap_err().id.get(), "null");
    }

    #[test]
    fn malformed_text_or_batch_is_refused() {
        for text in [&b"{"[..], b"", b"[1,", b"{} {}", b"\xff"] {
            assert!(matches!(Incoming::parse(text, 2), Err(MessageError::Parse)), "{text:?}");
        }
        assert!(matches!(Incoming::parse(b" []", 2), Err(MessageError::EmptyBatch)));
        let batch = br#"[1,{"jsonrpc":"2.0","id":4,"method":"m"},3]"#;
        let too_large = Incoming::parse(batch, 2);
        assert!(matches!(&too_large, Err(MessageError::BatchTooLarge { id }) if id.get() == "4"), "{too_large:?}");
        assert!(matches!(Incoming::parse(b"[1,2]", 2), Ok(Incoming::Batch(messages)) if messages.len() == 2));
    }
}
