//! A TCP proxy that a test can cut, close, slow down, or redirect to another server.
//!
//! A client connects to the proxy instead of its server. A cut behaves like a network that drops every packet: no error
//! is reported, and bytes in flight arrive when the proxy heals, perhaps long after their sender gave up. That is
//! harder on both sides than a closed connection, which [`FaultProxy::drop_all`] produces.
//!
//! The proxy does not interpret the bytes. Two threads per connection copy them; the threads end with the proxy.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::Error;
use crate::clock::pause;

/// Limit of open connections; further connections are closed at once.
const CONNECTIONS_MAX: usize = 1024;
/// Bytes copied at once, and so the most that a delay holds back.
const CHUNK_BYTES: usize = 64 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A loopback port that forwards to another one until this value is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Target port of new connections.
    server: SocketAddr,
    link: Link,
    delay: Duration,
    /// Both ends of each connection; only the client's end until the server is connected. A missing id means that the
    /// connection has ended.
    connections: HashMap<u64, Vec<TcpStream>>,
    /// Number of connections so far, and the id of the next one.
    opened: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Open,
    Cut,
    Closed,
    /// The proxy has been dropped.
    Gone,
}

impl FaultProxy {
    /// Forwards to a loopback port, whether or not a server listens there yet.
    pub fn start(server_port: u16) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::io("listening for a proxy"))?;
        let port = listener.local_addr().map_err(Error::io("asking for a proxy's port"))?.port();
        let (server, connections) = (loopback(server_port), HashMap::new());
        let state = State { server, link: Link::Open, delay: Duration::ZERO, connections, opened: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        let acceptor = Builder::new().name(format!("proxy-{port}")).spawn(move || accept_all(&accepting, &listener));
        let acceptor = acceptor.map_err(Error::io("starting a proxy's thread"))?;
        Ok(Self { port, shared, acceptor: Some(acceptor) })
    }

    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Number of open connections, including connections that wait for the end of a cut.
    pub fn connections(&self) -> usize {
        self.shared.state().connections.len()
    }

    /// Forwards new connections to another loopback port, as after a failover. Existing connections stay.
    pub fn lead_to(&self, server_port: u16) {
        self.shared.state().server = loopback(server_port);
    }

    /// Stops all bytes in both directions without an error. New connections are accepted and hang.
    pub fn cut(&self) {
        self.shared.set(Link::Cut);
    }

    /// Closes every connection, and every new one at once, until the proxy heals.
    pub fn drop_all(&self) {
        self.shared.set(Link::Closed);
    }

    /// Delays bytes in each direction. One chunk waits at a time, so throughput falls too.
    pub fn delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Forwards everything without delay. Bytes that were sent during a cut arrive now, in order.
    pub fn heal(&self) {
        self.delay(Duration::ZERO);
        self.shared.set(Link::Open);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.set(Link::Gone);
        // The acceptor thread wakes only for a new connection.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics with the lock held, and no write is ever half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, link: Link) {
        let mut state = self.state();
        state.link = link;
        if matches!(link, Link::Closed | Link::Gone) {
            for end in state.connections.drain().flat_map(|(_, ends)| ends) {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
        self.changed.notify_all();
    }

    /// Registers a connection, unless it must be closed at once.
    fn admit(&self, client: &TcpStream) -> Option<u64> {
        let mut state = self.state();
        if matches!(state.link, Link::Closed | Link::Gone) || state.connections.len() >= CONNECTIONS_MAX {
            return None;
        }
        let (id, end) = (state.opened, client.try_clone().ok()?);
        state.opened += 1;
        state.connections.insert(id, vec![end]);
        Some(id)
    }

    /// Adds the server's end. Returns false if the connection has ended meanwhile.
    fn add_end(&self, id: u64, server: &TcpStream) -> bool {
        let Ok(end) = server.try_clone() else { return false };
        self.state().connections.get_mut(&id).map(|ends| ends.push(end)).is_some()
    }

    fn forget(&self, id: u64) {
        self.state().connections.remove(&id);
    }

    /// Waits for the end of a cut. Returns false if the connection has ended.
    fn wait_until_open(&self, id: u64) -> bool {
        let is_cut = |state: &mut State| state.connections.contains_key(&id) && state.link == Link::Cut;
        let state = self.changed.wait_while(self.state(), is_cut).unwrap_or_else(PoisonError::into_inner);
        state.connections.contains_key(&id)
    }

    /// Waits for the end of a cut and then for the configured delay.
    fn wait_for_passage(&self, id: u64) -> bool {
        let delay = self.state().delay;
        if !delay.is_zero() {
            pause(delay);
        }
        self.wait_until_open(id)
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn accept_all(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut carriers: Vec<JoinHandle<()>> = Vec::new();
    for client in listener.incoming() {
        if shared.state().link == Link::Gone {
            break;
        }
        carriers.retain(|carrier| !carrier.is_finished());
        // A connection that was not admitted is dropped here, which closes it.
        let Some((client, id)) = client.ok().and_then(|client| shared.admit(&client).map(|id| (client, id))) else {
            continue;
        };
        let carrying = Arc::clone(shared);
        let carrier = Builder::new().spawn(move || {
            // A connection that the server refuses or breaks ends for the client as well.
            let _ = carry(&carrying, id, &client);
            let _ = client.shutdown(Shutdown::Both);
            carrying.forget(id);
        });
        match carrier {
            Ok(carrier) => carriers.push(carrier),
            Err(_) => shared.forget(id),
        }
    }
    for carrier in carriers {
        let _ = carrier.join();
    }
}

/// Copies until both directions have ended.
fn carry(shared: &Arc<Shared>, id: u64, client: &TcpStream) -> io::Result<()> {
    if !shared.wait_until_open(id) {
        return Ok(());
    }
    let server = shared.state().server;
    let server = TcpStream::connect_timeout(&server, CONNECT_TIMEOUT)?;
    if !shared.add_end(id, &server) {
        return Ok(());
    }
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (answers_from, answers_to, answering) = (server.try_clone()?, client.try_clone()?, Arc::clone(shared));
    let answers = Builder::new().spawn(move || pump(&answering, id, answers_from, answers_to))?;
    pump(shared, id, client.try_clone()?, server);
    let _ = answers.join();
    Ok(())
}

/// Copies one direction. Its end of file is forwarded like bytes: not during a cut.
fn pump(shared: &Shared, id: u64, mut from: TcpStream, mut to: TcpStream) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk);
        if !shared.wait_for_passage(id) {
            return;
        }
        let end = match read {
            Ok(0) => Shutdown::Write,
            Ok(bytes) if to.write_all(chunk.get(..bytes).unwrap_or_default()).is_ok() => continue,
            // One side is gone without closing: end the whole connection.
            _ => Shutdown::Both,
        };
        let _ = to.shutdown(end);
        if end == Shutdown::Both {
            let _ = from.shutdown(end);
        }
        return;
    }
}
