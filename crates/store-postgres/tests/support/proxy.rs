//! A TCP proxy that holds or cuts a connection at a chosen message.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// One action on the bytes of the client, taken once, when they contain `needle`.
#[derive(Clone)]
pub(crate) struct Rule {
    pub(crate) needle: &'static [u8],
    pub(crate) action: Action,
    /// Gets a permit when the needle is seen.
    pub(crate) seen: Arc<Semaphore>,
    /// Held bytes go on when this has a permit.
    pub(crate) release: Arc<Semaphore>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Let the needle pass and hold the bytes behind it.
    HoldAfter,
    /// Hold the needle too.
    HoldBefore,
    /// Close both sides; the server never sees the needle.
    CutBefore,
    /// The server gets the needle, the client gets no answer.
    CutAfter,
    /// Close the side of the client at once; the server gets the needle later.
    CutThenDeliver(Duration),
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    armed: Arc<Mutex<Option<Rule>>>,
    upstream: Arc<Mutex<SocketAddr>>,
}

impl Proxy {
    pub(crate) async fn before(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let armed: Arc<Mutex<Option<Rule>>> = Arc::default();
        let rules = Arc::clone(&armed);
        let upstream = Arc::new(Mutex::new(upstream));
        let target = Arc::clone(&upstream);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let upstream = *target.lock().unwrap();
                let Ok(server) = TcpStream::connect(upstream).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let answers = tokio::spawn(copy(from_server, to_client));
                let rules = Arc::clone(&rules);
                tokio::spawn(async move {
                    forward(from_client, to_server, &rules, answers).await;
                });
            }
        });
        Proxy { port, armed, upstream }
    }

    /// Sends new connections to another server, as after a failover.
    pub(crate) fn lead_to(&self, port: u16) {
        *self.upstream.lock().unwrap() = SocketAddr::from(([127, 0, 0, 1], port));
    }

    /// Arms a rule for the next bytes with `needle`, on any connection.
    pub(crate) fn arm(&self, needle: &'static [u8], action: Action) -> Rule {
        let rule = Rule { needle, action, seen: Arc::new(Semaphore::new(0)), release: Arc::new(Semaphore::new(0)) };
        *self.armed.lock().unwrap() = Some(rule.clone());
        rule
    }
}

impl Rule {
    pub(crate) async fn wait_until_seen(&self) {
        self.seen.acquire().await.unwrap().forget();
    }

    pub(crate) fn release(&self) {
        self.release.add_permits(1);
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    armed: &Mutex<Option<Rule>>,
    answers: tokio::task::JoinHandle<()>,
) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let chunk = &buffer[..read];
        let Some((rule, end)) = matching(armed, chunk) else {
            if to.write_all(chunk).await.is_err() {
                break;
            }
            continue;
        };
        rule.seen.add_permits(1);
        match rule.action {
            Action::HoldAfter => {
                to.write_all(&chunk[..end]).await.unwrap();
                rule.release.acquire().await.unwrap().forget();
                let _ = to.write_all(&chunk[end..]).await;
            }
            Action::HoldBefore => {
                rule.release.acquire().await.unwrap().forget();
                let _ = to.write_all(chunk).await;
            }
            Action::CutBefore => {
                answers.abort();
                return;
            }
            Action::CutAfter => {
                answers.abort();
                drop(from);
                let _ = to.write_all(chunk).await;
                // The server must get the bytes before it sees that the client is gone.
                tokio::time::sleep(Duration::from_millis(300)).await;
                return;
            }
            Action::CutThenDeliver(after) => {
                answers.abort();
                drop(from);
                tokio::time::sleep(after).await;
                let _ = to.write_all(chunk).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
                return;
            }
        }
    }
    // The client has closed its side. Dropping this half tells the server.
}

fn matching(armed: &Mutex<Option<Rule>>, chunk: &[u8]) -> Option<(Rule, usize)> {
    let mut armed = armed.lock().unwrap();
    let needle = armed.as_ref()?.needle;
    let at = chunk.windows(needle.len()).position(|window| window == needle)?;
    armed.take().map(|rule| (rule, at + needle.len()))
}
