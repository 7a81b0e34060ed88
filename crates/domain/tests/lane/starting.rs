//! Where a lane begins.

use gapless_domain::{AccountFacts, CommandKind, StartFrom};

use crate::bench::{Bench, Hold, account, nonce, window};

fn starting_from(start_from: StartFrom) -> Bench {
    let mut setup = window(1);
    setup.policy.nonce.start_from = start_from;
    let mut bench = Bench::new(setup);
    bench.queue(1);
    bench
}

/// proves N19
#[test]
fn a_fresh_lane_starts_at_zero() {
    let mut bench = starting_from(StartFrom::Nonce(nonce(0)));
    bench.run();
    assert_eq!(bench.nonces(), [Some(0)]);
    assert_eq!(bench.sending(), [0]);
}

/// proves N19
#[test]
fn a_lane_with_a_history_that_nobody_spoke_of_stops() {
    let mut bench = starting_from(StartFrom::Nonce(nonce(0)));
    bench.account = account(3);
    bench.run();
    assert_eq!(bench.protect_code(), Some("history_without_start"));
    assert_eq!(bench.nonces(), [None]);
    assert!(bench.broadcasts.is_empty());
}

#[test]
fn a_start_above_the_count_would_be_a_gap() {
    let mut bench = starting_from(StartFrom::Nonce(nonce(5)));
    bench.account = account(3);
    bench.run();
    assert_eq!(bench.protect_code(), Some("missing_slot"));
    assert_eq!(bench.nonces(), [None]);
}

#[test]
fn a_start_from_the_chain_waits_until_nothing_is_under_way_there() {
    let settled = account(7);
    let unsettled = [
        AccountFacts { pending: nonce(8), ..settled },
        AccountFacts { finalized: Some(nonce(6)), ..settled },
        AccountFacts { finalized: None, ..settled },
    ];
    for unsettled in unsettled {
        let mut bench = starting_from(StartFrom::Chain);
        bench.account = unsettled;
        bench.run();
        bench.pass_secs(30);
        assert_eq!(bench.ledger.cursor, None, "{unsettled:?}");
        bench.account = settled;
        bench.pass_secs(30);
        assert_eq!(bench.sending(), [7]);
        assert_eq!(bench.protect_code(), None);
    }
}

/// What was sent before us need not be final when we begin; that is no chain that went back.
#[test]
fn a_start_above_the_final_count_is_no_regression() {
    for finalized in [None, Some(nonce(3))] {
        let mut bench = starting_from(StartFrom::Nonce(nonce(5)));
        bench.account = AccountFacts { finalized, ..account(5) };
        bench.run();
        assert_eq!(bench.sending(), [5]);
        bench.account.finalized = Some(nonce(4));
        bench.pass_secs(20);
        bench.pass_secs(20);
        assert_eq!(bench.protect_code(), None);
    }
}

/// Somebody else's transaction waits at the first nonce: binding it would make two of them.
#[test]
fn a_lane_does_not_begin_under_a_pending_transaction() {
    let mut bench = starting_from(StartFrom::Nonce(nonce(0)));
    bench.account = AccountFacts { pending: nonce(1), ..account(0) };
    bench.run();
    assert_eq!(bench.nonces(), [None]);
    assert_eq!(bench.protect_code(), None, "once is not enough");
    bench.pass_secs(2);
    assert_eq!(bench.protect_code(), Some("pending_ahead"));
}

#[test]
fn nothing_is_bound_before_the_account_was_read() {
    let mut bench = starting_from(StartFrom::Nonce(nonce(0)));
    bench.hold.insert(Hold::Account);
    bench.run();
    bench.pass_secs(60);
    assert!(bench.commits.is_empty());
}

#[test]
fn a_lane_that_has_nothing_to_begin_with_asks_nobody() {
    let mut bench = Bench::new(window(1));
    bench.hold.insert(Hold::Account);
    bench.run();
    assert!(bench.held.is_empty());
    bench.command(CommandKind::Pause);
    assert_eq!(bench.held.len(), 1, "to pause a lane, it must have begun");
}
