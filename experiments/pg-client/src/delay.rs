//! A network that is not there: PostgreSQL half a millisecond away.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Res;

const ONE_WAY: Duration = Duration::from_micros(500);

/// A TCP proxy that hands every chunk on, in order, `ONE_WAY` after it came.
pub(crate) fn proxy(target: SocketAddr) -> Res<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let named = || thread::Builder::new().name("delay".into());
    named().spawn(move || -> Res<()> {
        for near in listener.incoming() {
            let (near, far) = (near?, TcpStream::connect(target)?);
            near.set_nodelay(true)?;
            far.set_nodelay(true)?;
            for (mut from, mut to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
                let (tx, rx) = mpsc::channel::<(Instant, Vec<u8>)>();
                named().spawn(move || {
                    let mut buf = vec![0; 1 << 18];
                    while let Ok(n @ 1..) = from.read(&mut buf) {
                        let _ = tx.send((Instant::now() + ONE_WAY, buf[..n].to_vec()));
                    }
                })?;
                named().spawn(move || {
                    for (due, chunk) in rx {
                        thread::sleep(due.saturating_duration_since(Instant::now()));
                        let _ = to.write_all(&chunk);
                    }
                    let _ = to.shutdown(std::net::Shutdown::Both);
                })?;
            }
        }
        Ok(())
    })?;
    Ok(port)
}
