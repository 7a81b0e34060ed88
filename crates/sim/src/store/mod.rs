//! The database of a world, and how processes reach it.
//!
//! - `database`: the model or SQLite, its clock, and the standby that may take its place
//! - `handle`: one process's way to it: requests travel, are slow, fail, or lose their answers

mod database;
mod handle;

pub(crate) use database::{Database, wait_for};
pub(crate) use handle::Handle;
