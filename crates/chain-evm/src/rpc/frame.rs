//! JSON-RPC 2.0 messages.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Exchange, Reply, RpcCall, RpcFailure};

/// The body of a request. A single call is no batch, so that nodes without batches take it too.
pub(super) fn encode(calls: &[RpcCall]) -> Vec<u8> {
    let bodies: Vec<Value> =
        calls.iter().zip(0_u64..).map(|(call, id)| request(id, call.method, &call.params)).collect();
    match bodies.as_slice() {
        [one] => one.to_string().into_bytes(),
        many => json!(many).to_string().into_bytes(),
    }
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[derive(Deserialize)]
pub(super) struct Response<'a> {
    #[serde(default)]
    pub(super) id: Option<Value>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<ErrorObject>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ErrorObject {
    Object {
        #[serde(default)]
        code: Option<i64>,
        #[serde(default)]
        message: Option<String>,
        #[serde(default)]
        data: Option<Value>,
    },
    /// Some gateways return a plain text instead of an object.
    Other(Value),
}

impl Response<'_> {
    /// The id of the request. Some nodes and proxies return it as a text.
    pub(super) fn number(&self) -> Option<u64> {
        match self.id.as_ref()? {
            Value::String(text) => text.parse().ok(),
            id => id.as_u64(),
        }
    }

    pub(super) fn into_reply(self) -> Reply {
        match self.error {
            None => Ok(match self.result {
                Some(result) => result.to_owned(),
                None => RawValue::NULL.to_owned(),
            }),
            Some(ErrorObject::Object { code, message, data }) => Err(failure(code, message, data)),
            Some(ErrorObject::Other(value)) => Err(failure(None, Some(text_of(&value)), None)),
        }
    }
}

/// Reads an error object. The useful text is in the message, in the data, or in both ("VM execution error." / "Reverted
/// 0x…"). Hex data is the return value of a call; other data is appended to the text.
fn failure(code: Option<i64>, message: Option<String>, data: Option<Value>) -> RpcFailure {
    let mut text = message.unwrap_or_default();
    let data = match data {
        None | Some(Value::Null) => None,
        // Some nodes nest the returned bytes.
        Some(Value::Object(object)) if object.get("data").is_some_and(Value::is_string) => {
            object.get("data").map(text_of)
        }
        Some(value) => Some(text_of(&value)),
    };
    if let Some(more) = data.as_deref().filter(|data| !data.starts_with("0x") && !data.is_empty()) {
        text = if text.is_empty() { more.to_owned() } else { format!("{text}: {more}") };
    }
    RpcFailure::ErrorObject { code, text, data }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads the response to `count` calls that were sent together.
pub(super) fn decode(body: &[u8], count: usize) -> Exchange {
    if body.trim_ascii_start().first() == Some(&b'[') {
        return match serde_json::from_slice::<Vec<Response<'_>>>(body) {
            Ok(responses) => match_responses(responses, count),
            Err(_) => Exchange::Failed(RpcFailure::unreadable(body)),
        };
    }
    match serde_json::from_slice::<Response<'_>>(body) {
        Ok(response)
            if count == 1 && (response.result.is_some() || response.error.is_some() || response.id.is_some()) =>
        {
            Exchange::Replies(vec![response.into_reply()])
        }
        Ok(response) => match response.into_reply() {
            Err(failure) if refuses_batches(&failure) => Exchange::BatchRefused(failure),
            Err(failure) => Exchange::Failed(failure),
            Ok(_) => Exchange::Failed(RpcFailure::unreadable(body)),
        },
        Err(_) => Exchange::Failed(RpcFailure::unreadable(body)),
    }
}

/// Assigns the responses of a batch to its calls by id. Responses come in any order; one with a foreign id is dropped.
fn match_responses(responses: Vec<Response<'_>>, count: usize) -> Exchange {
    let mut replies: Vec<Option<Reply>> = std::iter::repeat_with(|| None).take(count).collect();
    let mut unmatched = Vec::new();
    let mut duplicates = BTreeSet::new();
    for response in responses {
        let index = response.number().and_then(|id| usize::try_from(id).ok());
        match index.and_then(|index| replies.get_mut(index)) {
            Some(reply) if reply.is_some() => duplicates.extend(index),
            Some(reply) => *reply = Some(response.into_reply()),
            None => unmatched.push(response.into_reply()),
        }
    }
    if replies.iter().all(Option::is_none)
        && let Some(Err(failure)) = unmatched.into_iter().find(Result::is_err)
    {
        // Geth refuses a batch that is too large by an array with one error without an id.
        return if count > 1 && refuses_batches(&failure) {
            Exchange::BatchRefused(failure)
        } else {
            Exchange::Failed(failure)
        };
    }
    // Two responses with one id contradict each other: neither is used.
    let reply_of = |(index, reply): (usize, Option<Reply>)| {
        reply.filter(|_| !duplicates.contains(&index)).unwrap_or_else(|| Err(missing_reply()))
    };
    Exchange::Replies(replies.into_iter().enumerate().map(reply_of).collect())
}

/// The failure of a call for which the response to its batch has no answer.
pub(super) fn missing_reply() -> RpcFailure {
    RpcFailure::ErrorObject { code: None, text: "the response to the batch lacks this call".to_owned(), data: None }
}

/// Whether one error for several calls is about the batch itself: it calls the request malformed or names the batch.
/// The errors of a busy node do neither.
pub(super) fn refuses_batches(failure: &RpcFailure) -> bool {
    match failure {
        RpcFailure::ErrorObject { code: Some(-32600 | -32601 | -32602 | -32700), .. } => true,
        RpcFailure::ErrorObject { text, .. } => text.to_ascii_lowercase().contains("batch"),
        RpcFailure::Http { status, .. } => matches!(status, 400 | 405 | 413 | 415 | 422 | 501),
        // A smaller batch has a smaller response.
        RpcFailure::TooLarge => true,
        RpcFailure::TimedOut | RpcFailure::Unreachable { .. } | RpcFailure::Saturated | RpcFailure::NotSent => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(body: &str, count: usize) -> Vec<Reply> {
        match decode(body.as_bytes(), count) {
            Exchange::Replies(replies) => replies,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn responses_are_matched_to_calls_by_id() {
        let error = r#"{"code":-32000,"message":"nonce too low"}"#;
        let body = format!(r#" [{{"id":1,"result":"0xb"}},{{"id":0,"error":{error}}},{{"id":9,"result":1}}]"#);
        let replies = replies(&body, 3);
        let failure = RpcFailure::ErrorObject { code: Some(-32000), text: "nonce too low".to_owned(), data: None };
        assert_eq!(replies[0].as_ref().unwrap_err(), &failure);
        assert_eq!(replies[1].as_ref().unwrap().get(), "\"0xb\"");
        assert!(replies[2].is_err(), "a missing response is not null");
    }

    #[test]
    fn duplicate_responses_are_a_failure() {
        let body = r#"[{"id":0,"result":"0xa"},{"id":1,"result":"0xb"},{"id":0,"result":"0xc"}]"#;
        let replies = replies(body, 2);
        assert!(replies[0].is_err());
        assert_eq!(replies[1].as_ref().unwrap().get(), "\"0xb\"");
    }

    #[test]
    fn id_returned_as_text_is_matched() {
        let error = r#"{"code":-32000,"message":"nonce too low"}"#;
        let body = format!(r#"[{{"id":"1","result":"0xb"}},{{"id":"0","error":{error}}},{{"id":"x","result":1}}]"#);
        let replies = replies(&body, 3);
        assert!(matches!(&replies[0], Err(RpcFailure::ErrorObject { text, .. }) if text == "nonce too low"));
        assert_eq!(replies[1].as_ref().unwrap().get(), "\"0xb\"");
        assert!(replies[2].is_err());
    }

    #[test]
    fn null_is_a_result_and_garbage_is_a_failure() {
        assert_eq!(replies(r#"{"jsonrpc":"2.0","id":0,"result":null}"#, 1)[0].as_ref().unwrap().get(), "null");
        for body in ["", "<html>", "[{]", "{}", "[1]", "\"0x1\""] {
            assert!(
                matches!(decode(body.as_bytes(), 1), Exchange::Failed(RpcFailure::Http { status: 200, .. })),
                "{body}"
            );
        }
    }

    #[test]
    fn refused_batch_differs_from_busy_node() {
        let refused = [
            r#"{"id":null,"error":{"code":-32600,"message":"invalid request"}}"#,
            r#"[{"id":null,"error":{"code":-32000,"message":"batch too large"}}]"#,
            r#"{"error":{"code":-32005,"message":"Batch size is limited to 10"}}"#,
        ];
        for body in refused {
            assert!(matches!(decode(body.as_bytes(), 2), Exchange::BatchRefused(_)), "{body}");
        }
        let busy = r#"{"id":null,"error":{"code":-32005,"message":"too many requests"}}"#;
        assert!(matches!(decode(busy.as_bytes(), 2), Exchange::Failed(RpcFailure::ErrorObject { .. })));
    }

    #[test]
    fn error_data_is_kept() {
        let reply = |error: &str| replies(&format!(r#"{{"id":0,"error":{error}}}"#), 1).remove(0).unwrap_err();
        let with = |text: &str, data: Option<&str>| RpcFailure::ErrorObject {
            code: Some(3),
            text: text.to_owned(),
            data: data.map(str::to_owned),
        };
        assert_eq!(reply(r#"{"code":3,"message":"m","data":"0x08"}"#), with("m", Some("0x08")));
        assert_eq!(reply(r#"{"code":3,"message":"m","data":{"data":"0x08"}}"#), with("m", Some("0x08")));
        assert_eq!(reply(r#"{"code":3,"message":"m","data":"why"}"#), with("m: why", Some("why")));
        assert_eq!(
            reply(r#""just text""#),
            RpcFailure::ErrorObject { code: None, text: "just text".to_owned(), data: None }
        );
    }

    #[test]
    fn single_call_is_encoded_without_brackets() {
        let call = RpcCall::new("eth_chainId", json!([]));
        assert_eq!(encode(std::slice::from_ref(&call)).first(), Some(&b'{'));
        assert_eq!(encode(&[call.clone(), call]).first(), Some(&b'['));
    }
}
