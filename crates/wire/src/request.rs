//! A caller's request.

use gapless_domain::{IntentDraft, Payload, SubmitterId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::moment::moment_from_text;
use crate::names::Speed;
use crate::payload::CallPayload;
use crate::problem::FieldFault;

/// One intent: do this from that account, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TxRequest {
    /// CAIP-10 id (`eip155:1:0x…`) or alias of the submitter.
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub submitter: String,
    /// The caller's name for this intent, unique per submitter for ever. The header `Idempotency-Key` may replace it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub request_id: Option<String>,
    pub payload: CallPayload,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    /// RFC 3339. An intent that is not on chain by then is given up; the chain guarantees nothing about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub valid_until: Option<String>,
    /// The caller's own JSON, stored and returned, never interpreted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = serde_json::Value))]
    pub metadata: Option<Box<RawValue>>,
}

/// A caller's reference to a submitter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SubmitterRef {
    Id(SubmitterId),
    Alias(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitterRefError {
    #[error(transparent)]
    Id(#[from] gapless_domain::IdError),
    #[error("an alias has 1 to {} bytes and no control characters", SubmitterRef::ALIAS_BYTES)]
    Alias,
}

/// A well-formed request. The submitter's existence and the limits of an intent are checked later.
#[derive(Clone, Debug)]
pub struct RequestParts {
    pub submitter: SubmitterRef,
    request_id: String,
    payload: Payload,
    speed: Speed,
    valid_until: Option<Timestamp>,
    metadata: Option<String>,
}

impl SubmitterRef {
    pub const ALIAS_BYTES: usize = 128;

    /// A text with a colon is an id; aliases have none.
    pub fn parse(text: &str) -> Result<Self, SubmitterRefError> {
        if text.contains(':') {
            return Ok(SubmitterRef::Id(text.parse()?));
        }
        if text.is_empty() || text.len() > Self::ALIAS_BYTES || text.chars().any(char::is_control) {
            return Err(SubmitterRefError::Alias);
        }
        Ok(SubmitterRef::Alias(text.to_owned()))
    }
}

impl TxRequest {
    /// A plain request; the caller fills in the rest.
    pub fn new(submitter: impl Into<String>, request_id: impl Into<String>, payload: CallPayload) -> Self {
        TxRequest {
            submitter: submitter.into(),
            request_id: Some(request_id.into()),
            payload,
            speed: None,
            valid_until: None,
            metadata: None,
        }
    }

    /// Parses every field and reports all faults at once.
    pub fn read(self, idempotency_key: Option<&str>) -> Result<RequestParts, Vec<FieldFault>> {
        let mut faults = Vec::new();
        let submitter = SubmitterRef::parse(&self.submitter)
            .map_err(|error| faults.push(FieldFault::body("/submitter", error.to_string())));
        let request_id = match (self.request_id, idempotency_key) {
            (Some(id), Some(key)) if id != key => {
                faults.push(FieldFault::body("/requestId", "requestId and the header Idempotency-Key differ"));
                id
            }
            (Some(id), _) => id,
            (None, Some(key)) => key.to_owned(),
            (None, None) => {
                let message = "a request needs a requestId, or the header Idempotency-Key";
                faults.push(FieldFault::body("/requestId", message));
                String::new()
            }
        };
        let payload = Payload::from(self.payload.read("/payload", &mut faults));
        let valid_until = self.valid_until.and_then(|text| {
            let at = moment_from_text(&text);
            if at.is_none() {
                let message = "a time is RFC 3339, from 1970 on, as in 2026-01-31T12:00:00Z";
                faults.push(FieldFault::body("/validUntil", message));
            }
            at
        });
        let metadata = self.metadata.map(|json| read_metadata(&json, &mut faults));
        match submitter {
            Ok(submitter) if faults.is_empty() => Ok(RequestParts {
                submitter,
                request_id,
                payload,
                speed: self.speed.unwrap_or(Speed::Standard),
                valid_until,
                metadata,
            }),
            _ => Err(faults),
        }
    }
}

/// Raw JSON was only skipped so far. It may hold half a surrogate pair or nest without end, which no database and no
/// later reader accepts.
fn read_metadata(json: &RawValue, faults: &mut Vec<FieldFault>) -> String {
    if let Err(error) = serde_json::from_str::<serde_json::Value>(json.get()) {
        faults.push(FieldFault::body("/metadata", format!("metadata cannot be kept: {error}")));
    }
    json.get().to_owned()
}

impl RequestParts {
    /// The draft of an intent, for the resolved submitter.
    pub fn into_draft(self, submitter: SubmitterId) -> IntentDraft {
        IntentDraft {
            submitter,
            request_id: self.request_id,
            payload: self.payload,
            speed: self.speed.into(),
            valid_until: self.valid_until,
            metadata: self.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::from_json;
    use crate::payload::CallPayload;
    use gapless_domain::{
        AccessListItem, Address, Amount, Authorization, B256, Bytes, EvmCall, Fees, Intent, Limits, U256,
    };
    use proptest::prelude::*;

    const SUBMITTER: &str = "eip155:31337:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

    fn request(json: &str) -> TxRequest {
        from_json(json.as_bytes()).unwrap()
    }

    fn pointers(request: TxRequest) -> Vec<String> {
        request.read(None).unwrap_err().into_iter().map(|fault| fault.pointer).collect()
    }

    #[test]
    fn every_fault_has_its_pointer() {
        let bad = r#"{"submitter":"eip155:1:0x12","payload":{"to":"0x1","value":"-1","data":"0x1","gasLimit":"1e3",
            "fees":{"gasPrice":"1","maxFeePerGas":"2"},
            "accessList":[{"address":"0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266","storageKeys":["0x00","0xzz"]}],
            "authorizationList":[{"chainId":"x","address":"0x","nonce":-0.5e0,"yParity":2,"r":"","s":"0x"}]},
            "validUntil":"tomorrow","metadata":{"half":"\ud800"}}"#;
        // A number with a fraction is a fault of shape, which is reported before the others.
        assert!(from_json::<TxRequest>(bad.as_bytes()).is_err());
        let bad = bad.replace("-0.5e0", "\"-1\"");
        let expected = [
            "/submitter",
            "/requestId",
            "/payload/to",
            "/payload/value",
            "/payload/data",
            "/payload/gasLimit",
            "/payload/fees",
            "/payload/accessList/0/address",
            "/payload/accessList/0/storageKeys/0",
            "/payload/accessList/0/storageKeys/1",
            "/payload/authorizationList/0/chainId",
            "/payload/authorizationList/0/address",
            "/payload/authorizationList/0/nonce",
            "/payload/authorizationList/0/yParity",
            "/payload/authorizationList/0/r",
            "/payload/authorizationList/0/s",
            "/validUntil",
            "/metadata",
        ];
        assert_eq!(pointers(request(&bad)), expected);
    }

    #[test]
    fn header_replaces_missing_request_id() {
        let json = format!(r#"{{"submitter":"{SUBMITTER}","payload":{{"to":"{}"}}}}"#, Address::repeat_byte(1));
        let id = |request: TxRequest, key| request.read(key).map(|parts| parts.request_id);
        assert_eq!(id(request(&json), Some("order-42")), Ok("order-42".to_owned()));
        assert_eq!(pointers(request(&json)), ["/requestId"]);
        let both = TxRequest { request_id: Some("order-42".to_owned()), ..request(&json) };
        assert_eq!(id(both.clone(), Some("order-42")), Ok("order-42".to_owned()));
        assert!(both.read(Some("order-43")).is_err());
    }

    #[test]
    fn metadata_is_kept_unchanged() {
        let json =
            r#"{"submitter":"treasury","requestId":"a","payload":{"data":"0x00"},"metadata":{"b": 1.10, "a":[]}}"#;
        let parts = request(json).read(None).unwrap();
        assert_eq!(parts.submitter, SubmitterRef::Alias("treasury".to_owned()));
        assert_eq!(parts.metadata.as_deref(), Some(r#"{"b": 1.10, "a":[]}"#));
        let deep = json.replace("[]", &format!("{}{}", "[".repeat(500), "]".repeat(500)));
        assert_eq!(pointers(request(&deep)), ["/metadata"]);
    }

    fn any_fees() -> impl Strategy<Value = Option<Fees>> {
        prop_oneof![
            Just(None),
            any::<u128>().prop_map(|gas_price| Some(Fees::Legacy { gas_price })),
            any::<(u128, u128)>()
                .prop_map(|(max_fee, max_priority_fee)| Some(Fees::Eip1559 { max_fee, max_priority_fee })),
        ]
    }

    fn any_authorization() -> impl Strategy<Value = Authorization> {
        any::<([u64; 4], [u8; 20], u64, bool, [u64; 4], [u64; 4])>().prop_map(
            |(chain, address, nonce, y_parity, r, s)| Authorization {
                chain_id: U256::from_limbs(chain),
                address: Address::from(address),
                nonce,
                y_parity,
                r: U256::from_limbs(r),
                s: U256::from_limbs(s),
            },
        )
    }

    fn any_call() -> impl Strategy<Value = EvmCall> {
        let item = any::<([u8; 20], Vec<[u8; 32]>)>().prop_map(|(address, keys)| AccessListItem {
            address: Address::from(address),
            storage_keys: keys.into_iter().map(B256::from).collect(),
        });
        (
            any::<(Option<[u8; 20]>, [u64; 4], Vec<u8>, Option<u64>)>(),
            any_fees(),
            prop::collection::vec(item, 0..3),
            prop::collection::vec(any_authorization(), 0..3),
        )
            .prop_map(|((to, value, data, gas_limit), fees, access_list, authorizations)| EvmCall {
                to: to.map(Address::from),
                value: Amount::new(U256::from_limbs(value)),
                data: Bytes::from(data),
                gas_limit,
                fees,
                access_list,
                authorizations,
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn call_round_trips(call in any_call()) {
            let request = TxRequest::new(SUBMITTER, "a", CallPayload::from(&call));
            let json = serde_json::to_vec(&request).unwrap();
            let parts = from_json::<TxRequest>(&json).unwrap().read(None).unwrap();
            prop_assert_eq!(parts.payload, Payload::from(call));
        }

        /// Any text in any field ends in a draft or in faults that name fields.
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let payload = CallPayload { to: Some(text.clone()), value: Some(text.clone()), data: Some(text.clone()),
                ..CallPayload::default() };
            let request = TxRequest { valid_until: Some(text.clone()), ..TxRequest::new(text.clone(), text, payload) };
            match request.read(None) {
                Ok(parts) => {
                    let draft = parts.into_draft(SUBMITTER.parse().unwrap());
                    prop_assert!(Intent::new(draft, &Limits::default()).is_err());
                }
                Err(faults) => prop_assert!(faults.iter().all(|fault| fault.pointer.starts_with('/'))),
            }
        }
    }
}
