//! Identifiers of chains, submitters, requests and transactions.
//!
//! Each identifier has one canonical form, made on construction. Two spellings of one account can therefore never hold
//! two leases or two cursors.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

use crate::limits::Limits;
use crate::rules;

/// Reason why a text is not a valid identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("a chain id is namespace:reference, as in eip155:1")]
    ChainShape,
    #[error("a chain namespace has 3 to 8 characters of a-z, 0-9 and -")]
    ChainNamespace,
    #[error("a chain reference has 1 to 32 characters of a-z, A-Z, 0-9, - and _")]
    ChainReference,
    /// The rules of this kind of chain do not permit the reference or the address.
    #[error("{0}")]
    ByRules(&'static str),
    #[error("a submitter is chain:address, as in eip155:1:0x…")]
    SubmitterShape,
    #[error("an address has 1 to 128 characters of a-z, A-Z, 0-9, -, . and %")]
    AddressShape,
    #[error("a request id is not empty")]
    RequestIdEmpty,
    #[error("a request id has at most {limit} bytes")]
    RequestIdTooLong { limit: usize },
    #[error("a request id has no control characters and no white space at its ends")]
    RequestIdCharacters,
    #[error("a transaction id is a UUID")]
    TxId,
}

/// A CAIP-2 chain id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(Arc<str>);

impl ChainId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn namespace(&self) -> &str {
        self.0.split_once(':').map_or("", |(namespace, _)| namespace)
    }

    pub fn reference(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, reference)| reference)
    }
}

impl FromStr for ChainId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (namespace, reference) = text.split_once(':').ok_or(IdError::ChainShape)?;
        let namespace_ok = (3..=8).contains(&namespace.len())
            && namespace.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !namespace_ok {
            return Err(IdError::ChainNamespace);
        }
        let reference_ok = (1..=32).contains(&reference.len())
            && reference.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !reference_ok {
            return Err(IdError::ChainReference);
        }
        if let Some(rules) = rules::of_namespace(namespace) {
            rules.check_reference(reference).map_err(IdError::ByRules)?;
        }
        Ok(ChainId(text.into()))
    }
}

/// One signing account on one chain, as CAIP-10. The address is in the form that the rules of its chain give it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubmitterId {
    text: Arc<str>,
    chain: ChainId,
}

impl SubmitterId {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn chain(&self) -> &ChainId {
        &self.chain
    }

    pub fn address(&self) -> &str {
        self.text.get(self.chain.as_str().len() + 1..).unwrap_or("")
    }
}

impl FromStr for SubmitterId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (chain, address) = text.rsplit_once(':').ok_or(IdError::SubmitterShape)?;
        if !chain.contains(':') {
            return Err(IdError::SubmitterShape);
        }
        let chain: ChainId = chain.parse()?;
        let address = match chain.rules() {
            Some(rules) => rules.canonical_address(address).map_err(IdError::ByRules)?,
            None => plain_address(address)?,
        };
        Ok(SubmitterId { text: format!("{chain}:{address}").into(), chain })
    }
}

fn plain_address(text: &str) -> Result<String, IdError> {
    let ok = (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'%'));
    if ok { Ok(text.to_owned()) } else { Err(IdError::AddressShape) }
}

/// The caller's idempotency key. `(submitter, request id)` names one intent for ever.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(Arc<str>);

impl RequestId {
    pub fn new(text: &str, limits: &Limits) -> Result<Self, IdError> {
        if text.is_empty() {
            return Err(IdError::RequestIdEmpty);
        }
        if text.len() > limits.request_id_bytes {
            return Err(IdError::RequestIdTooLong { limit: limits.request_id_bytes });
        }
        if text.chars().any(char::is_control) || text.trim() != text {
            return Err(IdError::RequestIdCharacters);
        }
        Ok(RequestId(text.into()))
    }

    /// Reads a request id from a store. The limits are not checked, because they may have changed since it was
    /// accepted.
    pub fn restore(text: &str) -> Self {
        RequestId(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Id of an intent, made by Gapless: opaque to callers, and ordered in time to suit database indexes (UUID version 7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(Uuid);

impl TxId {
    pub const fn from_uuid(uuid: Uuid) -> Self {
        TxId(uuid)
    }

    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl FromStr for TxId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Uuid::parse_str(text).map(TxId).map_err(|_| IdError::TxId)
    }
}

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! shown_as_text {
    ($($name:ty),+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+};
}

shown_as_text!(ChainId, SubmitterId, RequestId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_ids_are_rejected() {
        for text in [
            "",
            "eip155",
            "eip155:",
            ":1",
            "eip155:01",
            "eip155:0",
            "eip155:-1",
            "EIP155:1",
            "ab:1",
            "eip155:1 ",
            "toolongns:1",
        ] {
            assert!(text.parse::<ChainId>().is_err(), "{text:?}");
        }
        for text in [
            "eip155:1",
            "eip155:1:",
            "eip155:1:0x12",
            "eip155:1:f39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
            "stellar:testnet:a b",
        ] {
            assert!(text.parse::<SubmitterId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn address_without_rules_keeps_its_letter_case() {
        let id: SubmitterId = "stellar:testnet:GDLEWFXV".parse().unwrap();
        assert_eq!(id.chain().as_str(), "stellar:testnet");
        assert_eq!(id.address(), "GDLEWFXV");
    }

    #[test]
    fn request_id_outside_limits_is_rejected() {
        let limits = Limits::default();
        assert!(RequestId::new("order-42", &limits).is_ok());
        assert_eq!(RequestId::new("", &limits), Err(IdError::RequestIdEmpty));
        assert_eq!(RequestId::new("a\0b", &limits), Err(IdError::RequestIdCharacters));
        assert_eq!(RequestId::new(" a", &limits), Err(IdError::RequestIdCharacters));
        assert!(RequestId::new(&"x".repeat(limits.request_id_bytes + 1), &limits).is_err());
    }
}
