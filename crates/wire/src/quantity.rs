//! Small whole numbers, which callers may write in several ways.

use gapless_domain::{Amount, AmountError};
use serde::{Deserialize, Serialize};

/// A whole number: a JSON number, a decimal string or 0x-hex. For gas and similar counts. Amounts of money are strings
/// only, because JavaScript numbers lose their last digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a whole number, a decimal string or 0x-hex")]
pub enum Quantity {
    Number(u64),
    Text(String),
}

impl Quantity {
    pub fn amount(&self) -> Result<Amount, AmountError> {
        match self {
            Quantity::Number(number) => Ok(Amount::from(*number)),
            Quantity::Text(text) => text.parse(),
        }
    }
}

impl From<u64> for Quantity {
    fn from(number: u64) -> Self {
        Quantity::Number(number)
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Quantity {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
        let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
        let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^([0-9]+|0x[0-9a-fA-F]+)$"));
        let either = OneOfBuilder::new().item(number).item(text);
        let either = either.description(Some("A whole number: a JSON number, a decimal string or 0x-hex."));
        Schema::OneOf(either.build()).into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Quantity {}
