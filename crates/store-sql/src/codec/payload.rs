//! Payloads and fees as JSON.

use gapless_domain::{AccessListItem, Authorization, EvmCall, Fees, LockOwner, Payload, ReservationRequest};
use gapless_store::RowError;
use serde::{Deserialize, Serialize};

use super::{from_json, parsed, to_json};

pub fn payload_to_json(payload: &Payload) -> String {
    to_json(&PayloadRow::from(payload))
}

pub fn payload_from_json(json: &str) -> Result<Payload, RowError> {
    from_json::<PayloadRow>("payload", json)?.try_into()
}

pub fn fees_to_json(fees: &Fees) -> String {
    to_json(&FeesRow::from(fees))
}

pub fn fees_from_json(json: &str) -> Result<Fees, RowError> {
    from_json::<FeesRow>("fees", json)?.try_into()
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum PayloadRow {
    Evm(Box<EvmRow>),
    External { lock_owner: String, hold_ms: u32 },
}

#[derive(Serialize, Deserialize)]
pub(super) struct EvmRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    value: String,
    data: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gas_limit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fees: Option<FeesRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    access_list: Vec<AccessListRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    authorizations: Vec<AuthorizationRow>,
}

/// Prices are decimal strings: JSON numbers lose digits above 2^53.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum FeesRow {
    Legacy { gas_price: String },
    Eip1559 { max_fee: String, max_priority_fee: String },
}

#[derive(Serialize, Deserialize)]
struct AccessListRow {
    address: String,
    keys: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct AuthorizationRow {
    chain_id: String,
    address: String,
    nonce: u64,
    y_parity: bool,
    r: String,
    s: String,
}

impl From<&Payload> for PayloadRow {
    fn from(payload: &Payload) -> Self {
        match payload {
            Payload::Evm(call) => PayloadRow::Evm(Box::new(EvmRow::from(call))),
            Payload::Reservation(request) => {
                PayloadRow::External { lock_owner: request.lock_owner.as_str().to_owned(), hold_ms: request.hold_ms }
            }
        }
    }
}

impl TryFrom<PayloadRow> for Payload {
    type Error = RowError;

    fn try_from(row: PayloadRow) -> Result<Self, RowError> {
        match row {
            PayloadRow::Evm(row) => (*row).try_into().map(Payload::Evm),
            PayloadRow::External { lock_owner, hold_ms } => {
                let lock_owner = LockOwner::new(&lock_owner).ok_or_else(|| RowError::new("lock_owner", lock_owner))?;
                Ok(Payload::Reservation(ReservationRequest { lock_owner, hold_ms }))
            }
        }
    }
}

impl From<&EvmCall> for EvmRow {
    fn from(call: &EvmCall) -> Self {
        EvmRow {
            to: call.to.map(|to| to.to_string()),
            value: call.value.to_string(),
            data: call.data.to_string(),
            gas_limit: call.gas_limit,
            fees: call.fees.as_ref().map(FeesRow::from),
            access_list: call.access_list.iter().map(AccessListRow::from).collect(),
            authorizations: call.authorizations.iter().map(AuthorizationRow::from).collect(),
        }
    }
}

impl TryFrom<EvmRow> for EvmCall {
    type Error = RowError;

    fn try_from(row: EvmRow) -> Result<Self, RowError> {
        Ok(EvmCall {
            to: row.to.map(|to| parsed("to", &to)).transpose()?,
            value: parsed("value", &row.value)?,
            data: parsed("data", &row.data)?,
            gas_limit: row.gas_limit,
            fees: row.fees.map(Fees::try_from).transpose()?,
            access_list: row.access_list.into_iter().map(AccessListItem::try_from).collect::<Result<_, _>>()?,
            authorizations: row.authorizations.into_iter().map(Authorization::try_from).collect::<Result<_, _>>()?,
        })
    }
}

impl From<&Fees> for FeesRow {
    fn from(fees: &Fees) -> Self {
        match fees {
            Fees::Legacy { gas_price } => FeesRow::Legacy { gas_price: gas_price.to_string() },
            Fees::Eip1559 { max_fee, max_priority_fee } => {
                FeesRow::Eip1559 { max_fee: max_fee.to_string(), max_priority_fee: max_priority_fee.to_string() }
            }
        }
    }
}

impl TryFrom<FeesRow> for Fees {
    type Error = RowError;

    fn try_from(row: FeesRow) -> Result<Self, RowError> {
        Ok(match row {
            FeesRow::Legacy { gas_price } => Fees::Legacy { gas_price: parsed("gas_price", &gas_price)? },
            FeesRow::Eip1559 { max_fee, max_priority_fee } => Fees::Eip1559 {
                max_fee: parsed("max_fee", &max_fee)?,
                max_priority_fee: parsed("max_priority_fee", &max_priority_fee)?,
            },
        })
    }
}

impl From<&AccessListItem> for AccessListRow {
    fn from(item: &AccessListItem) -> Self {
        AccessListRow {
            address: item.address.to_string(),
            keys: item.storage_keys.iter().map(ToString::to_string).collect(),
        }
    }
}

impl TryFrom<AccessListRow> for AccessListItem {
    type Error = RowError;

    fn try_from(row: AccessListRow) -> Result<Self, RowError> {
        let storage_keys = row.keys.iter().map(|key| parsed("storage key", key)).collect::<Result<_, _>>()?;
        Ok(AccessListItem { address: parsed("address", &row.address)?, storage_keys })
    }
}

impl From<&Authorization> for AuthorizationRow {
    fn from(authorization: &Authorization) -> Self {
        AuthorizationRow {
            chain_id: authorization.chain_id.to_string(),
            address: authorization.address.to_string(),
            nonce: authorization.nonce,
            y_parity: authorization.y_parity,
            r: authorization.r.to_string(),
            s: authorization.s.to_string(),
        }
    }
}

impl TryFrom<AuthorizationRow> for Authorization {
    type Error = RowError;

    fn try_from(row: AuthorizationRow) -> Result<Self, RowError> {
        Ok(Authorization {
            chain_id: parsed("chain_id", &row.chain_id)?,
            address: parsed("address", &row.address)?,
            nonce: row.nonce,
            y_parity: row.y_parity,
            r: parsed("r", &row.r)?,
            s: parsed("s", &row.s)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::{Address, Amount, B256, Bytes, U256};

    fn full() -> Payload {
        Payload::Evm(EvmCall {
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
        })
    }

    #[test]
    fn payloads_round_trip() {
        let plain = Payload::Evm(EvmCall { fees: Some(Fees::Legacy { gas_price: 3 }), ..EvmCall::default() });
        let reservation =
            Payload::Reservation(ReservationRequest { lock_owner: LockOwner::new("me").unwrap(), hold_ms: 5 });
        for payload in [full(), plain, reservation] {
            assert_eq!(payload_from_json(&payload_to_json(&payload)), Ok(payload));
        }
    }

    /// The exact text of rows. Two releases may run on one database.
    #[test]
    fn payload_rows_keep_their_exact_form() {
        let address = |byte: &str| format!("0x{}", byte.repeat(20));
        let authorization = format!(
            r#"{{"chain_id":"1","address":"{}","nonce":7,"y_parity":true,"r":"{}","s":"5"}}"#,
            address("03"),
            U256::MAX
        );
        let written = payload_to_json(&full());
        let expected = format!(
            concat!(
                r#"{{"kind":"evm","to":"{}","value":"{}","data":"0x0102ff","gas_limit":100000,"#,
                r#""fees":{{"max_fee":"{}","max_priority_fee":"1"}},"#,
                r#""access_list":[{{"address":"{}","keys":["0x{}"]}}],"authorizations":[{}]}}"#
            ),
            "0xABaBaBaBABabABabAbAbABAbABabababaBaBABaB",
            U256::MAX,
            u128::MAX,
            address("01"),
            "02".repeat(32),
            authorization
        );
        assert_eq!(written, expected);
        let reservation = ReservationRequest { lock_owner: LockOwner::new("me").unwrap(), hold_ms: 5 };
        let expected = r#"{"kind":"external","lock_owner":"me","hold_ms":5}"#;
        assert_eq!(payload_to_json(&Payload::Reservation(reservation)), expected);
        let plain = EvmCall { value: Amount::from(5_u64), ..EvmCall::default() };
        assert_eq!(payload_to_json(&Payload::Evm(plain)), r#"{"kind":"evm","value":"5","data":"0x"}"#);
        assert_eq!(fees_to_json(&Fees::Legacy { gas_price: 3 }), r#"{"gas_price":"3"}"#);
    }

    /// Rows that the first release wrote must load for ever.
    #[test]
    fn payload_of_the_first_release_loads() {
        let json = r#"{"kind":"evm","value":"5","data":"0x"}"#;
        let call = EvmCall { value: Amount::from(5_u64), ..EvmCall::default() };
        assert_eq!(payload_from_json(json), Ok(Payload::Evm(call)));
        let json = r#"{"kind":"external","lock_owner":"me","hold_ms":5}"#;
        assert!(payload_from_json(json).is_ok());
    }

    #[test]
    fn damaged_payload_is_an_error() {
        for json in
            ["", "{}", r#"{"kind":"evm","value":"-5","data":"0x"}"#, r#"{"kind":"evm","value":"5","data":"zz"}"#]
        {
            assert!(payload_from_json(json).is_err(), "{json}");
        }
    }
}
