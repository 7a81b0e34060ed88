//! Query parameters. All faults are reported at once, also unknown and repeated parameters: a misspelled filter must
//! not mean "everything".

use std::time::Duration;

use axum::extract::{FromRequestParts, Query as Pairs};
use axum::http::request::Parts;
use gapless_wire::{FieldFault, Problem, ProblemCode, parse_wait};

use crate::limits::ApiLimits;
use crate::problem::Refusal;

/// Parameters that are not read yet.
#[derive(Debug)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
    faults: Vec<FieldFault>,
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Pairs::<Vec<(String, String)>>::from_request_parts(parts, state).await {
            Ok(Pairs(pairs)) => Ok(Query { pairs, faults: Vec::new() }),
            Err(error) => Err(Problem::new(ProblemCode::MalformedRequest).detail(error.body_text()).into()),
        }
    }
}

impl Query {
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let at = self.pairs.iter().position(|(key, _)| key == name)?;
        Some(self.pairs.remove(at).1)
    }

    pub(crate) fn read<T, E: ToString>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, E>) -> Option<T> {
        let text = self.text(name)?;
        read(&text).map_err(|error| self.fault(name, error.to_string())).ok()
    }

    pub(crate) fn required<T, E: ToString>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        if self.pairs.iter().all(|(key, _)| key != name) {
            self.fault(name, "this parameter is required");
        }
        self.read(name, read)
    }

    fn fault(&mut self, name: &str, message: impl Into<String>) {
        self.faults.push(FieldFault::query(name, message));
    }

    /// `wait`, limited to the longest allowed wait.
    pub(crate) fn wait(&mut self, limits: &ApiLimits) -> Option<Duration> {
        self.read("wait", parse_wait).map(|wait| wait.min(limits.wait_max))
    }

    /// `limit`, or the default.
    pub(crate) fn limit(&mut self, limits: &ApiLimits) -> u32 {
        let max = limits.page_size_max;
        let read = |text: &str| match whole_number(text) {
            Some(limit) if (1..=u64::from(max)).contains(&limit) => u32::try_from(limit).map_err(|_| String::new()),
            _ => Err(format!("a page has 1 to {max} items")),
        };
        self.read("limit", read).unwrap_or_else(|| limits.page_size_default.min(max))
    }

    /// Ends the parsing. Remaining parameters are unknown.
    pub(crate) fn finish(mut self) -> Result<(), Refusal> {
        for (name, _) in std::mem::take(&mut self.pairs) {
            self.fault(&name, "this parameter is unknown here, or given twice");
        }
        if self.faults.is_empty() { Ok(()) } else { Err(self.faults.into()) }
    }
}

/// Digits only: no sign, no white space.
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// `expand=a,b`: words of a known list.
pub(crate) fn expand<T>(query: &mut Query, parse: impl Fn(&str) -> Option<T>, known: &str) -> Vec<T> {
    let read = |text: &str| {
        let words: Option<Vec<T>> = text.split(',').map(&parse).collect();
        words.ok_or_else(|| format!("expand accepts: {known}"))
    };
    query.read("expand", read).unwrap_or_default()
}
