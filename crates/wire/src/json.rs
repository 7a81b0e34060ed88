//! JSON parsing with faults that name their place.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_path_to_error::{Path, Segment};

use crate::problem::FieldFault;

/// The reason why a body could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    Malformed(String),
    /// The body is JSON of another shape than expected.
    #[error("{}", .0.message)]
    Shape(FieldFault),
}

/// Parses one JSON document.
pub fn from_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, JsonError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let read = serde_path_to_error::deserialize(&mut reader);
    match read {
        Ok(value) => reader.end().map(|()| value).map_err(malformed),
        Err(error) if error.inner().is_data() => {
            // The shape may be wrong before the text stops being JSON; invalid JSON is reported first.
            serde_json::from_slice::<IgnoredAny>(json).map_err(malformed)?;
            Err(JsonError::Shape(fault(&error)))
        }
        Err(error) => Err(malformed(error.into_inner())),
    }
}

fn malformed(error: serde_json::Error) -> JsonError {
    JsonError::Malformed(error.to_string())
}

fn fault(error: &serde_path_to_error::Error<serde_json::Error>) -> FieldFault {
    let mut pointer = pointer(error.path());
    let message = without_position(&error.inner().to_string());
    // Serde reports a missing field at its object. The caller needs the name of the field.
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    if let Some(field) = missing {
        push_key(&mut pointer, field);
    }
    FieldFault::body(pointer, message)
}

/// The pointer already names the place; line and column of a generated text do not help.
fn without_position(message: &str) -> String {
    message.split_once(" at line ").map_or(message, |(text, _)| text).to_owned()
}

/// A JSON pointer (RFC 6901).
fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => push_key(&mut pointer, key),
            Segment::Enum { variant } => push_key(&mut pointer, variant),
            Segment::Unknown => {}
        }
    }
    pointer
}

fn push_key(pointer: &mut String, key: &str) {
    pointer.push('/');
    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::TxRequest;

    fn fault(json: &str) -> FieldFault {
        match from_json::<TxRequest>(json.as_bytes()) {
            Err(JsonError::Shape(fault)) => fault,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn fault_of_shape_names_its_place() {
        let wrong_type = fault(r#"{"submitter":"s","payload":{"to":7}}"#);
        assert_eq!(wrong_type.pointer, "/payload/to");
        assert_eq!(wrong_type.message, "invalid type: integer `7`, expected a string");
        let unknown = fault(r#"{"submitter":"s","payload":{"accessList":[{"address":"0x","a/b":1}]}}"#);
        assert_eq!(unknown.pointer, "/payload/accessList/0/a~1b");
        assert_eq!(fault(r#"{"payload":{}}"#).pointer, "/submitter");
        let nested = r#"{"submitter":"s","payload":{"authorizationList":[{}]}}"#;
        assert_eq!(fault(nested).pointer, "/payload/authorizationList/0/chainId");
        assert_eq!(fault("[]").pointer, "");
        assert_eq!(fault(r#"{"submitter":"s","payload":{},"speed":"warp"}"#).pointer, "/speed");
    }

    #[test]
    fn invalid_json_is_distinguished() {
        for json in ["", "{", "{} {}", "nul", "{\"submitter\":\"\u{1}\"}"] {
            assert!(matches!(from_json::<TxRequest>(json.as_bytes()), Err(JsonError::Malformed(_))), "{json:?}");
        }
        assert!(matches!(from_json::<TxRequest>(b"{\"submitter\":\"\xff\"}"), Err(JsonError::Malformed(_))));
    }
}
