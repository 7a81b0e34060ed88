//! An operator declares a loss of the database and its reconciliation, with the product's own commands.

mod support;

use serde_json::{Value, json};
use support::{RECIPIENT, REFUSED, RunningCommand, SUCCESS, TempFolder, run_with};

/// Runs `gapless dev` with `count` submitters, and the session's commands against it.
#[expect(clippy::panic, reason = "the helper of a test fails like the test itself")]
fn with_submitters(folder: &TempFolder, count: &str, session: impl FnOnce(&dyn Fn(&[&str]) -> support::CommandOutput)) {
    let arguments = ["dev", "--json", "--listen", "127.0.0.1:0", "--data-dir", "data", "--block-time", "100ms"];
    let dev = RunningCommand::start(folder, &[&arguments[..], &["--submitters", count]].concat(), &[]);
    let dev = dev.unwrap_or_else(|output| panic!("{output:#?}"));
    session(&|arguments| run_with(folder, arguments, &[("GAPLESS_API", dev.text("api"))]));
    dev.stop();
}

fn send(run: &dyn Fn(&[&str]) -> support::CommandOutput, submitter: &str, request: &str) -> support::CommandOutput {
    run(&["tx", "send", "-s", submitter, "-r", request, "--to", RECIPIENT, "--value", "1", "--json", "--wait"])
}

fn problem(output: &support::CommandOutput) -> (i32, Value) {
    (output.code, output.json()["error"]["problem"]["code"].clone())
}

/// proves O07
#[test]
fn new_submitter_works_after_loss_is_declared_reconciled() {
    let folder = TempFolder::new();
    let protected = (REFUSED, json!("submitter_protected"));
    with_submitters(&folder, "1", |run| {
        assert_eq!(send(run, "dev-0", "before").code, SUCCESS);
        let lost = run(&["store", "declare-lost", "--reason", "a failover that nobody planned"]);
        assert_eq!(lost.code, SUCCESS, "{lost:#?}");
        assert!(lost.out.contains("gapless store declare-reconciled"), "{lost:#?}");
        assert_eq!(problem(&send(run, "dev-0", "after")), protected);
    });
    with_submitters(&folder, "2", |run| {
        assert_eq!(problem(&send(run, "dev-1", "first")), protected, "it may be part of the loss");
        let reconciled = run(&["store", "declare-reconciled", "--reason", "looked for", "--json"]);
        assert_eq!(
            (reconciled.code, &reconciled.json()["declared"]),
            (SUCCESS, &json!("reconciled")),
            "{reconciled:#?}"
        );
    });
    with_submitters(&folder, "3", |run| {
        let sent = send(run, "dev-2", "first");
        assert_eq!((sent.code, &sent.json()["state"]), (SUCCESS, &json!("CONFIRMED")), "{sent:#?}");
        assert_eq!(problem(&send(run, "dev-1", "first")), protected, "registered before it was reconciled");
        for submitter in ["dev-0", "dev-1"] {
            let resync = run(&["submitter", "resync", submitter]);
            assert_eq!(resync.code, SUCCESS, "{resync:#?}");
            let sent = send(run, submitter, "second");
            assert_eq!(sent.code, SUCCESS, "{sent:#?}");
        }
        let log = run(&["audit", "--subject", "store", "--json"]).json();
        let text = |entry: &Value, key: &str| entry[key].as_str().map(str::to_owned);
        let entries: Vec<_> = log["items"].as_array().into_iter().flatten().collect();
        let entries: Vec<_> = entries.into_iter().map(|entry| (text(entry, "action"), text(entry, "detail"))).collect();
        let entry = |action: &str, detail: &str| (Some(action.to_owned()), Some(detail.to_owned()));
        let expected =
            [entry("declare_reconciled", "looked for"), entry("declare_lost", "a failover that nobody planned")];
        assert_eq!(entries, expected);
        let blank = run(&["store", "declare-lost", "--reason", " ", "--json"]);
        assert_eq!(problem(&blank), (REFUSED, json!("invalid_request")));
    });
}
