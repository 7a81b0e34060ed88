//! One list of JSON-RPC cases, run against the dev chain, anvil and Hardhat.
//!
//! Every case says what geth does. The dev chain must do the same, without exception. Where anvil or Hardhat do something
//! else, the case says what, so that the table in `docs/devchain.md` is what was seen and not what somebody remembers: this
//! test fails when the table and the list differ. `GAPLESS_WRITE_DOCS=1` writes the table anew.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of a test fail like the test itself"
)]

mod case;
mod cases;
mod contracts;
mod node;
mod stage;
mod table;

use case::Target;
use node::Node;

#[test]
fn the_dev_chain_does_as_geth_does() {
    run(Target::DevChain);
}

#[test]
fn anvil_differs_where_the_list_says_so() {
    run(Target::Anvil);
}

#[test]
fn hardhat_differs_where_the_list_says_so() {
    run(Target::Hardhat);
}

#[test]
fn the_table_in_the_docs_is_the_list() {
    table::check(&cases::all());
}

/// All cases on one node, each with accounts of its own. All failures are told at once.
fn run(target: Target) {
    let node = Node::start(target);
    let failures: Vec<String> = cases::all().iter().filter_map(|case| case.check(&node)).collect();
    assert!(failures.is_empty(), "{} cases differ on {target:?}:\n{}", failures.len(), failures.join("\n"));
}
