//! Tests with real chain nodes over plain HTTP.

#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test fail like the test itself")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use gapless_testbed::{Anvil, AnvilOptions, HardhatNode, HardhatOptions, Mining};

const FIRST_ACCOUNT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/// The twelfth account of the well-known mnemonic, which is funded only on request.
const TWELFTH_ACCOUNT: &str = "0x71bE63f3384f5fb98995898A86B02Fb2426c5788";

#[test]
fn anvil_restarts_after_crash_and_leaves_no_files() {
    let options = AnvilOptions { chain_id: 4_242, accounts: 12, balance_ether: 3, ..AnvilOptions::default() };
    let anvil = Anvil::start(AnvilOptions { mining: Mining::OnDemand, ..options }).unwrap();
    let port = anvil.port();
    assert_eq!(anvil.url(), format!("http://127.0.0.1:{port}"));
    assert_eq!(anvil.ws_url(), format!("ws://127.0.0.1:{port}"));
    assert!(call(port, "web3_clientVersion", "[]").contains("anvil/v1.7.1"));
    assert_eq!(result(port, "eth_chainId", "[]"), "0x1092");
    for account in [FIRST_ACCOUNT, TWELFTH_ACCOUNT] {
        let balance = result(port, "eth_getBalance", &format!(r#"["{account}","latest"]"#));
        assert_eq!(balance, "0x29a2241af62c0000", "3 ether");
    }
    call(port, "evm_mine", "[]");
    assert_eq!(result(port, "eth_blockNumber", "[]"), "0x1");

    let pid = anvil.pid().unwrap();
    anvil.stop().unwrap();
    assert!(anvil.pid().is_none());
    assert!(!Path::new("/proc").join(pid.to_string()).exists(), "the process is still there");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "it still listens after the crash");
    anvil.start_again().unwrap();
    assert_eq!(result(port, "eth_blockNumber", "[]"), "0x0");

    let folder = std::fs::read_link(format!("/proc/{}/cwd", anvil.pid().unwrap())).unwrap();
    drop(anvil);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "it still listens after the drop");
    assert!(!folder.exists(), "{} is still there", folder.display());
}

#[test]
fn anvil_makes_blocks_at_given_interval() {
    let mining = Mining::Every(Duration::from_millis(200));
    let anvil = Anvil::start(AnvilOptions { mining, ..AnvilOptions::default() }).unwrap();
    assert!(eventually(|| result(anvil.port(), "eth_blockNumber", "[]") != "0x0"), "no block came");
}

#[test]
fn hardhat_starts_and_mines_by_its_options() {
    let options = HardhatOptions { chain_id: 4_242, accounts: 12, balance_ether: 3, ..HardhatOptions::default() };
    let hardhat = HardhatNode::start(HardhatOptions { mining: Mining::OnDemand, ..options }).unwrap();
    let port = hardhat.port();
    assert!(call(port, "web3_clientVersion", "[]").contains("HardhatNetwork/2.29.1"));
    assert_eq!(result(port, "eth_chainId", "[]"), "0x1092");
    let balance = result(port, "eth_getBalance", &format!(r#"["{TWELFTH_ACCOUNT}","latest"]"#));
    assert_eq!(balance, "0x29a2241af62c0000", "3 ether");
    assert_eq!(result(port, "eth_blockNumber", "[]"), "0x0");
    call(port, "evm_mine", "[]");
    assert_eq!(result(port, "eth_blockNumber", "[]"), "0x1");

    hardhat.stop().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "it still listens after the crash");
    hardhat.start_again().unwrap();
    assert_eq!(result(port, "eth_blockNumber", "[]"), "0x0");
}

/// The result of a call whose result is one string.
fn result(port: u16, method: &str, params: &str) -> String {
    let answer = call(port, method, params);
    let Some((_, rest)) = answer.split_once(r#""result":""#) else { panic!("no result in {answer}") };
    rest.split('"').next().unwrap().to_owned()
}

fn call(port: u16, method: &str, params: &str) -> String {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[expect(clippy::disallowed_methods, reason = "waits for a real process")]
fn eventually(mut look: impl FnMut() -> bool) -> bool {
    (0..1_000).any(|_| {
        let seen = look();
        if !seen {
            std::thread::sleep(Duration::from_millis(10));
        }
        seen
    })
}
