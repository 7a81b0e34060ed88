//! Actions on EVM chains: calls, transfers and contract creations.

use alloy_primitives::{Address, B256, Bytes, U256};

use super::fees::Fees;
use super::row::{RowFieldError, RowFields, RowValue};
use crate::amount::Amount;
use crate::id::ChainId;
use crate::intent::FieldErrors;
use crate::payload::FieldHasher;

/// The word for EVM calls in rows and answers.
pub(super) const KIND: &str = "evm";

/// The gas that every transaction costs.
const LEAST_GAS: u64 = 21_000;

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

/// Limits on the call of one intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvmLimits {
    /// Calldata or init code. Nodes reject transactions over 128 KiB.
    pub data_bytes: usize,
    pub access_list_items: usize,
    pub access_list_keys: usize,
    pub authorizations: usize,
    pub gas_limit: u64,
}

impl Default for EvmLimits {
    fn default() -> Self {
        EvmLimits {
            data_bytes: 120 * 1024,
            access_list_items: 256,
            access_list_keys: 2048,
            authorizations: 16,
            gas_limit: 1 << 32,
        }
    }
}

impl EvmCall {
    pub(super) fn has_same_effect(&self, other: &EvmCall) -> bool {
        self.has_same_purpose(other)
            && self.access_list == other.access_list
            && self.authorizations == other.authorizations
    }

    /// Compares recipient, value and data. Access lists and authorizations do not change the purpose of a call.
    pub(super) fn has_same_purpose(&self, other: &EvmCall) -> bool {
        (self.to, self.value, &self.data) == (other.to, other.value, &other.data)
    }

    pub(super) fn summary(&self) -> String {
        let to = self.to.map_or_else(|| "a new contract".to_owned(), |to| to.to_string());
        format!("to {to}, value {}, {} bytes of data", self.value, self.data.len())
    }

    pub(super) fn check(&self, chain: &ChainId, limits: &EvmLimits, errors: &mut FieldErrors) {
        if chain.evm_number().is_none() {
            errors.add("/payload", format!("an EVM call cannot be sent on {chain}"));
        }
        if self.data.len() > limits.data_bytes {
            errors.add("/payload/data", format!("data has at most {} bytes", limits.data_bytes));
        }
        if self.to.is_none() && self.data.is_empty() {
            errors.add("/payload/to", "set `to`, or set `data` to the code of a new contract".to_owned());
        }
        if self.to.is_none() && !self.authorizations.is_empty() {
            errors.add("/payload/authorizationList", "a contract creation cannot carry authorizations".to_owned());
        }
        match self.gas_limit {
            Some(limit) if limit > limits.gas_limit => {
                errors.add("/payload/gasLimit", format!("gasLimit is at most {}", limits.gas_limit));
            }
            Some(limit) if limit < LEAST_GAS => {
                errors.add("/payload/gasLimit", format!("gasLimit is at least {LEAST_GAS}"));
            }
            _ => {}
        }
        self.check_fees(errors);
        if self.access_list.len() > limits.access_list_items {
            let most = limits.access_list_items;
            errors.add("/payload/accessList", format!("an access list has at most {most} items"));
        }
        let keys: usize = self.access_list.iter().map(|item| item.storage_keys.len()).sum();
        if keys > limits.access_list_keys {
            errors.add("/payload/accessList", format!("an access list has at most {} keys", limits.access_list_keys));
        }
        if self.authorizations.len() > limits.authorizations {
            errors.add("/payload/authorizationList", format!("at most {} authorizations", limits.authorizations));
        }
    }

    fn check_fees(&self, errors: &mut FieldErrors) {
        match self.fees {
            Some(Fees::Eip1559 { max_fee, max_priority_fee }) if max_priority_fee > max_fee => {
                errors.add("/payload/fees", "maxPriorityFeePerGas is at most maxFeePerGas".to_owned());
            }
            Some(Fees::Legacy { .. }) if !self.authorizations.is_empty() => {
                errors.add("/payload/fees", "a transaction with authorizations needs EIP-1559 fees".to_owned());
            }
            _ => {}
        }
    }

    pub(super) fn hash_into(&self, hasher: &mut FieldHasher) {
        hasher.field(b"evm/1");
        hasher.field(self.to.as_ref().map_or(&[], |to| to.as_slice()));
        hasher.number(self.value.get());
        hasher.field(&self.data);
        match self.gas_limit {
            Some(limit) => hasher.field(&limit.to_be_bytes()),
            None => hasher.field(&[]),
        }
        match self.fees {
            None => hasher.field(&[]),
            Some(Fees::Legacy { gas_price }) => hasher.field(&gas_price.to_be_bytes()),
            Some(Fees::Eip1559 { max_fee, max_priority_fee }) => {
                hasher.field(&[max_fee.to_be_bytes(), max_priority_fee.to_be_bytes()].concat());
            }
        }
        hasher.number(U256::from(self.access_list.len()));
        for item in &self.access_list {
            hasher.field(item.address.as_slice());
            hasher.field(&item.storage_keys.concat());
        }
        hasher.number(U256::from(self.authorizations.len()));
        for authorization in &self.authorizations {
            hasher.number(authorization.chain_id);
            hasher.field(authorization.address.as_slice());
            hasher.field(&authorization.nonce.to_be_bytes());
            hasher.field(&[u8::from(authorization.y_parity)]);
            hasher.number(authorization.r);
            hasher.number(authorization.s);
        }
    }

    pub(super) fn to_fields(&self) -> RowFields {
        RowFields::default()
            .with_some("to", self.to.map(RowValue::text))
            .with("value", RowValue::text(self.value))
            .with("data", RowValue::text(&self.data))
            .with_some("gas_limit", self.gas_limit.map(RowValue::Number))
            .with_some("fees", self.fees.map(|fees| fees.to_row()))
            .with_list("access_list", self.access_list.iter().map(AccessListItem::to_row).collect())
            .with_list("authorizations", self.authorizations.iter().map(Authorization::to_row).collect())
    }

    pub(super) fn from_fields(fields: &RowFields) -> Result<EvmCall, RowFieldError> {
        Ok(EvmCall {
            to: fields.get("to").map(|to| to.parse("to")).transpose()?,
            value: fields.parsed("value")?,
            data: fields.parsed("data")?,
            gas_limit: fields.get("gas_limit").map(|_| fields.number("gas_limit")).transpose()?,
            fees: fields.get("fees").map(Fees::from_row).transpose()?,
            access_list: fields.list("access_list")?.iter().map(AccessListItem::from_row).collect::<Result<_, _>>()?,
            authorizations: fields
                .list("authorizations")?
                .iter()
                .map(Authorization::from_row)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl AccessListItem {
    fn to_row(&self) -> RowValue {
        let keys = self.storage_keys.iter().map(RowValue::text).collect();
        RowValue::Fields(
            RowFields::default().with("address", RowValue::text(self.address)).with("keys", RowValue::List(keys)),
        )
    }

    fn from_row(row: &RowValue) -> Result<AccessListItem, RowFieldError> {
        let fields = row.fields("access_list")?;
        fields.required("keys")?;
        let storage_keys = fields.list("keys")?.iter().map(|key| key.parse("keys")).collect::<Result<_, _>>()?;
        Ok(AccessListItem { address: fields.parsed("address")?, storage_keys })
    }
}

impl Authorization {
    fn to_row(&self) -> RowValue {
        RowValue::Fields(
            RowFields::default()
                .with("chain_id", RowValue::text(self.chain_id))
                .with("address", RowValue::text(self.address))
                .with("nonce", RowValue::Number(self.nonce))
                .with("y_parity", RowValue::Bool(self.y_parity))
                .with("r", RowValue::text(self.r))
                .with("s", RowValue::text(self.s)),
        )
    }

    fn from_row(row: &RowValue) -> Result<Authorization, RowFieldError> {
        let fields = row.fields("authorizations")?;
        Ok(Authorization {
            chain_id: fields.parsed("chain_id")?,
            address: fields.parsed("address")?,
            nonce: fields.number("nonce")?,
            y_parity: fields.bool("y_parity")?,
            r: fields.parsed("r")?,
            s: fields.parsed("s")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::samples;
    use crate::intent::{Intent, IntentDraft, InvalidIntent, Speed};
    use crate::limits::Limits;
    use crate::payload::{Payload, ReservationRequest};
    use crate::reservation::LockOwner;

    fn call() -> EvmCall {
        EvmCall { to: Some(Address::repeat_byte(7)), value: Amount::from(5_u64), ..EvmCall::default() }
    }

    /// Request ids and their fingerprints outlive every release. If this test fails, the encoding changed: give new
    /// fields a new version tag instead.
    #[test]
    fn payload_fingerprints_are_pinned() {
        let full = samples::full(Amount::new(U256::MAX), u128::MAX, (7, U256::MAX));
        let creation = EvmCall { data: Bytes::from_static(&[0, 1, 255]), ..EvmCall::default() };
        let legacy = EvmCall { fees: Some(Fees::Legacy { gas_price: 3 }), ..call() };
        let lock_owner = LockOwner::new("me").unwrap();
        let reservation = Payload::Reservation(ReservationRequest { lock_owner, hold_ms: 5 });
        for (payload, pinned) in [
            (Payload::from(call()), "0xe01d43d84232e0bfb77fee69bf97446c633d1ccfec6291e4f1cf70cc29c5a015"),
            (Payload::from(full), "0xb47f26540577ecf4024cfcc145c3d86c9f673febeac918c60f30a9f1e6fe0c22"),
            (Payload::from(legacy), "0x7512347242aaa6a3e3fe2956e760f1f6600fa8266d243cc21e014eae6c688dd5"),
            (Payload::from(creation), "0xf71313dbb70650fa4dcc85f9036030bd3f08b3035c44779ad49f8cd99cedbf64"),
            (reservation, "0x1877281550df2e913293481798e4a627b6d6b6778d1582a18191d92b7b5a6882"),
        ] {
            assert_eq!(payload.fingerprint().0.to_string(), pinned, "{payload:?}");
        }
    }

    #[test]
    fn payload_fingerprint_covers_every_field() {
        let base = Payload::from(call()).fingerprint();
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
            let fingerprint = Payload::from(other.clone()).fingerprint();
            assert!(!seen.contains(&fingerprint), "{other:?}");
            seen.push(fingerprint);
        }
    }

    fn draft(call: EvmCall) -> IntentDraft {
        IntentDraft {
            submitter: "eip155:1:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap(),
            request_id: "order-42".to_owned(),
            payload: call.into(),
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
        let mut limits = Limits { metadata_bytes: 2, ..Limits::default() };
        limits.action.evm = EvmLimits { data_bytes: 1, access_list_items: 0, gas_limit: 21_000, ..limits.action.evm };
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
    fn evm_call_on_non_evm_chain_is_rejected() {
        let other = IntentDraft { submitter: "stellar:testnet:GDLEWFXV".parse().unwrap(), ..draft(transfer()) };
        assert_eq!(pointers(Intent::new(other, &Limits::default())), ["/payload"]);
    }
}
