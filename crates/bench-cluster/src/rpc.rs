//! JSON-RPC to the chain, over one connection.

use serde_json::{Value, json};

use crate::LoadError;
use crate::http::Connection;

/// Host and port of an endpoint, which serves `ws://` and `http://` on the same port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RpcAddress {
    authority: String,
    path: String,
}

impl RpcAddress {
    pub(crate) fn parse(url: &str) -> Result<Self, LoadError> {
        let wrong = || LoadError::Url(url.to_owned());
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("ws://")).ok_or_else(wrong)?;
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
        // Remote endpoints without a port, and URLs with user names or passwords, are not supported.
        let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() || authority.contains('@') {
            return Err(wrong());
        }
        Ok(RpcAddress { authority: authority.to_owned(), path: format!("/{path}") })
    }
}

#[derive(Debug)]
pub(crate) struct Rpc {
    connection: Connection,
    path: String,
}

impl Rpc {
    pub(crate) async fn open(address: &RpcAddress) -> Result<Self, LoadError> {
        let failed = LoadError::http("the chain");
        Ok(Rpc { connection: Connection::open(&address.authority).await.map_err(failed)?, path: address.path.clone() })
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, LoadError> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let mut answer: Value = self.post(method, &body).await?;
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => {
                let message = answer["error"]["message"].as_str().unwrap_or("no answer").to_owned();
                Err(LoadError::Rpc { method: method.to_owned(), message })
            }
        }
    }

    /// Sends a whole batch.
    pub(crate) async fn post<T: serde::de::DeserializeOwned>(
        &mut self,
        what: &str,
        body: &str,
    ) -> Result<T, LoadError> {
        let answer = self.connection.post(&self.path, body).await.map_err(LoadError::http(what))?;
        if answer.status != 200 {
            let (what, status, body) = (what.to_owned(), answer.status, answer.text());
            return Err(LoadError::Refused { what, status, body });
        }
        let unreadable = |_| LoadError::Unreadable { what: what.to_owned(), text: answer.text() };
        serde_json::from_slice(answer.body).map_err(unreadable)
    }
}

/// Parses a hexadecimal quantity.
pub(crate) fn number(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_host_and_port() {
        let address = RpcAddress::parse("ws://127.0.0.1:8545").unwrap();
        assert_eq!(address, RpcAddress { authority: "127.0.0.1:8545".to_owned(), path: "/".to_owned() });
        assert_eq!(RpcAddress::parse("http://node:1/endpoint/a").unwrap().path, "/endpoint/a");
        for url in ["https://127.0.0.1:8545", "http://127.0.0.1", "127.0.0.1:8545", "http://me:secret@node:1", ""] {
            assert!(matches!(RpcAddress::parse(url), Err(LoadError::Url(_))), "{url}");
        }
    }

    #[test]
    fn numbers_are_hex() {
        assert_eq!(number(&json!("0x1f")), Some(31));
        assert_eq!(number(&json!("31")), None);
        assert_eq!(number(&json!(31)), None);
    }
}
