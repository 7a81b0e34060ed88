//! The seam between the transport and what answers: two chains speak through one server.
//!
//! The transport brings texts and takes texts. Whose they are, what they mean and how long an answer takes is behind this.

use super::server::{EndpointError, RpcLimits};

/// What is served. Clones are handles onto the same one.
pub(crate) trait Served: Clone + Send + Sync + 'static {
    type Line: Line;

    fn limits(&self) -> &RpcLimits;

    /// A caller's line to the endpoint of a name.
    fn line(&self, endpoint: &str, road: Road) -> Result<Self::Line, EndpointError>;
}

/// How a caller came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Road {
    Http,
    Socket,
}

/// One caller's line: over HTTP it lives for one text, over a WebSocket as long as the connection.
pub(crate) trait Line: Send + 'static {
    /// Nobody answers here: connections are refused.
    fn is_dead(&self) -> bool;

    fn answer(&mut self, text: &[u8]) -> impl Future<Output = Reply> + Send;

    /// What the caller hears beside the answers, and answers that took their time; never, while there is nothing to tell. It is given
    /// up and begun again whenever something else happens on the connection, and must not lose anything by that.
    fn news(&mut self) -> impl Future<Output = Result<Vec<String>, FellBehind>> + Send;
}

/// What becomes of a text.
#[derive(Debug)]
pub(crate) enum Reply {
    Text(String),
    /// Nobody waits for an answer, or it comes as news.
    Nothing,
    /// A fault: the caller hears nothing.
    Silence,
    /// A fault: the connection breaks.
    Disconnect,
    /// A fault: an answer that is no JSON-RPC.
    Http {
        status: u16,
        retry_after_secs: Option<u32>,
        body: String,
    },
}

/// The connection was too slow, and events are lost. It is closed, so that its client notices and reads what it missed.
#[derive(Debug, thiserror::Error)]
#[error("the subscriber fell behind")]
pub(crate) struct FellBehind;
