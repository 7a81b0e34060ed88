//! Every reachable world keeps every promise, under several bounds.

use stateright::{Checker, Model};

use crate::promises::{self, ALL_CONFIRMED};
use crate::steps::Protocol;
use crate::witness::{Event, Witness};

/// Events that every exploration must see, or it would show little.
const ALWAYS_SEEN: [Event; 4] = [Event::Takeover, Event::LateBroadcast, Event::Refused, Event::ReadBack];

/// Two nodes with a window of two, and three changes of the owner.
pub(crate) fn pipelined() -> Protocol {
    Protocol {
        nodes: 2,
        intents: 2,
        window: 2,
        tenures: 3,
        attempts_a_slot: 2,
        cancels: false,
        foreign_txs: 0,
        reorgs: 0,
        compares: true,
        mistake: None,
        witness: Witness::default(),
    }
}

fn strict() -> Protocol {
    Protocol { nodes: 3, window: 1, ..pipelined() }
}

/// Explores every state. No promise may break, and the listed events must have been seen.
#[expect(clippy::print_stdout, reason = "the size of an exploration is its result")]
fn all_promises_hold(name: &str, protocol: Protocol, seen: &[Event]) {
    let checker = protocol.checker().threads(1).spawn_bfs().join();
    println!(
        "{name}: {} states, {} steps, depth {}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    assert!(checker.is_done(), "{name}: not all of it was explored");
    for promise in promises::ALL {
        let path = checker.discovery(promise).map(|path| path.into_actions());
        assert!(path.is_none(), "{name} breaks {promise}:\n{path:#?}");
    }
    assert!(checker.discovery(ALL_CONFIRMED).is_some(), "{name}: not every intent can be confirmed");
    let witness = &checker.model().witness;
    for event in ALWAYS_SEEN.iter().chain(seen) {
        assert!(witness.has_seen(*event), "{name}: never seen: {event:?}");
    }
    // Behind a fence that holds, the rows always equal the memory of their writer.
    assert!(!witness.has_seen(Event::Conflict), "{name}: a commit met other rows than it knew");
    assert!(!witness.has_seen(Event::OutOfHashes), "{name}: a step was left out");
}

#[test]
fn two_pipelined_nodes_with_cancels_keep_every_promise() {
    all_promises_hold("window 2, cancels", Protocol { cancels: true, ..pipelined() }, &[]);
}

#[test]
fn more_intents_than_the_window_keep_every_promise() {
    all_promises_hold("window 2, 3 intents", Protocol { intents: 3, attempts_a_slot: 1, ..pipelined() }, &[]);
}

#[test]
fn three_strict_nodes_with_cancels_keep_every_promise() {
    all_promises_hold("3 nodes strict, cancels", Protocol { cancels: true, ..strict() }, &[]);
}

#[test]
fn foreign_transaction_keeps_every_promise() {
    let bounds = Protocol { foreign_txs: 1, attempts_a_slot: 1, ..pipelined() };
    all_promises_hold("window 2, a foreign transaction", bounds, &[Event::NonceLost]);
}

#[test]
fn reorg_above_the_final_block_keeps_every_promise() {
    all_promises_hold("window 2, a reorg", Protocol { reorgs: 1, ..pipelined() }, &[Event::Reorg]);
}

#[test]
fn foreign_transaction_and_reorg_keep_every_promise() {
    let bounds = Protocol { foreign_txs: 1, reorgs: 1, attempts_a_slot: 1, ..pipelined() };
    all_promises_hold("window 2, a foreign transaction, a reorg", bounds, &[Event::NonceLost, Event::Reorg]);
}

/// The compare-and-set on cursor, slot and intent is a second protection: the lock on the lease row is enough.
#[test]
fn fence_without_compare_keeps_every_promise() {
    all_promises_hold("window 2, no compare", Protocol { compares: false, ..pipelined() }, &[]);
    all_promises_hold("3 nodes strict, no compare", Protocol { compares: false, ..strict() }, &[]);
}

#[test]
#[ignore = "about a million states: half a minute on a core of its own"]
fn three_intents_with_bumps_keep_every_promise() {
    all_promises_hold("window 2, 3 intents, bumps", Protocol { intents: 3, ..pipelined() }, &[]);
}

#[test]
#[ignore = "about a million states: half a minute on a core of its own"]
fn foreign_transaction_with_bumps_keeps_every_promise() {
    let bounds = Protocol { foreign_txs: 1, ..pipelined() };
    all_promises_hold("window 2, a foreign transaction, bumps", bounds, &[Event::NonceLost]);
}

#[test]
#[ignore = "about a million states: half a minute on a core of its own"]
fn three_strict_nodes_with_bumps_keep_every_promise() {
    all_promises_hold("3 nodes strict, 3 intents, bumps", Protocol { intents: 3, ..strict() }, &[]);
}
