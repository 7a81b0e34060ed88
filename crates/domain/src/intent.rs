//! Intents: the requests of callers, checked once, on construction.

use crate::id::{RequestId, SubmitterId};
use crate::limits::Limits;
use crate::names::names;
use crate::payload::{EvmCall, Fees, Payload};
use crate::time::Timestamp;

/// A checked request. Every value of this type is within all limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    submitter: SubmitterId,
    request_id: RequestId,
    payload: Payload,
    speed: Speed,
    valid_until: Option<Timestamp>,
    metadata: Option<Metadata>,
}

/// An intent before the checks.
#[derive(Clone, Debug)]
pub struct IntentDraft {
    pub submitter: SubmitterId,
    pub request_id: String,
    pub payload: Payload,
    pub speed: Speed,
    pub valid_until: Option<Timestamp>,
    /// JSON text; the API has parsed it.
    pub metadata: Option<String>,
}

names! {
    /// Fee level that the caller chooses.
    Speed {
        Slow = "slow",
        Standard = "standard",
        Fast = "fast",
        Instant = "instant",
    }
}

/// The caller's own JSON, stored as received and never interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata(String);

/// All errors of a draft, each with the JSON pointer of its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} of the intent's fields are invalid", errors.len())]
pub struct InvalidIntent {
    pub errors: Vec<FieldError>,
}

/// One invalid field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    pub pointer: &'static str,
    pub message: String,
}

impl Intent {
    pub fn new(draft: IntentDraft, limits: &Limits) -> Result<Intent, InvalidIntent> {
        let mut errors = FieldErrors(Vec::new());
        let request_id = match RequestId::new(&draft.request_id, limits) {
            Ok(id) => Some(id),
            Err(error) => {
                errors.add("/requestId", error.to_string());
                None
            }
        };
        check_payload(&draft.payload, &draft.submitter, limits, &mut errors);
        let metadata = draft.metadata.map(Metadata);
        if let Some(metadata) = &metadata {
            metadata.check(limits, &mut errors);
        }
        match request_id {
            Some(request_id) if errors.0.is_empty() => Ok(Intent {
                submitter: draft.submitter,
                request_id,
                payload: draft.payload,
                speed: draft.speed,
                valid_until: draft.valid_until,
                metadata,
            }),
            _ => Err(InvalidIntent { errors: errors.0 }),
        }
    }

    /// Reads an intent from a store. The limits were checked when the intent was accepted, and may have changed since.
    pub fn restore(
        submitter: SubmitterId,
        request_id: RequestId,
        payload: Payload,
        speed: Speed,
        valid_until: Option<Timestamp>,
        metadata: Option<Metadata>,
    ) -> Intent {
        Intent { submitter, request_id, payload, speed, valid_until, metadata }
    }

    pub fn submitter(&self) -> &SubmitterId {
        &self.submitter
    }

    pub fn request_id(&self) -> &RequestId {
        &self.request_id
    }

    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    pub fn speed(&self) -> Speed {
        self.speed
    }

    pub fn valid_until(&self) -> Option<Timestamp> {
        self.valid_until
    }

    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }
}

impl Metadata {
    /// Reads metadata from a store.
    pub fn restore(json: String) -> Self {
        Metadata(json)
    }

    pub fn as_json(&self) -> &str {
        &self.0
    }

    fn check(&self, limits: &Limits, errors: &mut FieldErrors) {
        if self.0.len() > limits.metadata_bytes {
            errors.add("/metadata", format!("metadata has at most {} bytes", limits.metadata_bytes));
        }
        if has_nul(&self.0) {
            errors.add("/metadata", "metadata must not contain the character NUL".to_owned());
        }
    }
}

/// Finds NUL, bare or as the escape `\u0000`. The escape is valid JSON, but PostgreSQL's jsonb rejects it.
fn has_nul(json: &str) -> bool {
    let mut rest = json;
    while let Some(at) = rest.find(['\\', '\0']) {
        let Some(tail) = rest.get(at..) else { return false };
        if tail.starts_with('\0') || tail.starts_with("\\u0000") {
            return true;
        }
        // Skip the backslash and the character that it escapes.
        let mut chars = tail.chars();
        chars.next();
        chars.next();
        rest = chars.as_str();
    }
    false
}

impl Payload {
    /// Runs the checks of a new intent on a payload that replaces another one.
    pub fn check(&self, submitter: &SubmitterId, limits: &Limits) -> Result<(), InvalidIntent> {
        let mut errors = FieldErrors(Vec::new());
        check_payload(self, submitter, limits, &mut errors);
        if errors.0.is_empty() { Ok(()) } else { Err(InvalidIntent { errors: errors.0 }) }
    }
}

fn check_payload(payload: &Payload, submitter: &SubmitterId, limits: &Limits, errors: &mut FieldErrors) {
    match payload {
        Payload::Evm(call) => {
            if !submitter.chain().is_evm() {
                errors.add("/payload", format!("an EVM call cannot be sent on {}", submitter.chain()));
            }
            check_call(call, limits, errors);
        }
        Payload::Reservation(request) if request.hold_ms == 0 || request.hold_ms > limits.hold_ms => {
            errors.add("/hold", format!("a nonce can be held for 1 to {} milliseconds", limits.hold_ms));
        }
        Payload::Reservation(_) => {}
    }
}

fn check_call(call: &EvmCall, limits: &Limits, errors: &mut FieldErrors) {
    if call.data.len() > limits.data_bytes {
        errors.add("/payload/data", format!("data has at most {} bytes", limits.data_bytes));
    }
    if call.to.is_none() && call.data.is_empty() {
        errors.add("/payload/to", "set `to`, or set `data` to the code of a new contract".to_owned());
    }
    if call.to.is_none() && !call.authorizations.is_empty() {
        errors.add("/payload/authorizationList", "a contract creation cannot carry authorizations".to_owned());
    }
    match call.gas_limit {
        Some(limit) if limit > limits.gas_limit => {
            errors.add("/payload/gasLimit", format!("gasLimit is at most {}", limits.gas_limit));
        }
        Some(limit) if limit < 21_000 => {
            errors.add("/payload/gasLimit", "gasLimit is at least 21000".to_owned());
        }
        _ => {}
    }
    match call.fees {
        Some(Fees::Eip1559 { max_fee, max_priority_fee }) if max_priority_fee > max_fee => {
            errors.add("/payload/fees", "maxPriorityFeePerGas is at most maxFeePerGas".to_owned());
        }
        Some(Fees::Legacy { .. }) if !call.authorizations.is_empty() => {
            errors.add("/payload/fees", "a transaction with authorizations needs EIP-1559 fees".to_owned());
        }
        _ => {}
    }
    if call.access_list.len() > limits.access_list_items {
        errors.add("/payload/accessList", format!("an access list has at most {} items", limits.access_list_items));
    }
    let keys: usize = call.access_list.iter().map(|item| item.storage_keys.len()).sum();
    if keys > limits.access_list_keys {
        errors.add("/payload/accessList", format!("an access list has at most {} keys", limits.access_list_keys));
    }
    if call.authorizations.len() > limits.authorizations {
        errors.add("/payload/authorizationList", format!("at most {} authorizations", limits.authorizations));
    }
}

struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    fn add(&mut self, pointer: &'static str, message: String) {
        self.0.push(FieldError { pointer, message });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, Bytes};

    fn draft(call: EvmCall) -> IntentDraft {
        IntentDraft {
            submitter: "eip155:1:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap(),
            request_id: "order-42".to_owned(),
            payload: Payload::Evm(call),
            speed: Speed::Standard,
            valid_until: None,
            metadata: None,
        }
    }

    fn transfer() -> EvmCall {
        EvmCall { to: Some(Address::repeat_byte(1)), ..EvmCall::default() }
    }

    fn pointers(result: Result<Intent, InvalidIntent>) -> Vec<&'static str> {
        result.unwrap_err().errors.iter().map(|error| error.pointer).collect()
    }

    #[test]
    fn invalid_draft_reports_all_errors_at_once() {
        let limits = Limits::default();
        let bad = IntentDraft {
            request_id: String::new(),
            metadata: Some(r#"{"note":"\u0000"}"#.to_owned()),
            ..draft(EvmCall { to: None, gas_limit: Some(3), ..EvmCall::default() })
        };
        assert_eq!(
            pointers(Intent::new(bad, &limits)),
            ["/requestId", "/payload/to", "/payload/gasLimit", "/metadata"]
        );
        assert!(Intent::new(draft(transfer()), &limits).is_ok());
    }

    #[test]
    fn draft_above_a_limit_is_rejected() {
        let limits =
            Limits { data_bytes: 1, access_list_items: 0, gas_limit: 21_000, metadata_bytes: 2, ..Limits::default() };
        let data = Bytes::from_static(&[0, 0]);
        assert_eq!(pointers(Intent::new(draft(EvmCall { data, ..transfer() }), &limits)), ["/payload/data"]);
        let gas_limit = Some(21_001);
        assert_eq!(pointers(Intent::new(draft(EvmCall { gas_limit, ..transfer() }), &limits)), ["/payload/gasLimit"]);
        let fees = Some(Fees::Eip1559 { max_fee: 1, max_priority_fee: 2 });
        assert_eq!(pointers(Intent::new(draft(EvmCall { fees, ..transfer() }), &limits)), ["/payload/fees"]);
        let metadata = IntentDraft { metadata: Some("{  }".to_owned()), ..draft(transfer()) };
        assert_eq!(pointers(Intent::new(metadata, &limits)), ["/metadata"]);
    }

    #[test]
    fn reservation_hold_time_is_limited() {
        let hold = |hold_ms| {
            let lock_owner = crate::LockOwner::new("me").unwrap();
            let payload = Payload::Reservation(crate::ReservationRequest { lock_owner, hold_ms });
            payload.check(&draft(transfer()).submitter, &Limits::default()).is_ok()
        };
        assert_eq!([hold(0), hold(1), hold(600_000), hold(600_001)], [false, true, true, false]);
    }

    #[test]
    fn evm_call_on_non_evm_chain_is_rejected() {
        let other = IntentDraft { submitter: "stellar:testnet:GDLEWFXV".parse().unwrap(), ..draft(transfer()) };
        assert_eq!(pointers(Intent::new(other, &Limits::default())), ["/payload"]);
    }

    #[test]
    fn nul_in_json_is_found_bare_and_escaped() {
        assert!(has_nul(r#""\u0000""#));
        assert!(has_nul("\"\0\""));
        assert!(has_nul(r#""\\\u0000""#));
        assert!(!has_nul(r#""\\u0000""#));
        assert!(!has_nul(r#""\u0001""#));
        assert!(!has_nul("\"é\\"));
    }
}
