//! Positional arguments of a call, with geth's error texts.

use std::vec;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{INVALID_PARAMS_CODE, RpcError};

#[derive(Debug)]
pub(crate) struct Args {
    rest: vec::IntoIter<Value>,
    index: usize,
}

impl Args {
    /// `most` is the number of arguments of the method.
    pub(crate) fn new(params: Value, most: usize) -> Result<Self, RpcError> {
        let list = match params {
            Value::Array(list) => list,
            Value::Null => Vec::new(),
            _ => return Err(invalid("non-array args")),
        };
        if list.len() > most {
            return Err(invalid(format!("too many arguments, want at most {most}")));
        }
        Ok(Self { rest: list.into_iter(), index: 0 })
    }

    pub(crate) fn none(params: Value) -> Result<(), RpcError> {
        Self::new(params, 0).map(|_| ())
    }

    pub(crate) fn required<T: DeserializeOwned>(&mut self) -> Result<T, RpcError> {
        let index = self.index;
        self.optional()?.ok_or_else(|| invalid(format!("missing value for required argument {index}")))
    }

    /// An argument that may be missing or `null`.
    pub(crate) fn optional<T: DeserializeOwned>(&mut self) -> Result<Option<T>, RpcError> {
        let index = self.index;
        self.index += 1;
        match self.rest.next() {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value)
                .map(Some)
                .map_err(|error| invalid(format!("invalid argument {index}: {error}"))),
        }
    }
}

pub(crate) fn invalid(text: impl Into<String>) -> RpcError {
    RpcError::new(INVALID_PARAMS_CODE, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn argument_errors_have_geth_texts() {
        let text = |error: RpcError| (error.code, error.message);
        let mut args = Args::new(json!([1, null]), 3).unwrap();
        assert_eq!(args.required::<u8>().unwrap(), 1);
        assert_eq!(args.optional::<u8>().unwrap(), None);
        assert_eq!(
            text(args.required::<u8>().unwrap_err()),
            (INVALID_PARAMS_CODE, "missing value for required argument 2".to_owned())
        );
        assert_eq!(text(Args::none(json!([1])).unwrap_err()).1, "too many arguments, want at most 0");
        assert_eq!(text(Args::none(json!({"a": 1})).unwrap_err()).1, "non-array args");
        let mut args = Args::new(json!(["x"]), 1).unwrap();
        assert!(args.required::<u8>().unwrap_err().message.starts_with("invalid argument 0: "));
    }
}
