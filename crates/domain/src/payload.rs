//! Payloads: the content of an intent.

use alloy_primitives::{B256, Keccak256, U256};

use crate::action::{Action, RowFieldError, RowFields, RowValue};
use crate::reservation::LockOwner;

/// The word for reservations in rows and answers.
const RESERVATION: &str = "external";

/// Content of an intent: an action that the lane signs and sends, or a nonce for a caller who signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    Act(Action),
    Reservation(ReservationRequest),
}

/// A request for a reservation. The lane binds a nonce for it like for any other intent, and the caller signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationRequest {
    pub lock_owner: LockOwner,
    /// How long the nonce is held for the caller after the bind.
    pub hold_ms: u32,
}

/// Hash of a payload. A request id that comes again with another fingerprint is a conflict. Fingerprints are kept for
/// ever, so the encoding never changes for payloads that can already be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PayloadFingerprint(pub B256);

impl Payload {
    /// The action; `None` for a reservation.
    pub fn action(&self) -> Option<&Action> {
        match self {
            Payload::Act(action) => Some(action),
            Payload::Reservation(_) => None,
        }
    }

    pub fn fingerprint(&self) -> PayloadFingerprint {
        let mut hasher = FieldHasher(Keccak256::new());
        match self {
            Payload::Act(action) => action.hash_into(&mut hasher),
            Payload::Reservation(request) => {
                hasher.field(b"external/1");
                hasher.field(request.lock_owner.as_str().as_bytes());
            }
        }
        PayloadFingerprint(hasher.0.finalize())
    }

    /// The word that names the kind of payload in rows and answers.
    pub fn kind(&self) -> &'static str {
        match self {
            Payload::Act(action) => action.kind(),
            Payload::Reservation(_) => RESERVATION,
        }
    }

    /// The payload as fields of a row. The first field is its kind.
    pub fn to_row(&self) -> RowValue {
        let mut row = RowFields::default().with("kind", RowValue::text(self.kind()));
        match self {
            Payload::Act(action) => row.0.extend(action.to_fields().0),
            Payload::Reservation(request) => {
                row = row
                    .with("lock_owner", RowValue::text(request.lock_owner.as_str()))
                    .with("hold_ms", RowValue::Number(request.hold_ms.into()));
            }
        }
        RowValue::Fields(row)
    }

    pub fn from_row(row: &RowValue) -> Result<Payload, RowFieldError> {
        let fields = row.fields("payload")?;
        let kind: String = fields.parsed("kind")?;
        if kind == RESERVATION {
            let owner: String = fields.parsed("lock_owner")?;
            let lock_owner = LockOwner::new(&owner).ok_or_else(|| RowFieldError::new("lock_owner", owner))?;
            let hold = fields.number("hold_ms")?;
            let hold_ms = u32::try_from(hold).map_err(|_| RowFieldError::new("hold_ms", hold.to_string()))?;
            return Ok(Payload::Reservation(ReservationRequest { lock_owner, hold_ms }));
        }
        let action = Action::from_fields(&kind, fields);
        action.unwrap_or_else(|| Err(RowFieldError::new("kind", kind))).map(Payload::Act)
    }
}

impl From<Action> for Payload {
    fn from(action: Action) -> Self {
        Payload::Act(action)
    }
}

/// Hashes each field with its length first, so that no two payloads share an encoding.
pub(crate) struct FieldHasher(Keccak256);

impl FieldHasher {
    pub(crate) fn field(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn number(&mut self, value: U256) {
        self.field(&value.to_be_bytes::<32>());
    }
}
