//! The start of a new lane.

use gapless_domain::{AccountFacts, CommandKind, StartFrom};

use crate::harness::{Hold, LaneHarness, account, nonce, window};

fn starting_from(start_from: StartFrom) -> LaneHarness {
    let mut setup = window(1);
    setup.policy.nonce.start_from = start_from;
    let mut harness = LaneHarness::new(setup);
    harness.queue(1);
    harness
}

/// proves N19
#[test]
fn new_lane_starts_at_zero() {
    let mut harness = starting_from(StartFrom::Nonce(nonce(0)));
    harness.run();
    assert_eq!(harness.nonces(), [Some(0)]);
    assert_eq!(harness.sending(), [0]);
}

/// proves N19
#[test]
fn lane_with_unexpected_history_enters_protect() {
    let mut harness = starting_from(StartFrom::Nonce(nonce(0)));
    harness.account = account(3);
    harness.run();
    assert_eq!(harness.protect_code(), Some("history_without_start"));
    assert_eq!(harness.nonces(), [None]);
    assert!(harness.broadcasts.is_empty());
}

#[test]
fn start_above_account_nonce_puts_lane_into_protect() {
    let mut harness = starting_from(StartFrom::Nonce(nonce(5)));
    harness.account = account(3);
    harness.run();
    assert_eq!(harness.protect_code(), Some("missing_slot"));
    assert_eq!(harness.nonces(), [None]);
}

#[test]
fn start_from_chain_waits_until_account_is_settled() {
    let settled = account(7);
    let unsettled = [
        AccountFacts { pending: nonce(8), ..settled },
        AccountFacts { finalized: Some(nonce(6)), ..settled },
        AccountFacts { finalized: None, ..settled },
    ];
    for unsettled in unsettled {
        let mut harness = starting_from(StartFrom::Chain);
        harness.account = unsettled;
        harness.run();
        harness.advance_secs(30);
        assert_eq!(harness.ledger.cursor, None, "{unsettled:?}");
        harness.account = settled;
        harness.advance_secs(30);
        assert_eq!(harness.sending(), [7]);
        assert_eq!(harness.protect_code(), None);
    }
}

/// Earlier transactions of the account may not be final at the start. This is no regression of the chain.
#[test]
fn start_above_the_final_nonce_is_no_regression() {
    for finalized in [None, Some(nonce(3))] {
        let mut harness = starting_from(StartFrom::Nonce(nonce(5)));
        harness.account = AccountFacts { finalized, ..account(5) };
        harness.run();
        assert_eq!(harness.sending(), [5]);
        harness.account.finalized = Some(nonce(4));
        harness.advance_secs(20);
        harness.advance_secs(20);
        assert_eq!(harness.protect_code(), None);
    }
}

/// A foreign transaction is pending at the first nonce. A bind would make a second one.
#[test]
fn lane_does_not_start_under_a_pending_transaction() {
    let mut harness = starting_from(StartFrom::Nonce(nonce(0)));
    harness.account = AccountFacts { pending: nonce(1), ..account(0) };
    harness.run();
    assert_eq!(harness.nonces(), [None]);
    assert_eq!(harness.protect_code(), None, "one read is not enough");
    harness.advance_secs(2);
    assert_eq!(harness.protect_code(), Some("pending_ahead"));
}

#[test]
fn lane_binds_nothing_before_the_account_is_read() {
    let mut harness = starting_from(StartFrom::Nonce(nonce(0)));
    harness.hold.insert(Hold::Account);
    harness.run();
    harness.advance_secs(60);
    assert!(harness.commits.is_empty());
}

#[test]
fn lane_without_work_does_not_read_the_account() {
    let mut harness = LaneHarness::new(window(1));
    harness.hold.insert(Hold::Account);
    harness.run();
    assert!(harness.unanswered.is_empty());
    harness.command(CommandKind::Pause);
    assert_eq!(harness.unanswered.len(), 1, "pausing a lane needs a cursor");
}
