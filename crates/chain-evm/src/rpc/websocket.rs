//! One WebSocket to one node: questions, answers, and word of new heads.
//!
//! A task owns the connection, makes it again with growing pauses when it breaks, and ends when the road is dropped. While
//! it connects, questions wait; while it pauses, they are refused at once, so that others are asked instead.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{SinkExt as _, StreamExt as _};
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

use super::frame::{Answer, question};
use super::prompt::Prompt;
use super::{Call, Exchange, Fault, MAX_ANSWER_BYTES, Reply};
use crate::endpoint::now;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// A connection on which nothing was heard for so long is asked for a sign of life, and given up after as long again.
const SILENCE: Duration = Duration::from_secs(20);
/// A connection that takes nothing for so long is given up: while it is written to, nothing is read.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that answered and held for so long was a good one: after it the pauses are short again. One that is closed as
/// soon as it is made would else be made again for ever, several times a second.
const PROVEN_AFTER: Duration = Duration::from_secs(5);
/// In a long pause a question is a reason to try earlier, though not before this much of it.
const WAKE_AFTER: Duration = Duration::from_secs(5);
const MAX_QUEUED: usize = 1024;
/// Questions that leave together.
const MAX_TOGETHER: usize = 128;
/// Answers that nobody waits for any more are forgotten beyond this many.
const MAX_OPEN: usize = 100_000;
/// The number of our own question for new heads.
const SUBSCRIBE: u64 = 0;

/// Called with the number of a new head, and without one when a head may have been missed.
pub(crate) type HeadNews = Arc<dyn Fn(Option<u64>) + Send + Sync>;

pub(crate) struct WebSocketRoad {
    questions: mpsc::Sender<Question>,
    /// Dropping it ends the task.
    _task: JoinSet<()>,
}

struct Question {
    call: Call,
    reply: oneshot::Sender<Reply>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
type Socket = WebSocketStream<Box<dyn Stream>>;

struct Line {
    url: SecretUrl,
    tls: Arc<ClientConfig>,
    connect_timeout: Duration,
    news: HeadNews,
    questions: mpsc::Receiver<Question>,
}

impl WebSocketRoad {
    /// Must be called inside a tokio runtime.
    pub(crate) fn open(url: SecretUrl, tls: Arc<ClientConfig>, connect_timeout: Duration, news: HeadNews) -> Self {
        let (sender, questions) = mpsc::channel(MAX_QUEUED);
        let mut task = JoinSet::new();
        task.spawn(Line { url, tls, connect_timeout, news, questions }.keep());
        WebSocketRoad { questions: sender, _task: task }
    }

    /// Questions go one after the other without waiting for answers, so there is nothing to batch.
    pub(super) async fn exchange(&self, calls: &[Call]) -> Exchange {
        let mut answers = Vec::with_capacity(calls.len());
        for call in calls {
            let (reply, answer) = oneshot::channel();
            if self.questions.send(Question { call: call.clone(), reply }).await.is_err() {
                return Exchange::Failed(broken());
            }
            answers.push(answer);
        }
        let replies: Vec<Reply> =
            join_all(answers).await.into_iter().map(|reply| reply.unwrap_or_else(|_| Err(broken()))).collect();
        match replies.first() {
            Some(Err(fault @ Fault::Unreachable { .. })) if replies.iter().all(Result::is_err) => {
                Exchange::Failed(fault.clone())
            }
            _ => Exchange::Replies(replies),
        }
    }
}

fn broken() -> Fault {
    Fault::unreachable("the WebSocket connection broke")
}

async fn in_time(step: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    tokio::time::timeout_at(now() + SEND_TIMEOUT, step).await.unwrap_or_else(|_| Err(timed_out()))
}

fn timed_out() -> Error {
    Error::Io(std::io::ErrorKind::TimedOut.into())
}

/// One connection while it lasts.
struct Talk {
    socket: Socket,
    began: Instant,
    last_heard: Instant,
    /// More came than frames that a proxy makes by itself.
    answered: bool,
}

impl Talk {
    fn begin(socket: Socket) -> Self {
        let began = now();
        Talk { socket, began, last_heard: began, answered: false }
    }

    async fn say(&mut self, message: Message) -> Result<(), Error> {
        self.say_all(vec![message]).await
    }

    /// They leave together: a packet and a wake-up at the other end for each of them cost more than what they ask for.
    async fn say_all(&mut self, messages: Vec<Message>) -> Result<(), Error> {
        for message in messages {
            in_time(self.socket.feed(message)).await?;
        }
        in_time(self.socket.flush()).await
    }

    fn heard(&mut self, message: &Message) {
        self.last_heard = now();
        self.answered |= message.is_text();
    }

    fn is_proven(&self) -> bool {
        self.answered && self.last_heard.duration_since(self.began) >= PROVEN_AFTER
    }
}

impl Line {
    async fn keep(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let connected = tokio::time::timeout_at(now() + self.connect_timeout, self.connect()).await;
            let ended = match connected {
                Ok(Ok(socket)) => {
                    let mut talk = Talk::begin(socket);
                    let ended = self.talk(&mut talk).await;
                    if talk.is_proven() {
                        pause = FIRST_PAUSE;
                    }
                    ended
                }
                Ok(Err(error)) => Some(error),
                Err(_) => Some(timed_out()),
            };
            let Some(error) = ended else { return };
            let text = self.url.redact(&error.to_string());
            tracing::warn!(endpoint = self.url.name(), error = %text, "the WebSocket to a node is away");
            if !self.rest(pause, &text).await {
                return;
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Refuses questions until it is time to connect again; false if nobody is left to ask.
    async fn rest(&mut self, pause: Duration, why: &str) -> bool {
        let began = now();
        loop {
            match tokio::time::timeout_at(began + pause, self.questions.recv()).await {
                Err(_) => return true,
                Ok(None) => return false,
                Ok(Some(question)) => drop(question.reply.send(Err(Fault::unreachable(why)))),
            }
            if began.elapsed() >= WAKE_AFTER {
                return true;
            }
        }
    }

    async fn connect(&self) -> Result<Socket, Error> {
        let tcp = TcpStream::connect((self.url.host(), self.url.port())).await?;
        tcp.set_nodelay(true)?;
        let tcp = Prompt(tcp);
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
        let config =
            WebSocketConfig::default().max_message_size(Some(MAX_ANSWER_BYTES)).max_frame_size(Some(MAX_ANSWER_BYTES));
        let (socket, _) = client_async_with_config(request, stream, Some(config)).await?;
        Ok(socket)
    }

    /// Until the connection breaks (and why), or nobody is left to ask (`None`).
    async fn talk(&mut self, talk: &mut Talk) -> Option<Error> {
        let mut open: HashMap<u64, oneshot::Sender<Reply>> = HashMap::new();
        let mut next = SUBSCRIBE + 1;
        let mut asked_for_life = false;
        let mut asked = Vec::new();
        let subscribe = question(SUBSCRIBE, "eth_subscribe", &json!(["newHeads"]));
        if let Err(error) = talk.say(Message::text(subscribe.to_string())).await {
            return Some(error);
        }
        loop {
            // From what was heard last, and not from now: a question that is sent is no sign of life.
            let silent_at = talk.last_heard + if asked_for_life { SILENCE * 2 } else { SILENCE };
            tokio::select! {
                heard = tokio::time::timeout_at(silent_at, talk.socket.next()) => match heard {
                    Ok(Some(Ok(message))) => {
                        asked_for_life = false;
                        talk.heard(&message);
                        self.hear(&message, &mut open);
                    }
                    Ok(Some(Err(error))) => {
                        if matches!(error, Error::Capacity(_)) {
                            // Whose answer it was is not known; that the node is there is.
                            open.drain().for_each(|(_, reply)| drop(reply.send(Err(Fault::TooLarge))));
                        }
                        return Some(error);
                    }
                    Ok(None) => return Some(Error::ConnectionClosed),
                    Err(_) if asked_for_life => return Some(timed_out()),
                    Err(_) => {
                        asked_for_life = true;
                        if let Err(error) = talk.say(Message::Ping(Default::default())).await {
                            return Some(error);
                        }
                    }
                },
                count = self.questions.recv_many(&mut asked, MAX_TOGETHER) => {
                    if count == 0 {
                        return None;
                    }
                    if open.len() >= MAX_OPEN {
                        open.retain(|_, reply| !reply.is_closed());
                    }
                    let mut messages = Vec::with_capacity(count);
                    // Those that nobody waits for any more are not asked.
                    for Question { call, reply } in asked.drain(..).filter(|question| !question.reply.is_closed()) {
                        open.insert(next, reply);
                        messages.push(Message::text(question(next, call.method, &call.params).to_string()));
                        next += 1;
                    }
                    if let Err(error) = talk.say_all(messages).await {
                        return Some(error);
                    }
                }
            }
        }
    }

    fn hear(&self, message: &Message, open: &mut HashMap<u64, oneshot::Sender<Reply>>) {
        let Message::Text(text) = message else { return };
        if let Ok(Notice { params: Params { result } }) = serde_json::from_str(text) {
            let number = serde_json::from_str::<HeadRow>(result.get()).ok().map(|head| head.number.to());
            return (self.news)(number);
        }
        let Ok(answer) = serde_json::from_str::<Answer<'_>>(text) else { return };
        match answer.number() {
            // Whatever was between the last connection and this one, nobody told us.
            Some(SUBSCRIBE) => {
                if let Err(fault) = answer.into_reply() {
                    let fault = fault.redacted(&self.url);
                    tracing::warn!(endpoint = self.url.name(), ?fault, "the node tells of no new heads");
                }
                (self.news)(None);
            }
            Some(id) => {
                if let Some(reply) = open.remove(&id) {
                    drop(reply.send(answer.into_reply()));
                }
            }
            None => {}
        }
    }
}

#[derive(Deserialize)]
struct Notice<'a> {
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
}

#[derive(Deserialize)]
struct HeadRow {
    number: alloy_primitives::U64,
}

impl fmt::Debug for WebSocketRoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketRoad").finish_non_exhaustive()
    }
}
