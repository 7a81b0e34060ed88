//! Payloads: the effect on chain that an intent asks for.

use std::fmt;

use alloy_primitives::{Address, B256, Bytes, Keccak256, U256};

use crate::amount::Amount;
use crate::reservation::LockOwner;

/// Content of an intent: one variant for each family of chains, and one for reservations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    Evm(EvmCall),
    Reservation(ReservationRequest),
}

/// A call, a transfer, or (without `to`) a contract creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvmCall {
    pub to: Option<Address>,
    pub value: Amount,
    pub data: Bytes,
    pub gas_limit: Option<u64>,
    pub fees: Option<Fees>,
    pub access_list: Vec<AccessListItem>,
    pub authorizations: Vec<Authorization>,
}

impl EvmCall {
    /// True if both calls have the same effect, apart from gas and fees.
    pub fn has_same_effect(&self, other: &EvmCall) -> bool {
        (self.to, self.value, &self.data) == (other.to, other.value, &other.data)
            && self.access_list == other.access_list
            && self.authorizations == other.authorizations
    }
}

/// A request for a reservation. The lane binds a nonce for it like for any other intent, and the caller signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationRequest {
    pub lock_owner: LockOwner,
    /// How long the nonce is held for the caller after the bind.
    pub hold_ms: u32,
}

/// Prices in wei per unit of gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fees {
    Legacy { gas_price: u128 },
    Eip1559 { max_fee: u128, max_priority_fee: u128 },
}

impl Fees {
    /// The highest price that one unit of gas can cost.
    pub fn highest_price(self) -> u128 {
        match self {
            Fees::Legacy { gas_price } => gas_price,
            Fees::Eip1559 { max_fee, .. } => max_fee,
        }
    }

    /// The highest share of the price that the block's producer gets.
    pub(crate) fn tip(self) -> u128 {
        match self {
            Fees::Legacy { gas_price } => gas_price,
            Fees::Eip1559 { max_priority_fee, .. } => max_priority_fee,
        }
    }

    /// True if the price or the tip is higher than in `other`.
    pub fn offers_more_than(self, other: Fees) -> bool {
        self.highest_price() > other.highest_price() || self.tip() > other.tip()
    }
}

/// Formats the price in wei per unit of gas.
impl fmt::Display for Fees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fees::Legacy { gas_price } => write!(f, "{gas_price}"),
            Fees::Eip1559 { max_fee, max_priority_fee } => write!(f, "{max_fee} with a tip of {max_priority_fee}"),
        }
    }
}

/// One entry of an EIP-2930 access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessListItem {
    pub address: Address,
    pub storage_keys: Vec<B256>,
}

/// A signed EIP-7702 authorization, as the caller submitted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    pub chain_id: U256,
    pub address: Address,
    pub nonce: u64,
    pub y_parity: bool,
    pub r: U256,
    pub s: U256,
}

/// Hash of a payload. A request id that comes again with another fingerprint is a conflict. Fingerprints are kept for
/// ever, so the encoding below never changes for payloads that can already be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PayloadFingerprint(pub B256);

impl Payload {
    pub fn fingerprint(&self) -> PayloadFingerprint {
        let mut hasher = FieldHasher(Keccak256::new());
        match self {
            Payload::Evm(call) => hasher.evm(call),
            Payload::Reservation(request) => {
                hasher.field(b"external/1");
                hasher.field(request.lock_owner.as_str().as_bytes());
            }
        }
        PayloadFingerprint(hasher.0.finalize())
    }

    /// The word that names the variant in rows and answers.
    pub fn kind(&self) -> &'static str {
        match self {
            Payload::Evm(_) => "evm",
            Payload::Reservation(_) => "external",
        }
    }
}

/// Hashes each field with its length first, so that no two payloads share an encoding.
struct FieldHasher(Keccak256);

impl FieldHasher {
    fn field(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn number(&mut self, value: U256) {
        self.field(&value.to_be_bytes::<32>());
    }

    fn evm(&mut self, call: &EvmCall) {
        self.field(b"evm/1");
        self.field(call.to.as_ref().map_or(&[], |to| to.as_slice()));
        self.number(call.value.get());
        self.field(&call.data);
        match call.gas_limit {
            Some(limit) => self.field(&limit.to_be_bytes()),
            None => self.field(&[]),
        }
        match call.fees {
            None => self.field(&[]),
            Some(Fees::Legacy { gas_price }) => self.field(&gas_price.to_be_bytes()),
            Some(Fees::Eip1559 { max_fee, max_priority_fee }) => {
                self.field(&[max_fee.to_be_bytes(), max_priority_fee.to_be_bytes()].concat());
            }
        }
        self.number(U256::from(call.access_list.len()));
        for item in &call.access_list {
            self.field(item.address.as_slice());
            self.field(&item.storage_keys.concat());
        }
        self.number(U256::from(call.authorizations.len()));
        for authorization in &call.authorizations {
            self.number(authorization.chain_id);
            self.field(authorization.address.as_slice());
            self.field(&authorization.nonce.to_be_bytes());
            self.field(&[u8::from(authorization.y_parity)]);
            self.number(authorization.r);
            self.number(authorization.s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> EvmCall {
        EvmCall { to: Some(Address::repeat_byte(7)), value: Amount::from(5_u64), ..EvmCall::default() }
    }

    /// Request ids and their fingerprints outlive every release. If this test fails, the encoding changed: give new
    /// fields a new version tag instead.
    #[test]
    fn payload_fingerprints_are_pinned() {
        let full = EvmCall {
            to: Some(Address::repeat_byte(0xab)),
            value: Amount::new(U256::MAX),
            data: Bytes::from_static(&[1, 2, 255]),
            gas_limit: Some(100_000),
            fees: Some(Fees::Eip1559 { max_fee: u128::MAX, max_priority_fee: 1 }),
            access_list: vec![AccessListItem {
                address: Address::repeat_byte(1),
                storage_keys: vec![B256::repeat_byte(2)],
            }],
            authorizations: vec![Authorization {
                chain_id: U256::from(1),
                address: Address::repeat_byte(3),
                nonce: 7,
                y_parity: true,
                r: U256::MAX,
                s: U256::from(5),
            }],
        };
        let creation = EvmCall { data: Bytes::from_static(&[0, 1, 255]), ..EvmCall::default() };
        let legacy = EvmCall { fees: Some(Fees::Legacy { gas_price: 3 }), ..call() };
        let lock_owner = LockOwner::new("me").unwrap();
        let reservation = Payload::Reservation(ReservationRequest { lock_owner, hold_ms: 5 });
        for (payload, pinned) in [
            (Payload::Evm(call()), "0xe01d43d84232e0bfb77fee69bf97446c633d1ccfec6291e4f1cf70cc29c5a015"),
            (Payload::Evm(full), "0xb47f26540577ecf4024cfcc145c3d86c9f673febeac918c60f30a9f1e6fe0c22"),
            (Payload::Evm(legacy), "0x7512347242aaa6a3e3fe2956e760f1f6600fa8266d243cc21e014eae6c688dd5"),
            (Payload::Evm(creation), "0xf71313dbb70650fa4dcc85f9036030bd3f08b3035c44779ad49f8cd99cedbf64"),
            (reservation, "0x1877281550df2e913293481798e4a627b6d6b6778d1582a18191d92b7b5a6882"),
        ] {
            assert_eq!(payload.fingerprint().0.to_string(), pinned, "{payload:?}");
        }
    }

    #[test]
    fn payload_fingerprint_covers_every_field() {
        let base = Payload::Evm(call()).fingerprint();
        let item = AccessListItem { address: Address::ZERO, storage_keys: vec![B256::ZERO] };
        let authorization = Authorization {
            chain_id: U256::from(1),
            address: Address::ZERO,
            nonce: 0,
            y_parity: false,
            r: U256::from(1),
            s: U256::from(1),
        };
        let others = [
            EvmCall { to: None, ..call() },
            EvmCall { value: Amount::from(6_u64), ..call() },
            EvmCall { data: Bytes::from_static(&[0]), ..call() },
            EvmCall { gas_limit: Some(0), ..call() },
            EvmCall { fees: Some(Fees::Legacy { gas_price: 1 }), ..call() },
            EvmCall { fees: Some(Fees::Eip1559 { max_fee: 1, max_priority_fee: 1 }), ..call() },
            EvmCall { access_list: vec![item], ..call() },
            EvmCall { authorizations: vec![authorization], ..call() },
        ];
        let mut seen = vec![base];
        for other in others {
            let fingerprint = Payload::Evm(other.clone()).fingerprint();
            assert!(!seen.contains(&fingerprint), "{other:?}");
            seen.push(fingerprint);
        }
    }
}
