//! Request parsing: each extractor reports faults as a problem.

mod body;
mod path;
mod query;

pub(crate) use body::{JsonBody, OptionalJsonBody};
pub(crate) use path::{PathPair, PathText};
pub(crate) use query::{Query, expand, whole_number};
