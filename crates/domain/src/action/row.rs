//! The row form of actions: a tree of values that a store writes as JSON. The names and the order of the fields never
//! change for rows that can already be stored.

use std::borrow::Cow;
use std::str::FromStr;

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowValue {
    Null,
    Bool(bool),
    Number(u64),
    /// A number that no field of this release holds: negative, with a fraction, or above `u64`. Such a number is only
    /// read, and never written.
    OtherNumber(String),
    Text(String),
    List(Vec<RowValue>),
    Fields(RowFields),
}

/// Named values of a row, in the order in which they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFields(pub Vec<(Cow<'static, str>, RowValue)>);

/// A field of a row that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value}")]
pub struct RowFieldError {
    pub field: &'static str,
    pub value: String,
}

impl RowFieldError {
    /// Characters of a value that an error shows. A payload may be large.
    const SHOWN: usize = 100;

    pub fn new(field: &'static str, value: impl AsRef<str>) -> Self {
        RowFieldError { field, value: value.as_ref().chars().take(Self::SHOWN).collect() }
    }
}

impl RowValue {
    pub(crate) fn text(value: impl ToString) -> Self {
        RowValue::Text(value.to_string())
    }

    pub(crate) fn fields(&self, field: &'static str) -> Result<&RowFields, RowFieldError> {
        if let RowValue::Fields(fields) = self { Ok(fields) } else { Err(self.unreadable(field)) }
    }

    pub(crate) fn parse<T: FromStr>(&self, field: &'static str) -> Result<T, RowFieldError> {
        let RowValue::Text(text) = self else { return Err(self.unreadable(field)) };
        text.parse().map_err(|_| RowFieldError::new(field, text))
    }

    fn unreadable(&self, field: &'static str) -> RowFieldError {
        RowFieldError::new(field, format!("{self:?}"))
    }
}

impl RowFields {
    #[must_use]
    pub fn with(mut self, name: &'static str, value: RowValue) -> Self {
        self.0.push((Cow::Borrowed(name), value));
        self
    }

    /// Adds the field if there is a value.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<RowValue>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds the field if the list has items.
    #[must_use]
    pub fn with_list(self, name: &'static str, list: Vec<RowValue>) -> Self {
        if list.is_empty() { self } else { self.with(name, RowValue::List(list)) }
    }

    /// The value of a field that is present and not null.
    pub fn get(&self, name: &str) -> Option<&RowValue> {
        let found = self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value);
        found.filter(|value| **value != RowValue::Null)
    }

    pub(crate) fn required(&self, name: &'static str) -> Result<&RowValue, RowFieldError> {
        self.get(name).ok_or_else(|| RowFieldError::new(name, "missing"))
    }

    /// A text field, parsed.
    pub(crate) fn parsed<T: FromStr>(&self, name: &'static str) -> Result<T, RowFieldError> {
        self.required(name)?.parse(name)
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<u64, RowFieldError> {
        let value = self.required(name)?;
        if let RowValue::Number(number) = value { Ok(*number) } else { Err(value.unreadable(name)) }
    }

    pub(crate) fn bool(&self, name: &'static str) -> Result<bool, RowFieldError> {
        let value = self.required(name)?;
        if let RowValue::Bool(bool) = value { Ok(*bool) } else { Err(value.unreadable(name)) }
    }

    /// The items of a list; none if the field is absent.
    pub(crate) fn list(&self, name: &'static str) -> Result<&[RowValue], RowFieldError> {
        match self.get(name) {
            None => Ok(&[]),
            Some(RowValue::List(items)) => Ok(items),
            Some(other) => Err(other.unreadable(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_shows_at_most_100_characters_of_a_value() {
        let long = "é".repeat(5000);
        let fields = RowFields::default().with("list", RowValue::List(vec![RowValue::text(&long)]));
        let fields = fields.with("text", RowValue::text(&long));
        let errors = [fields.number("list").unwrap_err(), fields.parsed::<u64>("text").unwrap_err()];
        assert_eq!(errors.map(|error| error.value.chars().count()), [100, 100]);
        assert_eq!(RowFieldError::new("text", "short").to_string(), "text: short");
    }

    #[test]
    fn other_number_in_a_known_field_is_an_error() {
        let fields = RowFields::default().with("known", RowValue::OtherNumber("-1".to_owned()));
        assert!(fields.number("known").is_err() && fields.parsed::<i64>("known").is_err());
    }
}
