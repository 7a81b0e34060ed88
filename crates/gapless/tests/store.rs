//! The declarations of an operator about the database, with the product alone: a loss, and that it was looked into.

mod support;

use serde_json::{Value, json};
use support::{DONE, Folder, REFUSED, Running, SOMEBODY, run_with};

/// Runs `gapless dev` with so many submitters, and one command after the other against it.
#[expect(clippy::panic, reason = "the helper of a test fails like the test itself")]
fn with_submitters(folder: &Folder, count: &str, session: impl FnOnce(&dyn Fn(&[&str]) -> support::Said)) {
    let arguments = ["dev", "--json", "--listen", "127.0.0.1:0", "--data-dir", "data", "--block-time", "100ms"];
    let dev = Running::start(folder, &[&arguments[..], &["--submitters", count]].concat(), &[]);
    let dev = dev.unwrap_or_else(|said| panic!("{said:#?}"));
    session(&|arguments| run_with(folder, arguments, &[("GAPLESS_API", dev.text("api"))]));
    dev.stop();
}

fn send(ask: &dyn Fn(&[&str]) -> support::Said, submitter: &str, request: &str) -> support::Said {
    ask(&["tx", "send", "-s", submitter, "-r", request, "--to", SOMEBODY, "--value", "1", "--json", "--wait"])
}

fn problem(said: &support::Said) -> (i32, Value) {
    (said.code, said.json()["error"]["problem"]["code"].clone())
}

/// proves O07
#[test]
fn new_submitters_work_after_a_declared_loss_and_its_reconciliation() {
    let folder = Folder::new();
    let protected = (REFUSED, json!("submitter_protected"));
    with_submitters(&folder, "1", |ask| {
        assert_eq!(send(ask, "dev-0", "before").code, DONE);
        let lost = ask(&["store", "declare-lost", "--reason", "a failover that nobody planned"]);
        assert_eq!(lost.code, DONE, "{lost:#?}");
        assert!(lost.out.contains("gapless store declare-reconciled"), "{lost:#?}");
        assert_eq!(problem(&send(ask, "dev-0", "after")), protected);
    });
    with_submitters(&folder, "2", |ask| {
        assert_eq!(problem(&send(ask, "dev-1", "first")), protected, "it may be part of the loss");
        let reconciled = ask(&["store", "declare-reconciled", "--reason", "looked for", "--json"]);
        assert_eq!((reconciled.code, &reconciled.json()["declared"]), (DONE, &json!("reconciled")), "{reconciled:#?}");
    });
    with_submitters(&folder, "3", |ask| {
        let sent = send(ask, "dev-2", "first");
        assert_eq!((sent.code, &sent.json()["state"]), (DONE, &json!("CONFIRMED")), "{sent:#?}");
        assert_eq!(problem(&send(ask, "dev-1", "first")), protected, "registered before it was reconciled");
        for submitter in ["dev-0", "dev-1"] {
            let resync = ask(&["submitter", "resync", submitter]);
            assert_eq!(resync.code, DONE, "{resync:#?}");
            let sent = send(ask, submitter, "second");
            assert_eq!(sent.code, DONE, "{sent:#?}");
        }
        let log = ask(&["audit", "--subject", "store", "--json"]).json();
        let text = |entry: &Value, key: &str| entry[key].as_str().map(str::to_owned);
        let told: Vec<_> = log["items"].as_array().into_iter().flatten().collect();
        let told: Vec<_> = told.into_iter().map(|entry| (text(entry, "action"), text(entry, "detail"))).collect();
        let entry = |action: &str, detail: &str| (Some(action.to_owned()), Some(detail.to_owned()));
        let expected =
            [entry("declare_reconciled", "looked for"), entry("declare_lost", "a failover that nobody planned")];
        assert_eq!(told, expected);
        let blank = ask(&["store", "declare-lost", "--reason", " ", "--json"]);
        assert_eq!(problem(&blank), (REFUSED, json!("invalid_request")));
    });
}
