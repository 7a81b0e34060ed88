//! Tests of the proxy in front of an echo server: bytes that arrive, are held back, or arrive late.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail like the test itself")]
#![expect(clippy::disallowed_methods, reason = "a test owns its threads and its time")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use gapless_testbed::FaultProxy;

/// Wait time for bytes that must not arrive.
const A_WHILE: Duration = Duration::from_millis(300);
/// Wait time for bytes that must arrive.
const LONG: Duration = Duration::from_secs(30);

/// An echo server: sends every byte back until the client closes. Its threads end with the test.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            thread::spawn(move || {
                let mut bytes = [0; 1024];
                while let Ok(read @ 1..) = client.read(&mut bytes) {
                    client.write_all(&bytes[..read]).unwrap();
                }
            });
        }
    });
    port
}

fn connect(proxy: &FaultProxy) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

fn heard(stream: &mut TcpStream, count: usize) -> String {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn assert_silent(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(A_WHILE)).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{error}");
    stream.set_read_timeout(Some(LONG)).unwrap();
}

/// True if the other side has ended the connection in any way.
fn has_ended(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "it never happened that {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn cut_holds_bytes_back_and_heal_delivers_in_order() {
    let proxy = FaultProxy::start(echo()).unwrap();
    let mut old = connect(&proxy);
    old.write_all(b"before").unwrap();
    assert_eq!(heard(&mut old, 6), "before");

    proxy.cut();
    old.write_all(b"one").unwrap();
    let mut new = connect(&proxy);
    new.write_all(b"new").unwrap();
    assert_silent(&mut old);
    old.write_all(b"two").unwrap();
    assert_silent(&mut new);

    proxy.heal();
    assert_eq!(heard(&mut old, 6), "onetwo");
    assert_eq!(heard(&mut new, 3), "new");
    old.write_all(b"after").unwrap();
    assert_eq!(heard(&mut old, 5), "after");
}

#[test]
fn bytes_sent_into_cut_arrive_after_sender_is_gone() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = FaultProxy::start(server.local_addr().unwrap().port()).unwrap();
    let mut client = connect(&proxy);
    client.write_all(b"first").unwrap();
    let (mut taken, _) = server.accept().unwrap();
    taken.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(heard(&mut taken, 5), "first");

    proxy.cut();
    client.write_all(b"late").unwrap();
    drop(client);
    // Neither the bytes nor the end of the connection arrive.
    assert_silent(&mut taken);
    proxy.heal();
    assert_eq!(heard(&mut taken, 4), "late");
    assert!(has_ended(&mut taken));
}

#[test]
fn drop_all_closes_both_sides_until_healed() {
    let proxy = FaultProxy::start(echo()).unwrap();
    let mut old = connect(&proxy);
    old.write_all(b"before").unwrap();
    assert_eq!(heard(&mut old, 6), "before");
    proxy.cut();
    let mut hanging = connect(&proxy);
    until("it hangs", || proxy.connections() == 2);

    proxy.drop_all();
    assert!(has_ended(&mut old));
    assert!(has_ended(&mut hanging), "one that waited is over too");
    assert!(has_ended(&mut connect(&proxy)));
    assert_eq!(proxy.connections(), 0);

    proxy.heal();
    let mut new = connect(&proxy);
    new.write_all(b"again").unwrap();
    assert_eq!(heard(&mut new, 5), "again");
}

#[test]
fn delay_applies_to_both_directions_until_healed() {
    const DELAY: Duration = Duration::from_millis(150);
    let proxy = FaultProxy::start(echo()).unwrap();
    let mut client = connect(&proxy);
    let mut round_trip = || {
        let start = Instant::now();
        client.write_all(b"ping").unwrap();
        assert_eq!(heard(&mut client, 4), "ping");
        start.elapsed()
    };
    round_trip();
    proxy.delay(DELAY);
    assert!(round_trip() >= 2 * DELAY);
    proxy.heal();
    // A busy machine may be late once, but not ten times in a row.
    assert!((0..10).any(|_| round_trip() < DELAY), "it is still held back");
}

#[test]
fn connection_end_is_forwarded_and_connection_forgotten() {
    let proxy = FaultProxy::start(echo()).unwrap();
    let mut client = connect(&proxy);
    client.write_all(b"the last").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    client.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "the last");
    until("it is forgotten", || proxy.connections() == 0);
}

#[test]
fn redirect_applies_to_new_connections_only() {
    let proxy = FaultProxy::start(echo()).unwrap();
    let mut old = connect(&proxy);
    old.write_all(b"before").unwrap();
    assert_eq!(heard(&mut old, 6), "before");

    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.lead_to(elsewhere.local_addr().unwrap().port());
    let mut new = connect(&proxy);
    let (mut taken, _) = elsewhere.accept().unwrap();
    new.write_all(b"new").unwrap();
    taken.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(heard(&mut taken, 3), "new");
    old.write_all(b"after").unwrap();
    assert_eq!(heard(&mut old, 5), "after");
}

#[test]
fn connection_without_server_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap().port()).unwrap();
    drop(listener);
    assert!(has_ended(&mut connect(&proxy)));
}

#[test]
fn dropped_proxy_closes_connections_and_port() {
    let proxy = FaultProxy::start(echo()).unwrap();
    let (port, mut client) = (proxy.port(), connect(&proxy));
    client.write_all(b"ping").unwrap();
    assert_eq!(heard(&mut client, 4), "ping");
    proxy.cut();
    drop(proxy);
    assert!(has_ended(&mut client));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}
