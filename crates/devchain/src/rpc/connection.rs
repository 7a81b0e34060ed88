//! The interface between the transport and the chains behind it. The dev chain and the null chain share one HTTP
//! server.
//!
//! The transport passes texts in both directions. It knows neither their meaning nor how long an answer takes.

use super::server::{EndpointError, RpcLimits};

/// A chain that can be served. Clones are handles to the same chain.
pub(crate) trait RpcService: Clone + Send + Sync + 'static {
    type Connection: RpcConnection;

    fn limits(&self) -> &RpcLimits;

    /// Opens a connection to the endpoint with this name.
    fn connect(&self, endpoint: &str, transport: RpcTransport) -> Result<Self::Connection, EndpointError>;
}

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RpcTransport {
    Http,
    Socket,
}

/// A connection of one caller. Over HTTP it lives for one request, over a WebSocket as long as the socket.
pub(crate) trait RpcConnection: Send + 'static {
    /// True if the endpoint is dead: connections are refused.
    fn is_dead(&self) -> bool;

    fn answer(&mut self, text: &[u8]) -> impl Future<Output = RpcReply> + Send;

    /// The next notifications and delayed answers. Pending while there are none. The future is dropped and created
    /// again on other events of the connection, and must not lose texts by that.
    fn next_messages(&mut self) -> impl Future<Output = Result<Vec<String>, SubscriberLagged>> + Send;
}

/// The answer to a request text.
#[derive(Debug)]
pub(crate) enum RpcReply {
    Text(String),
    /// No answer is due, or it follows as a notification.
    Nothing,
    /// By a fault: the caller gets no answer.
    TimedOut,
    /// By a fault: the connection breaks.
    Disconnect,
    /// By a fault: an HTTP response without JSON-RPC.
    Http {
        status: u16,
        retry_after_secs: Option<u32>,
        body: String,
    },
}

/// The subscriber was too slow and events are lost. The connection is closed, so that the client notices and reads the
/// missed blocks.
#[derive(Debug, thiserror::Error)]
#[error("the subscriber fell behind")]
pub(crate) struct SubscriberLagged;
