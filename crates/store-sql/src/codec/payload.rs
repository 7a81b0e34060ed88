//! Payloads and fees as JSON. The domain gives the values of a row; this module writes and reads their text.

use std::borrow::Cow;
use std::fmt;

use gapless_domain::{Fees, Payload, RowFieldError, RowFields, RowValue};
use gapless_store::RowError;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{from_json, to_json};

pub fn payload_to_json(payload: &Payload) -> String {
    to_json(&JsonRow(payload.to_row()))
}

pub fn payload_from_json(json: &str) -> Result<Payload, RowError> {
    from_json::<JsonRow>("payload", json)?.payload()
}

pub fn fees_to_json(fees: &Fees) -> String {
    to_json(&JsonRow(fees.to_row()))
}

pub fn fees_from_json(json: &str) -> Result<Fees, RowError> {
    from_json::<JsonRow>("fees", json)?.fees()
}

/// A value of a row with its JSON form.
pub(super) struct JsonRow(pub(super) RowValue);

impl JsonRow {
    pub(super) fn payload(&self) -> Result<Payload, RowError> {
        Payload::from_row(&self.0).map_err(unreadable)
    }

    pub(super) fn fees(&self) -> Result<Fees, RowError> {
        Fees::from_row(&self.0).map_err(unreadable)
    }
}

fn unreadable(error: RowFieldError) -> RowError {
    RowError::new(error.field, error.value)
}

impl Serialize for JsonRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Borrowed(&self.0).serialize(serializer)
    }
}

struct Borrowed<'a>(&'a RowValue);

impl Serialize for Borrowed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            RowValue::Null => serializer.serialize_unit(),
            RowValue::Bool(value) => serializer.serialize_bool(*value),
            RowValue::Number(value) => serializer.serialize_u64(*value),
            RowValue::Text(text) | RowValue::OtherNumber(text) => serializer.serialize_str(text),
            RowValue::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(&Borrowed(item)))?;
                list.end()
            }
            RowValue::Fields(RowFields(fields)) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                fields.iter().try_for_each(|(name, value)| map.serialize_entry(name.as_ref(), &Borrowed(value)))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for JsonRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonRowVisitor)
    }
}

struct JsonRowVisitor;

impl<'de> Visitor<'de> for JsonRowVisitor {
    type Value = JsonRow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a row")
    }

    fn visit_unit<E: de::Error>(self) -> Result<JsonRow, E> {
        Ok(JsonRow(RowValue::Null))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<JsonRow, E> {
        Ok(JsonRow(RowValue::Bool(value)))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<JsonRow, E> {
        Ok(JsonRow(RowValue::Number(value)))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<JsonRow, E> {
        let other = |_| RowValue::OtherNumber(value.to_string());
        Ok(JsonRow(u64::try_from(value).map_or_else(other, RowValue::Number)))
    }

    /// A number with a fraction, or one that is too large for 64 bits.
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<JsonRow, E> {
        Ok(JsonRow(RowValue::OtherNumber(value.to_string())))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<JsonRow, E> {
        Ok(JsonRow(RowValue::Text(text.to_owned())))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<JsonRow, E> {
        Ok(JsonRow(RowValue::Text(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonRow, A::Error> {
        let mut list = Vec::new();
        while let Some(JsonRow(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(JsonRow(RowValue::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<JsonRow, A::Error> {
        let mut fields = Vec::new();
        while let Some((name, JsonRow(value))) = entries.next_entry::<String, JsonRow>()? {
            fields.push((Cow::Owned(name), value));
        }
        Ok(JsonRow(RowValue::Fields(RowFields(fields))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::{Amount, LockOwner, ReservationRequest, U256, samples};

    fn full() -> Payload {
        samples::full(Amount::new(U256::MAX), u128::MAX, (7, U256::MAX)).into()
    }

    #[test]
    fn payloads_round_trip() {
        let plain = Payload::from(samples::transfer(0_u64).wishing(Some(Fees::flat(3)), None));
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
        let plain = samples::bare(5_u64).into();
        assert_eq!(payload_to_json(&plain), r#"{"kind":"evm","value":"5","data":"0x"}"#);
        assert_eq!(fees_to_json(&Fees::flat(3)), r#"{"gas_price":"3"}"#);
    }

    /// Rows that the first release wrote must load for ever.
    #[test]
    fn payload_of_the_first_release_loads() {
        let json = r#"{"kind":"evm","value":"5","data":"0x"}"#;
        assert_eq!(payload_from_json(json), Ok(samples::bare(5_u64).into()));
        let json = r#"{"kind":"external","lock_owner":"me","hold_ms":5}"#;
        assert!(payload_from_json(json).is_ok());
    }

    /// A newer release may add a field, and a field may have any value.
    #[test]
    fn unknown_field_with_any_value_is_ignored() {
        let text = "9".repeat(300);
        for value in ["null", "true", "7", "-7", "1.5", "-1e-3", "18446744073709551616", &text, r#""x""#, "[-1,1.5]"] {
            for value in [value.to_owned(), format!(r#"{{"inner":{value}}}"#)] {
                let json = format!(r#"{{"kind":"evm","value":"5","data":"0x","new":{value}}}"#);
                assert_eq!(payload_from_json(&json), Ok(samples::bare(5_u64).into()), "{json}");
                let json = format!(r#"{{"new":{value},"gas_price":"3"}}"#);
                assert_eq!(fees_from_json(&json), Ok(Fees::flat(3)), "{json}");
            }
        }
    }

    #[test]
    fn damaged_payload_is_an_error() {
        for json in [
            "",
            "{}",
            r#"{"kind":"evm","value":"-5","data":"0x"}"#,
            r#"{"kind":"evm","value":-5,"data":"0x"}"#,
            r#"{"kind":"evm","value":"5","data":"zz"}"#,
            r#"{"kind":"evm","value":"5","data":"0x","gas_limit":-1}"#,
            r#"{"kind":"evm","value":"5","data":"0x","gas_limit":1.5}"#,
        ] {
            assert!(payload_from_json(json).is_err(), "{json}");
        }
    }
}
