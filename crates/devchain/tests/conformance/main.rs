//! One list of JSON-RPC cases, run against the dev chain, anvil and Hardhat.
//!
//! Every case lists geth's outcome, which the dev chain must match without exception. A different outcome of anvil or
//! Hardhat is listed with the case. The table in `docs/devchain.md` is generated from the list: this test fails if they
//! differ, and `GAPLESS_WRITE_DOCS=1` rewrites the table.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure in a test helper fails the test"
)]

mod case;
mod case_env;
mod cases;
mod contracts;
mod node;
mod table;

use case::NodeKind;
use node::Node;

#[test]
fn devchain_matches_geth() {
    run(NodeKind::DevChain);
}

#[test]
fn anvil_differs_only_as_listed() {
    run(NodeKind::Anvil);
}

#[test]
fn hardhat_differs_only_as_listed() {
    run(NodeKind::Hardhat);
}

#[test]
fn docs_table_matches_cases() {
    table::check(&cases::all());
}

/// Runs all cases on one node, each with its own accounts, and reports all failures together.
fn run(kind: NodeKind) {
    let node = Node::start(kind);
    let failures: Vec<String> = cases::all().iter().filter_map(|case| case.check(&node)).collect();
    assert!(failures.is_empty(), "{} cases differ on {kind:?}:\n{}", failures.len(), failures.join("\n"));
}
