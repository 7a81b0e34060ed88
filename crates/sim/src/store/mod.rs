//! The database of a world, and the connections of nodes to it.
//!
//! - `database`: the model or SQLite, its clock, and the standby that may take over
//! - `connection`: the connection of one process: requests travel, are slow, fail, or lose their answers

mod connection;
mod database;

pub(crate) use connection::DatabaseConnection;
pub(crate) use database::{Database, wait_for};
