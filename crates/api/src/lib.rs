//! The HTTP API: routes, limits, and one mapping of everything that can go wrong to an answer.
//!
//! - [`router`] makes the routes from an [`App`].
//! - `routes/` has one file for each group of routes, `problem.rs` the error mapping, `extract/` what a request is read by.
//! - `guard.rs`, `auth.rs` with `hosts.rs`, and `observe.rs` are the layers around them; `openapi.rs` documents what they can answer.
//! - [`Changes`], [`Chains`] and [`Timer`] are what the routes need of the rest of the house.
//!
//! Architecture invariant: no route holds state of a transaction, decides anything about one, or needs a lease; any node
//! answers for any submitter, and no default answer tells which node works for what. Nothing here sleeps or reads a clock by
//! itself.

mod app;
mod auth;
mod directory;
mod drain;
mod extract;
mod guard;
mod hosts;
mod limits;
mod observe;
mod openapi;
mod ports;
mod problem;
mod routes;
mod shared;

pub use app::App;
pub use drain::Drain;
pub use hosts::AllowedHosts;
pub use limits::ApiLimits;
pub use ports::{ChainInfo, Chains, Changes, HeadInfo, SystemTimer, Timer};
pub use routes::router;
