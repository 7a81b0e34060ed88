//! The HTTP API: routes, limits, and one mapping of every error to an answer.
//!
//! - [`router`] builds the routes from an [`App`].
//! - `routes/` has one file for each group of routes, `problem.rs` the error mapping, `extract/` the request parsing.
//! - `guard.rs`, `auth.rs` with `hosts.rs`, and `observe.rs` are the layers around the routes; `openapi.rs` documents
//!   their answers.
//! - [`ChangeHints`] and [`Chains`] are the ports to the rest of the program.
//!
//! Architecture invariant: no route holds state of a transaction, decides anything about one, or needs a lease. Every
//! node answers for every submitter, and no default answer reveals which node owns a lane. No code here sleeps or reads
//! a clock by itself.

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
pub use ports::{ChainInfo, Chains, ChangeHints, HeadInfo};
pub use routes::router;
