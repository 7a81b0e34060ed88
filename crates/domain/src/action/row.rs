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
    pub fn new(field: &'static str, value: impl Into<String>) -> Self {
        RowFieldError { field, value: value.into() }
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
