//! JSON-RPC to the chain, over one connection.

use serde_json::{Value, json};

use crate::LoadError;
use crate::http::Connection;

/// Where an endpoint is: `ws://` and `http://` on the same port, as all nodes that are measured against have it.
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
        // Without a port it is one of the Internet, and names and passwords are none of ours.
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

    /// A whole batch, as it is.
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

/// A number as nodes write it.
pub(crate) fn number(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_a_port() {
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
