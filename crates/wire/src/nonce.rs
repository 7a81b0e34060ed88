//! Nonces in JSON: a number where every reader keeps all digits, and a decimal string above.
//!
//! Fields of views hold a plain `u64` and name this module: `#[serde(with = "nonce")]`, or `nonce::option`.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// The largest whole number that a JSON reader with double precision keeps exactly: 2^53 - 1.
pub(crate) const EXACT_IN_A_DOUBLE: u64 = (1 << 53) - 1;

/// A nonce: a JSON number up to 2^53 - 1, and a decimal string above. Both forms are read for every nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonNonce(pub u64);

impl Serialize for JsonNonce {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 <= EXACT_IN_A_DOUBLE { serializer.serialize_u64(self.0) } else { serializer.collect_str(&self.0) }
    }
}

impl<'de> Deserialize<'de> for JsonNonce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NonceVisitor)
    }
}

struct NonceVisitor;

impl Visitor<'_> for NonceVisitor {
    type Value = JsonNonce;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a nonce as a whole number or a decimal string")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<JsonNonce, E> {
        Ok(JsonNonce(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<JsonNonce, E> {
        let is_decimal = text.bytes().all(|digit| digit.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_decimal);
        number.map(JsonNonce).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

pub(crate) fn serialize<S: Serializer>(nonce: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    JsonNonce(*nonce).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    JsonNonce::deserialize(deserializer).map(|nonce| nonce.0)
}

/// A nonce that may be absent.
pub(crate) mod option {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::JsonNonce;

    pub(crate) fn serialize<S: Serializer>(nonce: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        nonce.map(JsonNonce).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Ok(Option::<JsonNonce>::deserialize(deserializer)?.map(|nonce| nonce.0))
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for JsonNonce {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
        let number = ObjectBuilder::new().schema_type(Type::Integer);
        let number = number.minimum(Some(0)).maximum(Some(EXACT_IN_A_DOUBLE));
        let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[0-9]+$"));
        let either = OneOfBuilder::new().item(number).item(text);
        let either = either.description(Some("A nonce: a number up to 2^53 - 1, and a decimal string above."));
        Schema::OneOf(either.build()).into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for JsonNonce {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct View {
        #[serde(with = "crate::nonce")]
        nonce: u64,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::nonce::option")]
        next: Option<u64>,
    }

    #[test]
    fn nonce_is_a_number_up_to_2_53_and_a_string_above() {
        let view = View { nonce: (1 << 53) - 1, next: Some(1 << 53) };
        let json = r#"{"nonce":9007199254740991,"next":"9007199254740992"}"#;
        assert_eq!(serde_json::to_string(&view).unwrap(), json);
        assert_eq!(serde_json::from_str::<View>(json).unwrap(), view);
        let most = View { nonce: u64::MAX, next: None };
        assert_eq!(serde_json::to_string(&most).unwrap(), r#"{"nonce":"18446744073709551615"}"#);
    }

    #[test]
    fn both_forms_of_a_nonce_are_read() {
        for json in [r#"{"nonce":7}"#, r#"{"nonce":"7"}"#, r#"{"nonce":"7","next":null}"#] {
            assert_eq!(serde_json::from_str::<View>(json).unwrap(), View { nonce: 7, next: None }, "{json}");
        }
        let large = r#"{"nonce":9007199254740993,"next":"9007199254740993"}"#;
        let view: View = serde_json::from_str(large).unwrap();
        assert_eq!((view.nonce, view.next), ((1 << 53) + 1, Some((1 << 53) + 1)));
    }

    #[test]
    fn other_texts_and_numbers_are_no_nonce() {
        for wrong in [r#""""#, r#""-1""#, r#""+1""#, r#"" 1""#, r#""0x1""#, "-1", "1.5", r#""18446744073709551616""#] {
            let json = format!(r#"{{"nonce":{wrong}}}"#);
            assert!(serde_json::from_str::<View>(&json).is_err(), "{json}");
        }
    }
}
