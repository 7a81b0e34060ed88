//! The dev chain as a JSON-RPC server, over HTTP and WebSocket on one port.
//!
//! - [`RpcServer`] is a chain with its [`Clock`] and its endpoints. `/` is the default endpoint without faults.
//!   `/endpoint/{name}` is a named endpoint with its own faults and lag. A client can use a dead, a lagging and a
//!   healthy endpoint of one chain.
//! - The caller must drive the futures [`serve`] and [`BlockProducer::run`].
//!
//! A request passes `http`/`socket` → `connection` → `message` (JSON-RPC) → `dispatch` → `read`, `control` or the
//! endpoint's send → `shape` (the JSON of the answer).
//!
//! Architecture invariant: this module does not decide what the chain does. It has the error texts and codes of
//! JSON-RPC itself; those of the pool and of reads belong to the core. Only `clock` reads the time.

mod args;
mod clock;
mod connection;
mod control;
mod dispatch;
mod fault_request;
mod http;
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
pub(crate) use connection::{RpcConnection, RpcReply, RpcService, RpcTransport, SubscriberLagged};
pub use http::serve;
pub(crate) use http::serve_any;
pub(crate) use message::{
    Incoming, InvalidRequest, METHOD_NOT_FOUND_CODE, Request, begin_success, end_success, failure,
    invalid as invalid_request, read_params,
};
pub use server::{DEFAULT_ENDPOINT, EndpointError, RpcLimits, RpcServer};
