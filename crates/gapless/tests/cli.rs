//! Output and exit codes of the commands that need no server.

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use support::{FAILURE, REFUSED, SUCCESS, TempFolder, USAGE, command, run, run_with, run_with_input};

/// proves A06
#[test]
fn exit_code_shows_success_usage_failure_and_refusal() {
    let folder = TempFolder::new();
    folder.write("bad.toml", "[lease]\nduraton = \"10s\"");
    folder.write("broken.tsv", "geth\teth_call\tx\ttext");
    for (arguments, code) in [
        (&["config", "check"][..], SUCCESS),
        (&["--help"], SUCCESS),
        (&["help", "tx", "send"], SUCCESS),
        (&["--version"], SUCCESS),
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
        (&["config", "check", "--config", "missing.toml"], FAILURE),
        (&["chain", "classify", "--tsv", "missing.tsv"], FAILURE),
        // No process listens on this port.
        (&["tx", "get", "x", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["submitter", "list", "--api", "http://127.0.0.1:1"], FAILURE),
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
        (&["tx", "resubmit", "x", "--api", "http://127.0.0.1:1"], FAILURE),
    ] {
        let output = run(&folder, arguments);
        assert_eq!(output.code, code, "{arguments:?} {output:#?}");
        assert!(output.code == SUCCESS || !output.err.is_empty(), "{arguments:?} prints no error");
    }
}

/// proves A06
#[test]
fn json_flag_makes_results_and_errors_json() {
    let folder = TempFolder::new();
    folder.write("bad.toml", "[lease]\nduraton = \"10s\"");
    folder.write("texts.tsv", "family\tmethod\tcode\ttext\ngeth\teth_sendRawTransaction\t-32000\tnonce too low\n");
    folder.write("password", "correct horse\n");
    for (arguments, code) in [
        (&["config", "check"][..], SUCCESS),
        (&["config", "default"], SUCCESS),
        (&["completions", "bash"], SUCCESS),
        (&["chain", "families"], SUCCESS),
        (&["chain", "classify", "nonce too low"], SUCCESS),
        (&["chain", "classify", "--tsv", "texts.tsv"], SUCCESS),
        (&["migrate"], SUCCESS),
        (&["keys", "list"], SUCCESS),
        (&["keys", "new", "--password-file", "password"], SUCCESS),
        (&["keys", "list"], SUCCESS),
        (&["config", "check", "--config", "bad.toml"], REFUSED),
        (&["migrate", "--config", "bad.toml"], REFUSED),
        (&["serve", "--config", "bad.toml"], REFUSED),
        (&["serve"], REFUSED),
        (&["chain", "classify", "--family", "nobody", "text"], REFUSED),
        (&["config", "check", "--config", "missing.toml"], FAILURE),
        (&["keys", "new", "--password-file", "missing"], FAILURE),
        (&["tx", "list", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["tx", "watch", "x", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["tx", "send", "-s", "a", "--to", "0x", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["submitter", "show", "a", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["submitter", "pause", "a", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["tx", "replace", "x", "--to", "0x", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["tx", "resubmit", "x", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["submitter", "resume", "a", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["submitter", "unprotect", "a", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["submitter", "resync", "a", "--dry-run", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["submitter", "cancel-pending", "a", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["tx", "cancel", "a", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["audit", "--subject", "a", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["chain", "accept", "eip155:1", "--reason", "r", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["store", "declare-lost", "--reason", "r", "--api", "http://127.0.0.1:1"], FAILURE),
        (&["store", "declare-reconciled", "--reason", "r", "--api", "http://127.0.0.1:1"], FAILURE),
    ] {
        let with_json: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let output = run(&folder, &with_json);
        assert_eq!(output.code, code, "{arguments:?} {output:#?}");
        let value = output.json();
        let is_check = arguments.starts_with(&["config", "check"]) && code != FAILURE;
        assert_eq!(value.get("error").is_some(), code != SUCCESS && !is_check, "{arguments:?} {value}");
        assert_eq!(output.err, "", "{arguments:?}");
    }
}

/// Accepts one call and returns its body. With `None` as `answer` the connection is closed without an answer.
#[expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]
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

/// Only the random request id tells whether the transaction exists, so the error repeats it.
#[test]
fn unanswered_send_is_repeated_and_prints_its_request_id() {
    let folder = TempFolder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = format!("http://{}", listener.local_addr().unwrap());
    let begin = |more: &[&str]| {
        let arguments = [&["tx", "send", "-s", "a", "--to", support::RECIPIENT, "--api", &api], more].concat();
        let mut command = command(&folder, &arguments, &[]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let hung_up = |child: std::process::Child| {
        let first = take_call(&listener, None);
        for _ in 1..4 {
            assert_eq!(take_call(&listener, None), first, "the repeated request differs");
        }
        let output: support::CommandOutput = child.wait_with_output().unwrap().into();
        assert_eq!(output.code, FAILURE, "{output:#?}");
        (first["requestId"].as_str().unwrap().to_owned(), output)
    };
    let (id, output) = hung_up(begin(&["--json"]));
    assert!(id.starts_with("cli-"), "{id}");
    assert_eq!(output.json()["error"]["requestId"], id.as_str());
    assert_eq!(output.json()["error"]["code"], "no_answer");
    let (id, output) = hung_up(begin(&[]));
    assert!(output.err.contains(&id), "{output:#?}");

    let child = begin(&["--json"]);
    let first = take_call(&listener, None);
    let accepted =
        r#"{"txId":"0190a6e0-0000-7000-8000-000000000000","submitter":"a","requestId":"b","state":"QUEUED"}"#;
    let answer = format!("HTTP/1.1 202 Accepted\r\nContent-Length: {}\r\n\r\n{accepted}", accepted.len());
    assert_eq!(take_call(&listener, Some(&answer)), first);
    let output: support::CommandOutput = child.wait_with_output().unwrap().into();
    assert_eq!((output.code, &output.json()["state"]), (SUCCESS, &"QUEUED".into()), "{output:#?}");
    let child = begin(&["--json"]);
    let problem = r#"{"type":"","title":"no","status":422,"code":"invalid_request"}"#;
    let refusal = format!(
        "HTTP/1.1 422 No\r\nContent-Type: application/problem+json\r\nContent-Length: {}\r\n\r\n{problem}",
        problem.len()
    );
    take_call(&listener, Some(&refusal));
    // A refusal is not repeated: a second call would wait for an answer for ever.
    let output: support::CommandOutput = child.wait_with_output().unwrap().into();
    assert_eq!((output.code, &output.json()["error"]["code"]), (REFUSED, &"problem".into()), "{output:#?}");
}

#[test]
fn config_check_shows_values_origins_and_problems() {
    let folder = TempFolder::new();
    folder.write("gapless.toml", "[lease]\nduration = \"20s\"\nduraton = \"1s\"\n");
    let environment = [("GAPLESS__STORE__URL", "postgres://u:s3cret@db/g"), ("GAPLESS__LOG__FORMAT", "s3cret")];
    let output = run_with(&folder, &["config", "check", "--json"], &environment);
    assert_eq!(output.code, REFUSED);
    let value = output.json();
    let setting = |key: &str| value["settings"].as_array().unwrap().iter().find(|s| s["key"] == key).unwrap();
    assert_eq!(
        (&setting("lease.duration")["value"], &setting("lease.duration")["origin"]),
        (&"20s".into(), &"gapless.toml:2".into())
    );
    assert_eq!(setting("store.url")["value"], "postgres://***@db/***");
    assert_eq!(setting("store.url")["origin"], "GAPLESS__STORE__URL");
    assert_eq!(setting("nonce.max_in_flight")["value"], 1);
    let problems: Vec<&str> =
        value["problems"].as_array().unwrap().iter().map(|p| p["key"].as_str().unwrap()).collect();
    assert_eq!(problems, ["lease.duraton", "log.format"]);
    let plain = run_with(&folder, &["config", "check"], &environment);
    assert!(plain.out.contains("lease.duration = \"20s\"") && plain.err.contains("lease.duraton"), "{plain:#?}");
    assert!(!format!("{output:?}{plain:?}").contains("s3cret"));
}

#[test]
fn classify_uses_patterns_of_the_config_first() {
    let folder = TempFolder::new();
    let text = "the shard is in the wrong state";
    let output = run(&folder, &["chain", "classify", "--json", text]);
    assert_eq!((&output.json()["outcome"], output.code), (&"Unknown".into(), SUCCESS));
    folder.write("gapless.toml", "[[classify]]\npattern = \"shard ... wrong state\"\nverdict = \"wait\"");
    let output = run(&folder, &["chain", "classify", "--json", "--family", "geth", text]);
    assert_eq!(
        (&output.json()["outcome"], &output.json()["source"]),
        (&"Wait".into(), &"the config's [[classify]] 0".into())
    );
}

#[test]
fn classify_tsv_prints_a_line_per_row() {
    let folder = TempFolder::new();
    let table = "geth\teth_sendRawTransaction\t-32000\talready known\n\
                 unknown\teth_sendRawTransaction\t\tnonce too\\nlow\n\
                 \teth_sendRawTransaction\t429\t\n";
    let output = run_with_input(&folder, &["chain", "classify", "--tsv", "-"], table);
    let outcomes: Vec<&str> = output.out.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(outcomes, ["AlreadyKnown", "NonceTooLow", "RateLimited"]);
    let output = run_with_input(&folder, &["chain", "classify", "--json", "--tsv", "-"], table);
    assert_eq!(output.json_lines().len(), 3);
}

#[test]
fn closed_output_pipe_is_no_failure() {
    let folder = TempFolder::new();
    let mut child = command(&folder, &["config", "default"], &[])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output: support::CommandOutput = child.wait_with_output().unwrap().into();
    assert_eq!((output.code, output.err.as_str()), (SUCCESS, ""));
}

/// A key is never an argument and never printed.
///
/// proves X03
#[test]
fn imported_key_is_listed_and_never_printed() {
    const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    let folder = TempFolder::new();
    folder.write("password", "correct horse\n");
    let import = ["keys", "import", "--dir", "k", "--password-file", "password"];
    let output = run_with_input(&folder, &import, KEY);
    assert_eq!(output.code, SUCCESS, "{output:#?}");
    let again = run_with_input(&folder, &import, KEY);
    assert_ne!(again.code, SUCCESS, "the keystore file was overwritten");
    let bad = run_with_input(&folder, &import, &KEY[1..]);
    assert_ne!(bad.code, SUCCESS);
    let listed = run(&folder, &["keys", "list", "--dir", "k", "--json"]);
    assert_eq!(listed.json()["keys"][0]["address"], "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    let file = folder.path().join(listed.json()["keys"][0]["file"].as_str().unwrap());
    let printed = format!("{output:?}{again:?}{bad:?}{listed:?}{}", std::fs::read_to_string(file).unwrap());
    assert!(!printed.contains(&KEY[1..]) && !printed.contains("correct horse"), "{printed}");
}

#[test]
fn second_migration_changes_nothing() {
    let folder = TempFolder::new();
    let environment = [("GAPLESS__STORE__URL", "sqlite:my.db")];
    let first = run_with(&folder, &["migrate", "--json"], &environment).json();
    assert_eq!((&first["migrated"], &first["from"]), (&true.into(), &0.into()));
    let second = run_with(&folder, &["migrate", "--json"], &environment).json();
    assert_eq!((&second["migrated"], &second["store"]), (&false.into(), &"sqlite:my.db".into()));
}

#[test]
fn node_without_migration_names_the_migrate_command() {
    let folder = TempFolder::new();
    let environment = [
        ("GAPLESS__STORE__MIGRATE", "false"),
        ("GAPLESS__AUTH__MODE", "none"),
        ("GAPLESS__NODE__LISTEN", "127.0.0.1:0"),
    ];
    let output = run_with(&folder, &["serve"], &environment);
    assert_eq!(output.code, REFUSED);
    assert!(output.err.contains("run `gapless migrate`"), "{output:#?}");
}
