//! A TCP road to a server, which a test can cut, close, slow down, and lead to another server.
//!
//! Whoever is to lose its server is pointed to the proxy instead. A cut is what a network does that drops every packet: nobody is
//! told, nothing is refused, and what was under way arrives when the road is open again, perhaps long after its sender has given
//! up. That is harder on both sides than an end of the connection, which [`FaultProxy::drop_all`] is for.
//!
//! It knows nothing of what it carries. Threads carry it, two for each connection; they end with the proxy.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::Error;
use crate::clock::pause;

/// More connections than this at once are closed as they come.
const CONNECTIONS_MAX: usize = 1024;
/// Bytes that are carried at once, and so the most that a delay holds back.
const CHUNK_BYTES: usize = 64 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A loopback port that leads to another one, for as long as it is not dropped.
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
    /// Where new connections lead to.
    server: SocketAddr,
    road: Road,
    delay: Duration,
    /// Both ends of each connection, or only the client's while there is no other yet. One that is not in here any more is over.
    connections: HashMap<u64, Vec<TcpStream>>,
    /// How many there ever were, which also names the next.
    opened: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Road {
    Open,
    Cut,
    Closed,
    /// The proxy has been dropped.
    Gone,
}

impl FaultProxy {
    /// Leads to a loopback port, whether or not somebody listens there yet.
    pub fn start(server_port: u16) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::io("listening for a proxy"))?;
        let port = listener.local_addr().map_err(Error::io("asking for a proxy's port"))?.port();
        let (server, connections) = (loopback(server_port), HashMap::new());
        let state = State { server, road: Road::Open, delay: Duration::ZERO, connections, opened: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        let acceptor = Builder::new().name(format!("proxy-{port}")).spawn(move || accept_all(&accepting, &listener));
        let acceptor = acceptor.map_err(Error::io("starting a proxy's thread"))?;
        Ok(Self { port, shared, acceptor: Some(acceptor) })
    }

    /// Where clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections there are, those that wait for the road to be open again among them.
    pub fn connections(&self) -> usize {
        self.shared.state().connections.len()
    }

    /// New connections lead to another loopback port from now on, as after a failover; those that there are stay where they are.
    pub fn lead_to(&self, server_port: u16) {
        self.shared.state().server = loopback(server_port);
    }

    /// Not a byte is carried any more, in either direction, and nobody is told. New connections are taken and hang.
    pub fn cut(&self) {
        self.shared.set(Road::Cut);
    }

    /// Ends every connection, and from now on every new one at once.
    pub fn drop_all(&self) {
        self.shared.set(Road::Closed);
    }

    /// Whatever is carried is held back so long first, in each direction. It makes the road narrow too: one chunk at a time waits.
    pub fn delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Everything is carried, at once. What was sent while the road was cut arrives now, in order.
    pub fn heal(&self) {
        self.delay(Duration::ZERO);
        self.shared.set(Road::Open);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.set(Road::Gone);
        // The acceptor looks up only when somebody comes.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nobody panics with the lock held, and if so, nothing is half-written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, road: Road) {
        let mut state = self.state();
        state.road = road;
        if matches!(road, Road::Closed | Road::Gone) {
            for end in state.connections.drain().flat_map(|(_, ends)| ends) {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
        self.changed.notify_all();
    }

    /// Takes a connection in, unless it is to be closed at once.
    fn admit(&self, client: &TcpStream) -> Option<u64> {
        let mut state = self.state();
        if matches!(state.road, Road::Closed | Road::Gone) || state.connections.len() >= CONNECTIONS_MAX {
            return None;
        }
        let (id, end) = (state.opened, client.try_clone().ok()?);
        state.opened += 1;
        state.connections.insert(id, vec![end]);
        Some(id)
    }

    /// Adds the server's end. False if the connection is over by now.
    fn add_end(&self, id: u64, server: &TcpStream) -> bool {
        let Ok(end) = server.try_clone() else { return false };
        self.state().connections.get_mut(&id).map(|ends| ends.push(end)).is_some()
    }

    fn forget(&self, id: u64) {
        self.state().connections.remove(&id);
    }

    /// Waits until the road is open. False if the connection is over.
    fn wait_until_open(&self, id: u64) -> bool {
        let is_cut = |state: &mut State| state.connections.contains_key(&id) && state.road == Road::Cut;
        let state = self.changed.wait_while(self.state(), is_cut).unwrap_or_else(PoisonError::into_inner);
        state.connections.contains_key(&id)
    }

    /// The same, and as long again as everything is held back.
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
        if shared.state().road == Road::Gone {
            break;
        }
        carriers.retain(|carrier| !carrier.is_finished());
        // Whoever could not be taken in is dropped here, which closes the connection.
        let Some((client, id)) = client.ok().and_then(|client| shared.admit(&client).map(|id| (client, id))) else {
            continue;
        };
        let carrying = Arc::clone(shared);
        let carrier = Builder::new().spawn(move || {
            // One that the server does not take, or that breaks, ends for the client as well.
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

/// Until both directions have ended.
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

/// One direction. Its end is carried like everything else: not while the road is cut.
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
            // Either side is gone without a word: so is the whole connection.
            _ => Shutdown::Both,
        };
        let _ = to.shutdown(end);
        if end == Shutdown::Both {
            let _ = from.shutdown(end);
        }
        return;
    }
}
