//! Reservations for callers who sign: the low-level API, in which the answer contains the nonce.

use gapless_domain::{Bytes, IntentDraft, LockOwner, Payload, ReservationRequest, SubmitterId};
use serde::{Deserialize, Serialize};

use crate::command::CommandState;
use crate::names::Speed;
#[cfg(feature = "schema")]
use crate::nonce::JsonNonce;
use crate::payload::Reader;
use crate::problem::FieldFault;
use crate::wait::parse_wait;

/// Limit of signed bytes; chain nodes refuse longer transactions too.
pub const MAX_RAW_BYTES: usize = 128 * 1024;

/// A request to reserve a nonce.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReserveRequest {
    /// The caller's name for the reservation, unique per submitter for ever; generated if absent. The same id with the
    /// same `lockOwner`, which it requires, asks again for the same nonce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub request_id: Option<String>,
    /// The caller's proof that it holds the reservation: a secret, best a new one for each reservation. Required with a
    /// `requestId`, generated if both are absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 128))]
    pub lock_owner: Option<String>,
    /// Time for which the nonce is held after the bind; `60s` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[0-9]{1,6}(ms|s|m)$"))]
    pub hold: Option<String>,
}

/// A reservation, with its nonce once it is bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReservationView {
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: String,
    /// CAIP-10 id.
    pub submitter: String,
    pub request_id: String,
    pub lock_owner: String,
    /// The nonce; absent while the reservation is queued.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::nonce::option")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<JsonNonce>))]
    pub nonce: Option<u64>,
    /// End of the reservation, by the database's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub locked_until: Option<String>,
}

/// The signed transaction for a reserved nonce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitRequest {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 128))]
    pub lock_owner: String,
    /// The signed transaction, 0x-hex.
    #[cfg_attr(feature = "schema", schema(pattern = "^0x([0-9a-fA-F]{2})*$"))]
    pub raw: String,
}

/// A request to release a reserved nonce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseRequest {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 128))]
    pub lock_owner: String,
}

/// Result of a submit or a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReservationResult {
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: String,
    /// Hash of the submitted transaction; absent for a release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// `done`, or `open` while the lane has not executed it.
    pub state: CommandState,
    /// Id of the command to the lane; absent if there was nothing left to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
}

/// A well-formed request for a nonce.
#[derive(Clone, Debug)]
pub struct ReserveParts {
    request_id: Option<String>,
    lock_owner: Option<LockOwner>,
    hold_ms: u32,
}

impl ReserveRequest {
    /// Default hold.
    pub const DEFAULT_HOLD_MS: u32 = 60_000;

    /// Parses every field and reports all faults at once. The limit of the hold is checked later.
    pub fn read(self) -> Result<ReserveParts, Vec<FieldFault>> {
        let mut faults = Vec::new();
        let names_owner = self.lock_owner.is_some();
        let lock_owner = self.lock_owner.and_then(|text| read_lock_owner(&text, &mut faults));
        let hold_ms = self.hold.map_or(Self::DEFAULT_HOLD_MS, |text| match parse_wait(&text) {
            // A value that does not fit is above any limit.
            Ok(hold) => u32::try_from(hold.as_millis()).unwrap_or(u32::MAX),
            Err(_) => {
                faults
                    .push(FieldFault::body("/hold", "a time to hold is a whole number and its unit: 500ms, 60s or 1m"));
                0
            }
        });
        // Without the lock owner a repeated request would be a new one, and the caller could not use or release the
        // first.
        if self.request_id.is_some() && !names_owner {
            let message = "a requestId needs a lockOwner, so that the request can be repeated";
            faults.push(FieldFault::body("/lockOwner", message));
        }
        if faults.is_empty() {
            Ok(ReserveParts { request_id: self.request_id, lock_owner, hold_ms })
        } else {
            Err(faults)
        }
    }
}

impl ReserveParts {
    /// The draft of an intent. Missing names are taken from `fresh`, which must not be guessable.
    pub fn into_draft(self, submitter: SubmitterId, fresh: (String, LockOwner)) -> IntentDraft {
        let lock_owner = self.lock_owner.unwrap_or(fresh.1);
        IntentDraft {
            submitter,
            request_id: self.request_id.unwrap_or(fresh.0),
            payload: Payload::Reservation(ReservationRequest { lock_owner, hold_ms: self.hold_ms }),
            speed: Speed::Standard.into(),
            valid_until: None,
            metadata: None,
        }
    }
}

impl SubmitRequest {
    pub fn read(&self) -> Result<(LockOwner, Bytes), Vec<FieldFault>> {
        let mut faults = Vec::new();
        let lock_owner = read_lock_owner(&self.lock_owner, &mut faults);
        let raw = match self.raw.len() > 2 * MAX_RAW_BYTES + 2 {
            true => {
                let message = format!("a signed transaction has at most {MAX_RAW_BYTES} bytes");
                faults.push(FieldFault::body("/raw", message));
                None
            }
            false => Reader { faults: &mut faults }.bytes("/raw", &self.raw),
        };
        match (lock_owner, raw) {
            (Some(lock_owner), Some(raw)) => Ok((lock_owner, raw)),
            _ => Err(faults),
        }
    }
}

impl ReleaseRequest {
    pub fn read(&self) -> Result<LockOwner, Vec<FieldFault>> {
        let mut faults = Vec::new();
        read_lock_owner(&self.lock_owner, &mut faults).ok_or(faults)
    }
}

fn read_lock_owner(text: &str, faults: &mut Vec<FieldFault>) -> Option<LockOwner> {
    let read = LockOwner::new(text);
    if read.is_none() {
        let message = format!("a lock owner has 1 to {} bytes and no control characters", LockOwner::MAX_BYTES);
        faults.push(FieldFault::body("/lockOwner", message));
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_names_are_generated_and_given_ones_kept() {
        let lane: SubmitterId = "eip155:1:0x1111111111111111111111111111111111111111".parse().unwrap();
        let draft = |request: ReserveRequest| {
            request.read().unwrap().into_draft(lane.clone(), ("fresh".to_owned(), LockOwner::new("new").unwrap()))
        };
        let made_up = draft(ReserveRequest::default());
        let external = |owner: &str, hold_ms| {
            Payload::Reservation(ReservationRequest { lock_owner: LockOwner::new(owner).unwrap(), hold_ms })
        };
        assert_eq!((made_up.request_id.as_str(), made_up.payload), ("fresh", external("new", 60_000)));
        let mine = ReserveRequest {
            request_id: Some("a".to_owned()),
            lock_owner: Some("me".to_owned()),
            hold: Some("2m".to_owned()),
        };
        let mine = draft(mine);
        assert_eq!((mine.request_id.as_str(), mine.payload), ("a", external("me", 120_000)));
    }

    #[test]
    fn every_fault_has_its_pointer() {
        let pointers = |faults: Vec<FieldFault>| faults.into_iter().map(|fault| fault.pointer).collect::<Vec<_>>();
        let bad = ReserveRequest { request_id: None, lock_owner: Some(String::new()), hold: Some("soon".to_owned()) };
        assert_eq!(pointers(bad.read().unwrap_err()), ["/lockOwner", "/hold"]);
        let half = ReserveRequest { request_id: Some("a".to_owned()), ..ReserveRequest::default() };
        assert_eq!(pointers(half.read().unwrap_err()), ["/lockOwner"]);
        let long = format!("0x{}", "00".repeat(MAX_RAW_BYTES + 1));
        for raw in ["", "0x1", "12", long.as_str()] {
            let bad = SubmitRequest { lock_owner: "a\nb".to_owned(), raw: raw.to_owned() };
            assert_eq!(pointers(bad.read().unwrap_err()), ["/lockOwner", "/raw"]);
        }
        assert_eq!(pointers(ReleaseRequest { lock_owner: "x".repeat(129) }.read().unwrap_err()), ["/lockOwner"]);
    }
}
