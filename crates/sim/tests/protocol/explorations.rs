//! Every promise is kept in every world that can be reached, within several bounds.

use stateright::{Checker, Model};

use crate::promises::{self, ALL_CONFIRMED};
use crate::steps::Protocol;
use crate::witness::{Event, Witness};

/// What must have happened in every exploration, or it would show little.
const ALWAYS_SEEN: [Event; 4] = [Event::Takeover, Event::LateBroadcast, Event::Refused, Event::ReadBack];

/// Two nodes that pipeline, and three changes of hands.
pub(crate) fn pipelined() -> Protocol {
    Protocol {
        nodes: 2,
        intents: 2,
        window: 2,
        tenures: 3,
        attempts_a_slot: 2,
        cancels: false,
        strangers: 0,
        reorgs: 0,
        compares: true,
        mistake: None,
        witness: Witness::default(),
    }
}

fn strict() -> Protocol {
    Protocol { nodes: 3, window: 1, ..pipelined() }
}

/// Explores all of it. Nothing may break, and what is listed must have happened.
#[expect(clippy::print_stdout, reason = "how much was explored is the result of an exploration")]
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
    // Behind a fence that holds, the rows are always what their writer thought.
    assert!(!witness.has_seen(Event::Conflict), "{name}: a commit met other rows than it knew");
    assert!(!witness.has_seen(Event::OutOfHashes), "{name}: a step was left out");
}

#[test]
fn two_nodes_with_a_window_of_two_keep_every_promise_also_when_nonces_are_canceled() {
    all_promises_hold("window 2, cancels", Protocol { cancels: true, ..pipelined() }, &[]);
}

#[test]
fn two_nodes_with_more_intents_than_the_window_holds_keep_every_promise() {
    all_promises_hold("window 2, 3 intents", Protocol { intents: 3, attempts_a_slot: 1, ..pipelined() }, &[]);
}

#[test]
fn three_strict_nodes_keep_every_promise_also_when_nonces_are_canceled() {
    all_promises_hold("3 nodes strict, cancels", Protocol { cancels: true, ..strict() }, &[]);
}

#[test]
fn with_a_stranger_on_our_nonces_every_promise_is_kept() {
    let bounds = Protocol { strangers: 1, attempts_a_slot: 1, ..pipelined() };
    all_promises_hold("window 2, a stranger", bounds, &[Event::NonceLost]);
}

#[test]
fn with_a_reorg_above_what_is_final_every_promise_is_kept() {
    all_promises_hold("window 2, a reorg", Protocol { reorgs: 1, ..pipelined() }, &[Event::Reorg]);
}

#[test]
fn with_a_stranger_and_a_reorg_every_promise_is_kept() {
    let bounds = Protocol { strangers: 1, reorgs: 1, attempts_a_slot: 1, ..pipelined() };
    all_promises_hold("window 2, a stranger, a reorg", bounds, &[Event::NonceLost, Event::Reorg]);
}

/// The compare-and-set on cursor, slot and intent is a second line: the lock on the lease row is enough.
#[test]
fn the_fence_holds_every_promise_also_without_the_compare() {
    all_promises_hold("window 2, no compare", Protocol { compares: false, ..pipelined() }, &[]);
    all_promises_hold("3 nodes strict, no compare", Protocol { compares: false, ..strict() }, &[]);
}

#[test]
#[ignore = "about a million states: half a minute on a core of its own"]
fn two_nodes_with_three_intents_and_bumps_keep_every_promise() {
    all_promises_hold("window 2, 3 intents, bumps", Protocol { intents: 3, ..pipelined() }, &[]);
}

#[test]
#[ignore = "about a million states: half a minute on a core of its own"]
fn with_a_stranger_on_our_nonces_and_bumps_every_promise_is_kept() {
    let bounds = Protocol { strangers: 1, ..pipelined() };
    all_promises_hold("window 2, a stranger, bumps", bounds, &[Event::NonceLost]);
}

#[test]
#[ignore = "about a million states: half a minute on a core of its own"]
fn three_strict_nodes_with_three_intents_and_bumps_keep_every_promise() {
    all_promises_hold("3 nodes strict, 3 intents, bumps", Protocol { intents: 3, ..strict() }, &[]);
}
