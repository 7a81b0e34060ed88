//! The payload of a transaction as callers write it, and its conversion to and from the domain.

use gapless_domain::{Action, Address, Amount, B256, Bytes, EvmCall, Fees, U256};
use serde::{Deserialize, Serialize};

use crate::nonce::EXACT_IN_A_DOUBLE;
use crate::problem::FieldFault;
use crate::quantity::Quantity;

/// A call, a transfer, or (without `to`) a contract creation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallPayload {
    /// Address of 0x and 40 hex digits; a mixed-case address must have the right EIP-55 checksum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^0x[0-9a-fA-F]{40}$"))]
    pub to: Option<String>,
    /// Wei: a decimal string or 0x-hex; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^([0-9]+|0x[0-9a-fA-F]+)$"))]
    pub value: Option<String>,
    /// Calldata or init code, 0x-hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^0x([0-9a-fA-F]{2})*$"))]
    pub data: Option<String>,
    /// Gas limit; estimated if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gas_limit: Option<Quantity>,
    /// Fees; chosen by speed if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fees: Option<FeesPayload>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_list: Vec<AccessListItem>,
    /// Signed EIP-7702 authorizations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorization_list: Vec<Authorization>,
}

/// Either `gasPrice`, or `maxFeePerGas` and `maxPriorityFeePerGas`; wei per gas, decimal strings or 0x-hex.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeesPayload {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^([0-9]+|0x[0-9a-fA-F]+)$"))]
    pub gas_price: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^([0-9]+|0x[0-9a-fA-F]+)$"))]
    pub max_fee_per_gas: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^([0-9]+|0x[0-9a-fA-F]+)$"))]
    pub max_priority_fee_per_gas: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessListItem {
    #[cfg_attr(feature = "schema", schema(pattern = "^0x[0-9a-fA-F]{40}$"))]
    pub address: String,
    /// Storage keys of 32 bytes, 0x-hex.
    #[serde(default)]
    pub storage_keys: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authorization {
    pub chain_id: Quantity,
    #[cfg_attr(feature = "schema", schema(pattern = "^0x[0-9a-fA-F]{40}$"))]
    pub address: String,
    /// Nonce of the authorizing account, signed by its owner; not a nonce of the submitter.
    pub nonce: Quantity,
    /// 0 or 1.
    pub y_parity: Quantity,
    #[cfg_attr(feature = "schema", schema(pattern = "^([0-9]+|0x[0-9a-fA-F]+)$"))]
    pub r: String,
    #[cfg_attr(feature = "schema", schema(pattern = "^([0-9]+|0x[0-9a-fA-F]+)$"))]
    pub s: String,
}

/// Collects faults while fields are parsed, so that all of them are reported at once.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) faults: &'a mut Vec<FieldFault>,
}

impl CallPayload {
    /// Parses the call. Faults go to `faults`, with pointers that begin with `base`.
    pub(crate) fn read(&self, base: &str, faults: &mut Vec<FieldFault>) -> EvmCall {
        let mut reader = Reader { faults };
        EvmCall {
            to: self.to.as_deref().and_then(|to| reader.address(&format!("{base}/to"), to)),
            value: self
                .value
                .as_deref()
                .and_then(|value| reader.amount(&format!("{base}/value"), value))
                .unwrap_or(Amount::ZERO),
            data: self.data.as_deref().and_then(|data| reader.bytes(&format!("{base}/data"), data)).unwrap_or_default(),
            gas_limit: self.gas_limit.as_ref().and_then(|gas| reader.small(&format!("{base}/gasLimit"), gas)),
            fees: self.fees.as_ref().and_then(|fees| reader.fees(&format!("{base}/fees"), fees)),
            access_list: reader.access_list(&format!("{base}/accessList"), &self.access_list),
            authorizations: reader.authorizations(&format!("{base}/authorizationList"), &self.authorization_list),
        }
    }
}

impl Reader<'_> {
    fn fault<T>(&mut self, pointer: &str, message: impl Into<String>) -> Option<T> {
        self.faults.push(FieldFault::body(pointer, message));
        None
    }

    /// A mixed-case address must have the right checksum, as in the address of a submitter.
    fn address(&mut self, pointer: &str, text: &str) -> Option<Address> {
        let digits = text.strip_prefix("0x").unwrap_or_default();
        if digits.len() != 40 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return self.fault(pointer, "an address is 0x and 40 hex digits");
        }
        let Ok(address) = text.parse::<Address>() else {
            return self.fault(pointer, "an address is 0x and 40 hex digits");
        };
        let mixed = digits.bytes().any(|b| b.is_ascii_lowercase()) && digits.bytes().any(|b| b.is_ascii_uppercase());
        if mixed && address.to_checksum(None) != text {
            return self.fault(
                pointer,
                "the letter case of the address does not match its EIP-55 checksum; check it for a typing error",
            );
        }
        Some(address)
    }

    fn amount(&mut self, pointer: &str, text: &str) -> Option<Amount> {
        text.parse()
            .map_err(|error: gapless_domain::AmountError| error.to_string())
            .map_or_else(|message| self.fault(pointer, message), Some)
    }

    fn price(&mut self, pointer: &str, text: &str) -> Option<u128> {
        let amount = self.amount(pointer, text)?;
        match u128::try_from(amount.get()) {
            Ok(price) => Some(price),
            Err(_) => self.fault(pointer, "a price has at most 128 bits"),
        }
    }

    pub(crate) fn bytes(&mut self, pointer: &str, text: &str) -> Option<Bytes> {
        let digits = text.strip_prefix("0x");
        match digits.and_then(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| text.parse().ok())) {
            Some(Some(bytes)) => Some(bytes),
            _ => self.fault(pointer, "bytes are 0x and an even number of hex digits"),
        }
    }

    fn word(&mut self, pointer: &str, text: &str) -> Option<B256> {
        if text.len() == 66
            && let Some(bytes) = self.bytes(pointer, text)
        {
            return B256::try_from(bytes.as_ref()).ok();
        }
        self.fault(pointer, "a storage key is 0x and 64 hex digits")
    }

    fn small(&mut self, pointer: &str, quantity: &Quantity) -> Option<u64> {
        match quantity.amount() {
            Ok(amount) => match u64::try_from(amount.get()) {
                Ok(number) => Some(number),
                Err(_) => self.fault(pointer, "the number has at most 64 bits"),
            },
            Err(error) => self.fault(pointer, error.to_string()),
        }
    }

    pub(crate) fn fees(&mut self, pointer: &str, fees: &FeesPayload) -> Option<Fees> {
        match (&fees.gas_price, &fees.max_fee_per_gas, &fees.max_priority_fee_per_gas) {
            (Some(price), None, None) => {
                self.price(&format!("{pointer}/gasPrice"), price).map(|gas_price| Fees::Legacy { gas_price })
            }
            (None, Some(max), Some(tip)) => {
                let max_fee = self.price(&format!("{pointer}/maxFeePerGas"), max);
                let max_priority_fee = self.price(&format!("{pointer}/maxPriorityFeePerGas"), tip);
                Some(Fees::Eip1559 { max_fee: max_fee?, max_priority_fee: max_priority_fee? })
            }
            _ => self.fault(pointer, "fees are either gasPrice, or maxFeePerGas and maxPriorityFeePerGas"),
        }
    }

    fn access_list(&mut self, pointer: &str, items: &[AccessListItem]) -> Vec<gapless_domain::AccessListItem> {
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let address = self.address(&format!("{pointer}/{index}/address"), &item.address);
            let mut storage_keys = Vec::with_capacity(item.storage_keys.len());
            for (place, key) in item.storage_keys.iter().enumerate() {
                storage_keys.extend(self.word(&format!("{pointer}/{index}/storageKeys/{place}"), key));
            }
            list.extend(address.map(|address| gapless_domain::AccessListItem { address, storage_keys }));
        }
        list
    }

    fn authorizations(&mut self, pointer: &str, items: &[Authorization]) -> Vec<gapless_domain::Authorization> {
        let read =
            items.iter().enumerate().map(|(index, item)| self.authorization(&format!("{pointer}/{index}"), item));
        read.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    fn authorization(&mut self, pointer: &str, item: &Authorization) -> Option<gapless_domain::Authorization> {
        let chain_id = match item.chain_id.amount() {
            Ok(amount) => Some(amount.get()),
            Err(error) => self.fault(&format!("{pointer}/chainId"), error.to_string()),
        };
        let address = self.address(&format!("{pointer}/address"), &item.address);
        let nonce = self.small(&format!("{pointer}/nonce"), &item.nonce);
        let parity_at = format!("{pointer}/yParity");
        let y_parity = match self.small(&parity_at, &item.y_parity) {
            Some(0) => Some(false),
            Some(1) => Some(true),
            Some(_) => self.fault(&parity_at, "yParity is 0 or 1"),
            None => None,
        };
        let r = self.amount(&format!("{pointer}/r"), &item.r).map(Amount::get);
        let s = self.amount(&format!("{pointer}/s"), &item.s).map(Amount::get);
        Some(gapless_domain::Authorization {
            chain_id: chain_id?,
            address: address?,
            nonce: nonce?,
            y_parity: y_parity?,
            r: r?,
            s: s?,
        })
    }
}

impl From<&Action> for CallPayload {
    fn from(action: &Action) -> Self {
        match action {
            Action::Evm(call) => CallPayload::from(call),
        }
    }
}

impl From<&EvmCall> for CallPayload {
    fn from(call: &EvmCall) -> Self {
        CallPayload {
            to: call.to.map(|to| to.to_checksum(None)),
            value: Some(call.value.to_string()),
            data: Some(call.data.to_string()),
            gas_limit: call.gas_limit.map(Quantity::from),
            fees: call.fees.map(FeesPayload::from),
            access_list: call.access_list.iter().map(AccessListItem::from).collect(),
            authorization_list: call.authorizations.iter().map(Authorization::from).collect(),
        }
    }
}

impl From<Fees> for FeesPayload {
    fn from(fees: Fees) -> Self {
        match fees {
            Fees::Legacy { gas_price } => {
                FeesPayload { gas_price: Some(gas_price.to_string()), ..FeesPayload::default() }
            }
            Fees::Eip1559 { max_fee, max_priority_fee } => FeesPayload {
                gas_price: None,
                max_fee_per_gas: Some(max_fee.to_string()),
                max_priority_fee_per_gas: Some(max_priority_fee.to_string()),
            },
        }
    }
}

impl From<&gapless_domain::AccessListItem> for AccessListItem {
    fn from(item: &gapless_domain::AccessListItem) -> Self {
        AccessListItem {
            address: item.address.to_checksum(None),
            storage_keys: item.storage_keys.iter().map(B256::to_string).collect(),
        }
    }
}

impl From<&gapless_domain::Authorization> for Authorization {
    fn from(item: &gapless_domain::Authorization) -> Self {
        Authorization {
            chain_id: quantity(item.chain_id),
            address: item.address.to_checksum(None),
            nonce: quantity(U256::from(item.nonce)),
            y_parity: Quantity::from(u64::from(item.y_parity)),
            r: format!("{:#x}", item.r),
            s: format!("{:#x}", item.s),
        }
    }
}

/// A number where every JSON reader keeps all digits, otherwise a string.
fn quantity(value: U256) -> Quantity {
    match u64::try_from(value) {
        Ok(small) if small <= EXACT_IN_A_DOUBLE => Quantity::Number(small),
        _ => Quantity::Text(value.to_string()),
    }
}
