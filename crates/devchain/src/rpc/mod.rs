//! The dev chain as a JSON-RPC server, over HTTP and WebSocket on one port.
//!
//! - [`RpcServer`] is what is served: a chain, its [`Clock`], and its endpoints. `/` is the healthy endpoint, `/endpoint/{name}` a named
//!   one with faults and a lag of its own, so that a client can be given a dead, a lagging and a healthy node of one chain.
//! - [`serve`] is a future that somebody drives, and so is [`BlockProducer::run`].
//!
//! One request goes `http`/`socket` → `line` → `message` (JSON-RPC) → `dispatch` → `read`, `control` or the endpoint's send → `shape` (the
//! JSON of the answer).
//!
//! Architecture invariant: nothing in here decides what the chain does. Texts and codes of errors that geth gives for JSON-RPC itself are
//! here; those of the pool and of reads are the core's. Only `clock` knows what time it is.

mod args;
mod clock;
mod control;
mod dispatch;
mod fault_request;
mod http;
mod line;
mod listener;
mod message;
mod read;
mod request;
mod server;
mod shape;
mod socket;
mod subscription;
mod trace;

pub(crate) use args::{Args, invalid};
pub use clock::{BlockProducer, Clock, Mining, MiningSwitch};
pub use http::serve;
pub(crate) use http::serve_any;
pub(crate) use line::{FellBehind, Line, Reply, Road, Served};
pub(crate) use message::{
    Incoming, Invalid, METHOD_NOT_FOUND_CODE, Request, begin_success, end_success, failure, invalid as invalid_request,
    read_params,
};
pub use server::{DEFAULT_ENDPOINT, EndpointError, RpcLimits, RpcServer};
