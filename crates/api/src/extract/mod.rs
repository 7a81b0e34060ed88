//! How a request is read: each part tells what is wrong with it as a problem.

mod body;
mod path;
mod query;

pub(crate) use body::JsonBody;
pub(crate) use path::PathText;
pub(crate) use query::{Query, expand, whole_number};
