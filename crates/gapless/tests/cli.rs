//! What the commands say and how they end, of those that need no server.

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use support::{DONE, FAILED, Folder, REFUSED, USAGE, command, run, run_with, run_with_input};

/// proves A06
#[test]
fn exit_codes_tell_success_usage_failure_and_refusal_apart() {
    let folder = Folder::new();
    folder.write("bad.toml", "[lease]\nduraton = \"10s\"");
    folder.write("broken.tsv", "geth\teth_call\tx\ttext");
    for (arguments, code) in [
        (&["config", "check"][..], DONE),
        (&["--help"], DONE),
        (&["help", "tx", "send"], DONE),
        (&["--version"], DONE),
        (&[], USAGE),
        (&["no-such-command"], USAGE),
        (&["tx", "get"], USAGE),
        (&["tx", "send", "--to", "0x"], USAGE),
        (&["tx", "get", "x", "--api", "no address"], USAGE),
        (&["dev", "--listen", "0.0.0.0:0"], USAGE),
        (&["keys", "new"], USAGE),
        (&["config", "check", "--config", "bad.toml"], REFUSED),
        (&["migrate", "--config", "bad.toml"], REFUSED),
        (&["serve", "--config", "bad.toml"], REFUSED),
        (&["serve"], REFUSED),
        (&["chain", "classify", "--family", "nobody", "text"], REFUSED),
        (&["chain", "classify", "--tsv", "broken.tsv"], REFUSED),
        (&["config", "check", "--config", "missing.toml"], FAILED),
        (&["chain", "classify", "--tsv", "missing.tsv"], FAILED),
        // Nobody listens there.
        (&["tx", "get", "x", "--api", "http://127.0.0.1:1"], FAILED),
        (&["submitter", "list", "--api", "http://127.0.0.1:1"], FAILED),
        (&["submitter", "resync", "a", "--lost", "keep"], USAGE),
        (&["submitter", "resync"], USAGE),
        (&["chain", "accept", "eip155:1"], USAGE),
        (&["store", "declare-lost"], USAGE),
        (&["store", "declare-reconciled"], USAGE),
        (&["tx", "cancel"], USAGE),
        (&["tx", "replace"], USAGE),
        (&["tx", "replace", "x", "--max-fee", "1gwei"], USAGE),
        (&["tx", "resubmit", "x", "--gas-price", "1", "--max-fee", "2", "--max-priority-fee", "1"], USAGE),
        (&["tx", "resubmit", "x", "--gas-price", "much"], USAGE),
        (&["tx", "resubmit", "x", "--api", "http://127.0.0.1:1"], FAILED),
    ] {
        let said = run(&folder, arguments);
        assert_eq!(said.code, code, "{arguments:?} {said:#?}");
        assert!(said.code == DONE || !said.err.is_empty(), "{arguments:?} says nothing");
    }
}

/// proves A06
#[test]
fn with_json_everything_is_json_errors_too() {
    let folder = Folder::new();
    folder.write("bad.toml", "[lease]\nduraton = \"10s\"");
    folder.write("texts.tsv", "family\tmethod\tcode\ttext\ngeth\teth_sendRawTransaction\t-32000\tnonce too low\n");
    folder.write("password", "correct horse\n");
    for (arguments, code) in [
        (&["config", "check"][..], DONE),
        (&["config", "default"], DONE),
        (&["completions", "bash"], DONE),
        (&["chain", "families"], DONE),
        (&["chain", "classify", "nonce too low"], DONE),
        (&["chain", "classify", "--tsv", "texts.tsv"], DONE),
        (&["migrate"], DONE),
        (&["keys", "list"], DONE),
        (&["keys", "new", "--password-file", "password"], DONE),
        (&["keys", "list"], DONE),
        (&["config", "check", "--config", "bad.toml"], REFUSED),
        (&["migrate", "--config", "bad.toml"], REFUSED),
        (&["serve", "--config", "bad.toml"], REFUSED),
        (&["serve"], REFUSED),
        (&["chain", "classify", "--family", "nobody", "text"], REFUSED),
        (&["config", "check", "--config", "missing.toml"], FAILED),
        (&["keys", "new", "--password-file", "missing"], FAILED),
        (&["tx", "list", "--api", "http://127.0.0.1:1"], FAILED),
        (&["tx", "watch", "x", "--api", "http://127.0.0.1:1"], FAILED),
        (&["tx", "send", "-s", "a", "--to", "0x", "--api", "http://127.0.0.1:1"], FAILED),
        (&["submitter", "show", "a", "--api", "http://127.0.0.1:1"], FAILED),
        (&["submitter", "pause", "a", "--api", "http://127.0.0.1:1"], FAILED),
        (&["tx", "replace", "x", "--to", "0x", "--api", "http://127.0.0.1:1"], FAILED),
        (&["tx", "resubmit", "x", "--api", "http://127.0.0.1:1"], FAILED),
        (&["submitter", "resume", "a", "--api", "http://127.0.0.1:1"], FAILED),
        (&["submitter", "unprotect", "a", "--api", "http://127.0.0.1:1"], FAILED),
        (&["submitter", "resync", "a", "--dry-run", "--api", "http://127.0.0.1:1"], FAILED),
        (&["submitter", "cancel-pending", "a", "--api", "http://127.0.0.1:1"], FAILED),
        (&["tx", "cancel", "a", "--api", "http://127.0.0.1:1"], FAILED),
        (&["audit", "--subject", "a", "--api", "http://127.0.0.1:1"], FAILED),
        (&["chain", "accept", "eip155:1", "--reason", "r", "--api", "http://127.0.0.1:1"], FAILED),
        (&["store", "declare-lost", "--reason", "r", "--api", "http://127.0.0.1:1"], FAILED),
        (&["store", "declare-reconciled", "--reason", "r", "--api", "http://127.0.0.1:1"], FAILED),
    ] {
        let with_json: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let said = run(&folder, &with_json);
        assert_eq!(said.code, code, "{arguments:?} {said:#?}");
        let value = said.json();
        let is_check = arguments.starts_with(&["config", "check"]) && code != FAILED;
        assert_eq!(value.get("error").is_some(), code != DONE && !is_check, "{arguments:?} {value}");
        assert_eq!(said.err, "", "{arguments:?}");
    }
}

/// Takes one call and hands back its body. `None` as an answer hangs up without one.
#[expect(clippy::unwrap_used, reason = "the helper of a test fails like the test itself")]
fn take_call(listener: &TcpListener, answer: Option<&str>) -> serde_json::Value {
    let (mut stream, _) = listener.accept().unwrap();
    let mut got = Vec::new();
    let body = loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "the call ended before its body");
        got.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&got);
        let body = text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok());
        if let Some(body) = body {
            break body;
        }
    };
    stream.write_all(answer.unwrap_or_default().as_bytes()).unwrap();
    body
}

/// A made-up request id is the only thing that tells whether the transaction is there, so it is not lost with the answer.
#[test]
fn a_send_without_an_answer_is_repeated_and_tells_its_request_id() {
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = format!("http://{}", listener.local_addr().unwrap());
    let begin = |more: &[&str]| {
        let arguments = [&["tx", "send", "-s", "a", "--to", support::SOMEBODY, "--api", &api], more].concat();
        let mut command = command(&folder, &arguments, &[]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let hung_up = |child: std::process::Child| {
        let first = take_call(&listener, None);
        for _ in 1..4 {
            assert_eq!(take_call(&listener, None), first, "another request than before");
        }
        let said: support::Said = child.wait_with_output().unwrap().into();
        assert_eq!(said.code, FAILED, "{said:#?}");
        (first["requestId"].as_str().unwrap().to_owned(), said)
    };
    let (id, said) = hung_up(begin(&["--json"]));
    assert!(id.starts_with("cli-"), "{id}");
    assert_eq!(said.json()["error"]["requestId"], id.as_str());
    assert_eq!(said.json()["error"]["code"], "no_answer");
    let (id, said) = hung_up(begin(&[]));
    assert!(said.err.contains(&id), "{said:#?}");

    let child = begin(&["--json"]);
    let first = take_call(&listener, None);
    let accepted =
        r#"{"txId":"0190a6e0-0000-7000-8000-000000000000","submitter":"a","requestId":"b","state":"QUEUED"}"#;
    let answer = format!("HTTP/1.1 202 Accepted\r\nContent-Length: {}\r\n\r\n{accepted}", accepted.len());
    assert_eq!(take_call(&listener, Some(&answer)), first);
    let said: support::Said = child.wait_with_output().unwrap().into();
    assert_eq!((said.code, &said.json()["state"]), (DONE, &"QUEUED".into()), "{said:#?}");
    let child = begin(&["--json"]);
    let problem = r#"{"type":"","title":"no","status":422,"code":"invalid_request"}"#;
    let refusal = format!(
        "HTTP/1.1 422 No\r\nContent-Type: application/problem+json\r\nContent-Length: {}\r\n\r\n{problem}",
        problem.len()
    );
    take_call(&listener, Some(&refusal));
    // A no is a no: asking again would find nobody here and never end.
    let said: support::Said = child.wait_with_output().unwrap().into();
    assert_eq!((said.code, &said.json()["error"]["code"]), (REFUSED, &"problem".into()), "{said:#?}");
}

#[test]
fn a_config_check_shows_values_origins_and_problems() {
    let folder = Folder::new();
    folder.write("gapless.toml", "[lease]\nduration = \"20s\"\nduraton = \"1s\"\n");
    let environment = [("GAPLESS__STORE__URL", "postgres://u:s3cret@db/g"), ("GAPLESS__LOG__FORMAT", "s3cret")];
    let said = run_with(&folder, &["config", "check", "--json"], &environment);
    assert_eq!(said.code, REFUSED);
    let value = said.json();
    let setting = |key: &str| value["settings"].as_array().unwrap().iter().find(|s| s["key"] == key).unwrap();
    assert_eq!(
        (&setting("lease.duration")["value"], &setting("lease.duration")["origin"]),
        (&"20s".into(), &"gapless.toml:2".into())
    );
    assert_eq!(setting("store.url")["value"], "postgres://u:***@db/g");
    assert_eq!(setting("store.url")["origin"], "GAPLESS__STORE__URL");
    assert_eq!(setting("nonce.max_in_flight")["value"], 1);
    let problems: Vec<&str> =
        value["problems"].as_array().unwrap().iter().map(|p| p["key"].as_str().unwrap()).collect();
    assert_eq!(problems, ["lease.duraton", "log.format"]);
    let plain = run_with(&folder, &["config", "check"], &environment);
    assert!(plain.out.contains("lease.duration = \"20s\"") && plain.err.contains("lease.duraton"), "{plain:#?}");
    assert!(!format!("{said:?}{plain:?}").contains("s3cret"));
}

#[test]
fn a_text_is_classified_with_the_operators_own_patterns_first() {
    let folder = Folder::new();
    let text = "the moon is in the wrong place";
    let said = run(&folder, &["chain", "classify", "--json", text]);
    assert_eq!((&said.json()["outcome"], said.code), (&"Unknown".into(), DONE));
    folder.write("gapless.toml", "[[classify]]\npattern = \"moon ... wrong place\"\nverdict = \"wait\"");
    let said = run(&folder, &["chain", "classify", "--json", "--family", "geth", text]);
    assert_eq!(
        (&said.json()["outcome"], &said.json()["source"]),
        (&"Wait".into(), &"the config's [[classify]] 0".into())
    );
}

#[test]
fn a_table_of_texts_gives_a_line_for_each_row() {
    let folder = Folder::new();
    let table = "geth\teth_sendRawTransaction\t-32000\talready known\n\
                 unheard-of\teth_sendRawTransaction\t\tnonce too\\nlow\n\
                 \teth_sendRawTransaction\t429\t\n";
    let said = run_with_input(&folder, &["chain", "classify", "--tsv", "-"], table);
    let outcomes: Vec<&str> = said.out.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(outcomes, ["AlreadyKnown", "NonceTooLow", "RateLimited"]);
    let said = run_with_input(&folder, &["chain", "classify", "--json", "--tsv", "-"], table);
    assert_eq!(said.json_lines().len(), 3);
}

#[test]
fn whoever_stops_reading_is_no_failure() {
    let folder = Folder::new();
    let mut child = command(&folder, &["config", "default"], &[])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let said: support::Said = child.wait_with_output().unwrap().into();
    assert_eq!((said.code, said.err.as_str()), (DONE, ""));
}

/// A key is never an argument, and never shown.
///
/// proves X03
#[test]
fn keys_are_imported_and_listed_without_being_shown() {
    const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    let folder = Folder::new();
    folder.write("password", "correct horse\n");
    let import = ["keys", "import", "--dir", "k", "--password-file", "password"];
    let said = run_with_input(&folder, &import, KEY);
    assert_eq!(said.code, DONE, "{said:#?}");
    let again = run_with_input(&folder, &import, KEY);
    assert_ne!(again.code, DONE, "never overwritten");
    let bad = run_with_input(&folder, &import, &KEY[1..]);
    assert_ne!(bad.code, DONE);
    let listed = run(&folder, &["keys", "list", "--dir", "k", "--json"]);
    assert_eq!(listed.json()["keys"][0]["address"], "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    let file = folder.path().join(listed.json()["keys"][0]["file"].as_str().unwrap());
    let told = format!("{said:?}{again:?}{bad:?}{listed:?}{}", std::fs::read_to_string(file).unwrap());
    assert!(!told.contains(&KEY[1..]) && !told.contains("correct horse"), "{told}");
}

#[test]
fn migrating_twice_changes_nothing_the_second_time() {
    let folder = Folder::new();
    let environment = [("GAPLESS__STORE__URL", "sqlite:my.db")];
    let first = run_with(&folder, &["migrate", "--json"], &environment).json();
    assert_eq!((&first["migrated"], &first["from"]), (&true.into(), &0.into()));
    let second = run_with(&folder, &["migrate", "--json"], &environment).json();
    assert_eq!((&second["migrated"], &second["store"]), (&false.into(), &"sqlite:my.db".into()));
}

#[test]
fn a_node_that_may_not_migrate_says_what_to_do() {
    let folder = Folder::new();
    let environment = [
        ("GAPLESS__STORE__MIGRATE", "false"),
        ("GAPLESS__AUTH__MODE", "none"),
        ("GAPLESS__NODE__LISTEN", "127.0.0.1:0"),
    ];
    let said = run_with(&folder, &["serve"], &environment);
    assert_eq!(said.code, REFUSED);
    assert!(said.err.contains("run `gapless migrate`"), "{said:#?}");
}
