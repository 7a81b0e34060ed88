//! One WebSocket to one node: calls, responses and new heads.
//!
//! A task owns the connection. It reconnects with growing pauses and ends when the transport is dropped. Calls wait
//! while the task connects. During a pause they fail at once, so that another endpoint is asked.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{SinkExt as _, StreamExt as _};
use gapless_domain::Backoff;
use gapless_secret::SecretUrl;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::frame::{Response, request};
use super::quick_ack::QuickAckStream;
use super::{Exchange, MAX_RESPONSE_BYTES, Reply, RpcCall, RpcFailure};
use crate::endpoint::now;
use crate::jitter;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A connection without incoming data for this long is pinged. After the same time again it is closed.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// A connection that accepts no data for this long is closed: nothing is read while the task writes.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that answered and lasted this long resets the pauses. A server that closes every connection at once
/// would otherwise be dialed several times a second.
const PROVEN_AFTER: Duration = Duration::from_secs(5);
/// After this part of a long pause a call makes the task reconnect early.
const EARLY_RECONNECT_AFTER: Duration = Duration::from_secs(5);
const MAX_QUEUED: usize = 1024;
/// Calls that are written with one flush.
const MAX_FLUSHED: usize = 128;
/// Above this number of open calls, abandoned calls are dropped.
const MAX_OPEN: usize = 100_000;
/// The request id of the subscription to new heads.
const SUBSCRIBE_ID: u64 = 0;

/// Called with the number of a new head, and with `None` when heads may have been missed.
pub(crate) type HeadListener = Arc<dyn Fn(Option<u64>) + Send + Sync>;

pub(crate) struct WebSocketTransport {
    calls: mpsc::Sender<PendingCall>,
    /// Dropping the set ends the task.
    _task: JoinSet<()>,
}

/// A call that waits for its reply.
struct PendingCall {
    call: RpcCall,
    reply: oneshot::Sender<Reply>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
type Socket = WebSocketStream<Box<dyn Stream>>;

/// The task that owns the connection.
struct ConnectionTask {
    url: SecretUrl,
    tls: Arc<ClientConfig>,
    connect_timeout: Duration,
    on_head: HeadListener,
    calls: mpsc::Receiver<PendingCall>,
}

impl WebSocketTransport {
    /// Must be called inside a tokio runtime.
    pub(crate) fn open(
        url: SecretUrl,
        tls: Arc<ClientConfig>,
        connect_timeout: Duration,
        on_head: HeadListener,
    ) -> Self {
        let (sender, calls) = mpsc::channel(MAX_QUEUED);
        let mut task = JoinSet::new();
        task.spawn(ConnectionTask { url, tls, connect_timeout, on_head, calls }.run());
        WebSocketTransport { calls: sender, _task: task }
    }

    /// Calls are pipelined, so there are no batches.
    pub(super) async fn exchange(&self, calls: &[RpcCall]) -> Exchange {
        let mut receivers = Vec::with_capacity(calls.len());
        for call in calls {
            let (reply, receiver) = oneshot::channel();
            if self.calls.send(PendingCall { call: call.clone(), reply }).await.is_err() {
                return Exchange::Failed(broken());
            }
            receivers.push(receiver);
        }
        let replies: Vec<Reply> =
            join_all(receivers).await.into_iter().map(|reply| reply.unwrap_or_else(|_| Err(broken()))).collect();
        match replies.first() {
            Some(Err(failure @ RpcFailure::Unreachable { .. })) if replies.iter().all(Result::is_err) => {
                Exchange::Failed(failure.clone())
            }
            _ => Exchange::Replies(replies),
        }
    }
}

fn broken() -> RpcFailure {
    RpcFailure::unreachable("the WebSocket connection broke")
}

async fn within_send_timeout(step: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    tokio::time::timeout_at(now() + SEND_TIMEOUT, step).await.unwrap_or_else(|_| Err(timed_out()))
}

fn timed_out() -> Error {
    Error::Io(std::io::ErrorKind::TimedOut.into())
}

/// An open connection.
struct Connection {
    socket: Socket,
    opened_at: Instant,
    last_received_at: Instant,
    /// A text frame came. Other frames may come from a proxy.
    answered: bool,
}

impl Connection {
    fn new(socket: Socket) -> Self {
        let opened_at = now();
        Connection { socket, opened_at, last_received_at: opened_at, answered: false }
    }

    async fn send(&mut self, message: Message) -> Result<(), Error> {
        self.send_all(vec![message]).await
    }

    /// Sends with one flush. A packet and a wake-up of the node for each message would cost more than the calls.
    async fn send_all(&mut self, messages: Vec<Message>) -> Result<(), Error> {
        for message in messages {
            within_send_timeout(self.socket.feed(message)).await?;
        }
        within_send_timeout(self.socket.flush()).await
    }

    fn note_received(&mut self, message: &Message) {
        self.last_received_at = now();
        self.answered |= message.is_text();
    }

    fn is_proven(&self) -> bool {
        self.answered && self.last_received_at.duration_since(self.opened_at) >= PROVEN_AFTER
    }
}

impl ConnectionTask {
    async fn run(mut self) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let connected = tokio::time::timeout_at(now() + self.connect_timeout, self.connect()).await;
            let ended = match connected {
                Ok(Ok(socket)) => {
                    let mut connection = Connection::new(socket);
                    let ended = self.serve(&mut connection).await;
                    if connection.is_proven() {
                        backoff.reset();
                    }
                    ended
                }
                Ok(Err(error)) => Some(error),
                Err(_) => Some(timed_out()),
            };
            let Some(error) = ended else { return };
            let text = self.url.redact(&error.to_string());
            tracing::warn!(endpoint = self.url.name(), error = %text, "WebSocket down");
            if !self.refuse_calls(backoff.next(jitter::random()), &text).await {
                return;
            }
        }
    }

    /// Fails all calls until it is time to reconnect. Returns false if the transport was dropped.
    async fn refuse_calls(&mut self, pause: Duration, why: &str) -> bool {
        let began = now();
        loop {
            match tokio::time::timeout_at(began + pause, self.calls.recv()).await {
                Err(_) => return true,
                Ok(None) => return false,
                Ok(Some(pending)) => drop(pending.reply.send(Err(RpcFailure::unreachable(why)))),
            }
            if began.elapsed() >= EARLY_RECONNECT_AFTER {
                return true;
            }
        }
    }

    async fn connect(&self) -> Result<Socket, Error> {
        let tcp = TcpStream::connect((self.url.host(), self.url.port())).await?;
        tcp.set_nodelay(true)?;
        let tcp = QuickAckStream(tcp);
        let stream: Box<dyn Stream> = if self.url.scheme() == "wss" {
            let name = ServerName::try_from(self.url.host().to_owned()).map_err(std::io::Error::other)?;
            Box::new(TlsConnector::from(Arc::clone(&self.tls)).connect(name, tcp).await?)
        } else {
            Box::new(tcp)
        };
        let mut request = self.url.expose_without_credentials().into_client_request()?;
        if let Some(authorization) = self.url.basic_authorization() {
            let mut value = HeaderValue::from_str(&authorization).map_err(std::io::Error::other)?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_RESPONSE_BYTES))
            .max_frame_size(Some(MAX_RESPONSE_BYTES));
        let (socket, _) = client_async_with_config(request, stream, Some(config)).await?;
        Ok(socket)
    }

    /// Serves calls until the connection breaks. Returns the cause, or `None` if the transport was dropped.
    async fn serve(&mut self, connection: &mut Connection) -> Option<Error> {
        let mut open: HashMap<u64, oneshot::Sender<Reply>> = HashMap::new();
        let mut next_id = SUBSCRIBE_ID + 1;
        let mut pinged = false;
        let mut received = Vec::new();
        let subscribe = request(SUBSCRIBE_ID, "eth_subscribe", &json!(["newHeads"]));
        if let Err(error) = connection.send(Message::text(subscribe.to_string())).await {
            return Some(error);
        }
        loop {
            // Counted from the last incoming data: an outgoing call proves nothing.
            let silent_at = connection.last_received_at + if pinged { SILENCE_MAX * 2 } else { SILENCE_MAX };
            tokio::select! {
                message = tokio::time::timeout_at(silent_at, connection.socket.next()) => match message {
                    Ok(Some(Ok(message))) => {
                        pinged = false;
                        connection.note_received(&message);
                        self.handle(&message, &mut open);
                    }
                    Ok(Some(Err(error))) => {
                        if matches!(error, Error::Capacity(_)) {
                            // The call of the oversized response is unknown. The node itself is up.
                            open.drain().for_each(|(_, reply)| drop(reply.send(Err(RpcFailure::TooLarge))));
                        }
                        return Some(error);
                    }
                    Ok(None) => return Some(Error::ConnectionClosed),
                    Err(_) if pinged => return Some(timed_out()),
                    Err(_) => {
                        pinged = true;
                        if let Err(error) = connection.send(Message::Ping(Default::default())).await {
                            return Some(error);
                        }
                    }
                },
                count = self.calls.recv_many(&mut received, MAX_FLUSHED) => {
                    if count == 0 {
                        return None;
                    }
                    if open.len() >= MAX_OPEN {
                        open.retain(|_, reply| !reply.is_closed());
                    }
                    let mut messages = Vec::with_capacity(count);
                    // Abandoned calls are not sent.
                    for PendingCall { call, reply } in received.drain(..).filter(|pending| !pending.reply.is_closed()) {
                        open.insert(next_id, reply);
                        messages.push(Message::text(request(next_id, call.method, &call.params).to_string()));
                        next_id += 1;
                    }
                    if let Err(error) = connection.send_all(messages).await {
                        return Some(error);
                    }
                }
            }
        }
    }

    fn handle(&self, message: &Message, open: &mut HashMap<u64, oneshot::Sender<Reply>>) {
        let Message::Text(text) = message else { return };
        if let Ok(Notification { params: Params { result } }) = serde_json::from_str(text) {
            let number = serde_json::from_str::<NewHeadRow>(result.get()).ok().map(|head| head.number.to());
            return (self.on_head)(number);
        }
        let Ok(response) = serde_json::from_str::<Response<'_>>(text) else { return };
        match response.number() {
            // Heads between the last connection and this one may have been missed.
            Some(SUBSCRIBE_ID) => {
                if let Err(failure) = response.into_reply() {
                    let failure = failure.redacted(&self.url);
                    tracing::warn!(endpoint = self.url.name(), ?failure, "subscription to new heads refused");
                }
                (self.on_head)(None);
            }
            Some(id) => {
                if let Some(reply) = open.remove(&id) {
                    drop(reply.send(response.into_reply()));
                }
            }
            None => {}
        }
    }
}

#[derive(Deserialize)]
struct Notification<'a> {
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
}

#[derive(Deserialize)]
struct NewHeadRow {
    number: alloy_primitives::U64,
}

impl fmt::Debug for WebSocketTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketTransport").finish_non_exhaustive()
    }
}
