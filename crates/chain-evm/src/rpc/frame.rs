//! JSON-RPC 2.0 as text.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Call, Exchange, Fault, Reply};

/// One call alone goes without the brackets: nodes that know no batches take it too.
pub(super) fn encode(calls: &[Call]) -> Vec<u8> {
    let bodies: Vec<Value> =
        calls.iter().zip(0_u64..).map(|(call, id)| question(id, call.method, &call.params)).collect();
    match bodies.as_slice() {
        [one] => one.to_string().into_bytes(),
        many => json!(many).to_string().into_bytes(),
    }
}

pub(super) fn question(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[derive(Deserialize)]
pub(super) struct Answer<'a> {
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
    /// Some gateways put a text here.
    Other(Value),
}

impl Answer<'_> {
    /// Our number, also where a node or a proxy made a text of it.
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
            Some(ErrorObject::Object { code, message, data }) => Err(fault(code, message, data)),
            Some(ErrorObject::Other(value)) => Err(fault(None, Some(text_of(&value)), None)),
        }
    }
}

/// Nodes put what matters into the message, into the data, or into both ("VM execution error." / "Reverted 0x…"). Data that
/// is hex is what a call returned; other data is more text.
fn fault(code: Option<i64>, message: Option<String>, data: Option<Value>) -> Fault {
    let mut text = message.unwrap_or_default();
    let data = match data {
        None | Some(Value::Null) => None,
        // Some wrap the returned bytes once more.
        Some(Value::Object(object)) if object.get("data").is_some_and(Value::is_string) => {
            object.get("data").map(text_of)
        }
        Some(value) => Some(text_of(&value)),
    };
    if let Some(more) = data.as_deref().filter(|data| !data.starts_with("0x") && !data.is_empty()) {
        text = if text.is_empty() { more.to_owned() } else { format!("{text}: {more}") };
    }
    Fault::Answer { code, text, data }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads what came back for `count` questions that went together.
pub(super) fn decode(body: &[u8], count: usize) -> Exchange {
    if body.trim_ascii_start().first() == Some(&b'[') {
        return match serde_json::from_slice::<Vec<Answer<'_>>>(body) {
            Ok(answers) => of_array(answers, count),
            Err(_) => Exchange::Failed(Fault::unreadable(body)),
        };
    }
    match serde_json::from_slice::<Answer<'_>>(body) {
        Ok(answer) if count == 1 && (answer.result.is_some() || answer.error.is_some() || answer.id.is_some()) => {
            Exchange::Replies(vec![answer.into_reply()])
        }
        Ok(answer) => match answer.into_reply() {
            Err(fault) if refuses_batches(&fault) => Exchange::BatchRefused(fault),
            Err(fault) => Exchange::Failed(fault),
            Ok(_) => Exchange::Failed(Fault::unreadable(body)),
        },
        Err(_) => Exchange::Failed(Fault::unreadable(body)),
    }
}

/// Answers come in any order, and those without our number belong to nobody.
fn of_array(answers: Vec<Answer<'_>>, count: usize) -> Exchange {
    let mut replies: Vec<Option<Reply>> = std::iter::repeat_with(|| None).take(count).collect();
    let mut strays = Vec::new();
    let mut twice = BTreeSet::new();
    for answer in answers {
        let place = answer.number().and_then(|id| usize::try_from(id).ok());
        match place.and_then(|place| replies.get_mut(place)) {
            Some(reply) if reply.is_some() => twice.extend(place),
            Some(reply) => *reply = Some(answer.into_reply()),
            None => strays.push(answer.into_reply()),
        }
    }
    if replies.iter().all(Option::is_none)
        && let Some(Err(fault)) = strays.into_iter().find(Result::is_err)
    {
        // Geth answers a batch that is too large by one error without a number, in brackets.
        return if count > 1 && refuses_batches(&fault) {
            Exchange::BatchRefused(fault)
        } else {
            Exchange::Failed(fault)
        };
    }
    let missing =
        || Err(Fault::Answer { code: None, text: "the batch came back without this answer".to_owned(), data: None });
    // Which of two answers to one question is the right one, nobody knows.
    let one =
        |(place, reply): (usize, Option<Reply>)| reply.filter(|_| !twice.contains(&place)).unwrap_or_else(missing);
    Exchange::Replies(replies.into_iter().enumerate().map(one).collect())
}

/// One error for many questions is about the batch if it says that the request is malformed, or names the batch. A node that
/// is only busy says something else and keeps its batches.
pub(super) fn refuses_batches(fault: &Fault) -> bool {
    match fault {
        Fault::Answer { code: Some(-32600 | -32601 | -32602 | -32700), .. } => true,
        Fault::Answer { text, .. } => text.to_ascii_lowercase().contains("batch"),
        Fault::Http { status, .. } => matches!(status, 400 | 405 | 413 | 415 | 422 | 501),
        // Of fewer questions the answer is smaller.
        Fault::TooLarge => true,
        Fault::TimedOut | Fault::Unreachable { .. } | Fault::NoPlace | Fault::NotAsked => false,
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
    fn answers_find_their_questions() {
        let body = r#" [{"id":1,"result":"0xb"},{"id":0,"error":{"code":-32000,"message":"nonce too low"}},{"id":9,"result":1}]"#;
        let replies = replies(body, 3);
        let fault = Fault::Answer { code: Some(-32000), text: "nonce too low".to_owned(), data: None };
        assert_eq!(replies[0].as_ref().unwrap_err(), &fault);
        assert_eq!(replies[1].as_ref().unwrap().get(), "\"0xb\"");
        assert!(replies[2].is_err(), "what did not come back is no null");
    }

    #[test]
    fn two_answers_to_one_question_are_none() {
        let body = r#"[{"id":0,"result":"0xa"},{"id":1,"result":"0xb"},{"id":0,"result":"0xc"}]"#;
        let replies = replies(body, 2);
        assert!(replies[0].is_err());
        assert_eq!(replies[1].as_ref().unwrap().get(), "\"0xb\"");
    }

    #[test]
    fn a_number_that_comes_back_as_a_text_is_the_same_number() {
        let body = r#"[{"id":"1","result":"0xb"},{"id":"0","error":{"code":-32000,"message":"nonce too low"}},{"id":"x","result":1}]"#;
        let replies = replies(body, 3);
        assert!(matches!(&replies[0], Err(Fault::Answer { text, .. }) if text == "nonce too low"));
        assert_eq!(replies[1].as_ref().unwrap().get(), "\"0xb\"");
        assert!(replies[2].is_err());
    }

    #[test]
    fn null_is_an_answer_and_garbage_is_none() {
        assert_eq!(replies(r#"{"jsonrpc":"2.0","id":0,"result":null}"#, 1)[0].as_ref().unwrap().get(), "null");
        for body in ["", "<html>", "[{]", "{}", "[1]", "\"0x1\""] {
            assert!(matches!(decode(body.as_bytes(), 1), Exchange::Failed(Fault::Http { status: 200, .. })), "{body}");
        }
    }

    #[test]
    fn a_refused_batch_is_told_from_a_busy_node() {
        let refused = [
            r#"{"id":null,"error":{"code":-32600,"message":"invalid request"}}"#,
            r#"[{"id":null,"error":{"code":-32000,"message":"batch too large"}}]"#,
            r#"{"error":{"code":-32005,"message":"Batch size is limited to 10"}}"#,
        ];
        for body in refused {
            assert!(matches!(decode(body.as_bytes(), 2), Exchange::BatchRefused(_)), "{body}");
        }
        let busy = r#"{"id":null,"error":{"code":-32005,"message":"too many requests"}}"#;
        assert!(matches!(decode(busy.as_bytes(), 2), Exchange::Failed(Fault::Answer { .. })));
    }

    #[test]
    fn what_an_error_has_beside_its_message_is_kept() {
        let reply = |error: &str| replies(&format!(r#"{{"id":0,"error":{error}}}"#), 1).remove(0).unwrap_err();
        let with = |text: &str, data: Option<&str>| Fault::Answer {
            code: Some(3),
            text: text.to_owned(),
            data: data.map(str::to_owned),
        };
        assert_eq!(reply(r#"{"code":3,"message":"m","data":"0x08"}"#), with("m", Some("0x08")));
        assert_eq!(reply(r#"{"code":3,"message":"m","data":{"data":"0x08"}}"#), with("m", Some("0x08")));
        assert_eq!(reply(r#"{"code":3,"message":"m","data":"why"}"#), with("m: why", Some("why")));
        assert_eq!(reply(r#""just text""#), Fault::Answer { code: None, text: "just text".to_owned(), data: None });
    }

    #[test]
    fn one_question_goes_without_brackets() {
        let call = Call::new("eth_chainId", json!([]));
        assert_eq!(encode(std::slice::from_ref(&call)).first(), Some(&b'{'));
        assert_eq!(encode(&[call.clone(), call]).first(), Some(&b'['));
    }
}
