//! Intents: the requests of callers, checked once, on construction.

use crate::id::{RequestId, SubmitterId};
use crate::limits::Limits;
use crate::names::names;
use crate::payload::Payload;
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
        Payload::Act(action) => action.check(submitter, &limits.action, errors),
        Payload::Reservation(request) if request.hold_ms == 0 || request.hold_ms > limits.hold_ms => {
            errors.add("/hold", format!("a nonce can be held for 1 to {} milliseconds", limits.hold_ms));
        }
        Payload::Reservation(_) => {}
    }
}

/// Errors of a draft, as they are found.
pub(crate) struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    pub(crate) fn add(&mut self, pointer: &'static str, message: String) {
        self.0.push(FieldError { pointer, message });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservation_hold_time_is_limited() {
        let hold = |hold_ms| {
            let lock_owner = crate::LockOwner::new("me").unwrap();
            let payload = Payload::Reservation(crate::ReservationRequest { lock_owner, hold_ms });
            let submitter = "stellar:testnet:GDLEWFXV".parse().unwrap();
            payload.check(&submitter, &Limits::default()).is_ok()
        };
        assert_eq!([hold(0), hold(1), hold(600_000), hold(600_001)], [false, true, true, false]);
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
