//! What waits too long: the claim, the same bytes again or more for them, what pools show, and who decides at last.

use std::time::Duration;

use gapless_domain::{
    AttemptKind, BumpPolicy, CommandKind, Decision, EvmCall, FeePolicy, Fees, LaneEventKind, LaneSetup, MempoolPolicy,
    MempoolSignal, SendOutcome, StateName, StuckRule, SubStateName,
};

use crate::bench::{Bench, FEES, Hold, block, kinds, mined, nonce, window};

fn bumping(size: u16) -> LaneSetup {
    let mut setup = window(size);
    setup.policy.bump = BumpPolicy { enabled: true, ..BumpPolicy::default() };
    setup
}

/// Sent, taken, and not mined.
fn waiting(setup: LaneSetup, intents: u64) -> Bench {
    let mut bench = Bench::busy(setup, intents);
    while !bench.broadcasts.is_empty() {
        bench.answer(SendOutcome::Accepted);
    }
    bench
}

fn offers(bench: &Bench, at: u64) -> Vec<Fees> {
    let attempts = bench.ledger.attempts.values().filter(|attempt| attempt.nonce == nonce(at));
    attempts.map(|attempt| attempt.fees).collect()
}

fn told(bench: &Bench) -> Vec<LaneEventKind> {
    bench.commits.iter().flat_map(|commit| commit.lane_events().map(|(_, kind, _)| kind)).collect()
}

/// proves F08
#[test]
fn without_bumps_it_is_the_same_bytes_at_every_interval() {
    let mut bench = waiting(window(1), 1);
    bench.market = (Fees::Eip1559 { max_fee: 900, max_priority_fee: 90 }, 400);
    for tries in 1..4 {
        bench.pass_blocks(5, 60);
        assert_eq!(bench.ledger.slots[&nonce(0)].tries, tries, "claimed before it is sent");
        assert_eq!(bench.answer(SendOutcome::AlreadyKnown)[0].tx.hash, bench.hash(0, 0));
    }
    assert_eq!(bench.ledger.attempts.len(), 1);
}

/// proves F01
#[test]
fn with_bumps_each_one_offers_more_than_the_one_before() {
    let mut bench = waiting(bumping(1), 1);
    for ordinal in 1..4 {
        bench.pass_blocks(5, 60);
        assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, ordinal));
    }
    assert_eq!(kinds(&bench, 0)[1..], [AttemptKind::Bump; 3]);
    let fees = |max_fee, max_priority_fee| Fees::Eip1559 { max_fee, max_priority_fee };
    assert_eq!(offers(&bench, 0), [FEES, fees(113, 12), fees(128, 14), fees(144, 16)]);
    bench.finish(bench.hash(0, 1), block(9));
    assert_eq!(bench.state(1), StateName::Confirmed, "whichever of them is mined");
}

/// A market that has risen is followed at once.
#[test]
fn a_raise_goes_to_what_the_market_asks() {
    let mut bench = waiting(bumping(1), 1);
    bench.market = (Fees::Eip1559 { max_fee: 700, max_priority_fee: 5 }, 300);
    bench.pass_blocks(5, 60);
    assert_eq!(offers(&bench, 0)[1], Fees::Eip1559 { max_fee: 700, max_priority_fee: 12 });
}

/// proves F02
#[test]
fn raises_are_throttled_and_need_blocks_that_came_since() {
    let mut setup = bumping(1);
    setup.policy.bump.min_interval = Duration::from_secs(150);
    let mut bench = waiting(setup, 1);
    for (blocks, seconds, attempts) in
        [(9, 60, 1), (9, 60, 1), (9, 60, 2), (0, 60, 2), (0, 60, 2), (1, 60, 2), (2, 60, 3)]
    {
        bench.pass_blocks(blocks, seconds);
        bench.answer(SendOutcome::AlreadyKnown);
        assert_eq!(bench.ledger.attempts.len(), attempts, "{blocks} blocks, {seconds} s");
    }
}

/// proves F02
#[test]
fn after_the_last_raise_the_same_bytes_go_out() {
    let mut setup = bumping(1);
    setup.policy.bump.max_attempts = 2;
    let mut bench = waiting(setup, 1);
    for hash in [1, 2, 2, 2] {
        bench.pass_blocks(5, 60);
        assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, hash));
    }
    assert_eq!(bench.ledger.attempts.len(), 3);
}

/// proves F02
#[test]
fn at_the_cap_it_is_sent_as_it_is_and_consumers_are_told() {
    let mut setup = bumping(1);
    setup.policy.fees = FeePolicy { max_price: 115 };
    let mut bench = waiting(setup, 1);
    for _ in 0..3 {
        bench.pass_blocks(5, 60);
        bench.answer(SendOutcome::Accepted);
    }
    assert_eq!(offers(&bench, 0), [FEES, Fees::Eip1559 { max_fee: 113, max_priority_fee: 12 }]);
    assert_eq!(told(&bench), [LaneEventKind::FeesAboveCap], "once");
}

/// proves F06
#[test]
fn a_spike_above_the_cap_delays_and_goes_on_when_it_is_over() {
    let mut setup = window(1);
    setup.policy.fees = FeePolicy { max_price: 150 };
    let mut bench = Bench::new(setup);
    bench.market = (Fees::Eip1559 { max_fee: 2000, max_priority_fee: 10 }, 990);
    bench.queue(1);
    bench.run();
    bench.pass_secs(100);
    assert_eq!((bench.states(), told(&bench)), (vec![StateName::Queued], vec![LaneEventKind::FeesAboveCap]));
    bench.market = (Fees::Eip1559 { max_fee: 200, max_priority_fee: 10 }, 90);
    bench.pass_secs(1);
    assert_eq!(offers(&bench, 0), [Fees::Eip1559 { max_fee: 150, max_priority_fee: 10 }]);
    bench.answer(SendOutcome::Accepted);
    assert_eq!(told(&bench)[1..], [LaneEventKind::FeesBelowCap]);
}

/// proves F03
#[test]
fn a_price_of_the_callers_own_is_neither_capped_nor_raised() {
    let mut setup = bumping(1);
    setup.policy.fees = FeePolicy { max_price: 10 };
    let mut bench = Bench::new(setup);
    let own = Fees::Legacy { gas_price: 999 };
    bench.queue_call(EvmCall { fees: Some(own), gas_limit: Some(50_000), ..EvmCall::default() }, None);
    bench.run();
    bench.answer(SendOutcome::Accepted);
    for _ in 0..3 {
        bench.pass_blocks(5, 60);
        bench.answer(SendOutcome::Accepted);
    }
    assert_eq!(offers(&bench, 0), [own]);
}

#[test]
fn only_the_lowest_is_raised_unless_told_otherwise() {
    for (only_lowest, expected) in [(true, [2, 1]), (false, [2, 2])] {
        let mut setup = bumping(2);
        setup.policy.bump.only_lowest = only_lowest;
        let mut bench = waiting(setup, 2);
        bench.pass_blocks(5, 60);
        assert_eq!([offers(&bench, 0).len(), offers(&bench, 1).len()], expected);
    }
}

/// proves S17
#[test]
fn without_funds_nothing_is_raised_and_no_try_is_counted() {
    let mut bench = Bench::busy(bumping(1), 1);
    bench.answer(SendOutcome::InsufficientFunds);
    for _ in 0..30 {
        bench.pass_blocks(5, 60);
        if !bench.broadcasts.is_empty() {
            bench.answer(SendOutcome::InsufficientFunds);
        }
    }
    assert_eq!((bench.ledger.attempts.len(), bench.ledger.slots[&nonce(0)].tries), (1, 0));
    assert_eq!(bench.ledger.txs[&1].state.sub_state(), Some(SubStateName::AwaitingFunds));
}

/// More than the account can pay for is not offered.
#[test]
fn a_raise_that_cannot_be_paid_for_is_the_same_bytes_again() {
    let mut bench = Bench::new(bumping(1));
    bench.account.balance = gapless_domain::Amount::from(21_000_u64 * 105);
    bench.queue(1);
    bench.run();
    bench.answer(SendOutcome::Accepted);
    bench.pass_blocks(5, 60);
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, 0));
    assert_eq!(bench.ledger.attempts.len(), 1);
}

/// proves S01
#[test]
fn a_raise_is_durable_before_it_is_sent_and_a_crash_before_that_leaves_the_claim() {
    let mut bench = waiting(bumping(1), 1);
    bench.hold.insert(Hold::Sign);
    bench.pass_blocks(5, 60);
    assert!(bench.broadcasts.is_empty(), "what it offers now is being made");
    bench.crash();
    bench.run();
    assert!(bench.broadcasts.is_empty(), "the claim of the one before holds");
    bench.pass_blocks(5, 60);
    bench.answer(SendOutcome::Accepted);
    bench.pass_blocks(5, 60);
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, 1));
}

#[test]
fn pools_are_looked_into_first_and_what_they_show_is_kept_and_told() {
    let mut setup = bumping(1);
    setup.policy.mempool = MempoolPolicy { diagnose: true };
    let mut bench = waiting(setup, 1);
    bench.signal = MempoolSignal::LikelyDropped;
    bench.pass_blocks(5, 60);
    assert_eq!(bench.ledger.slots[&nonce(0)].signal, Some(MempoolSignal::LikelyDropped));
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, 0), "no pool has it: it is not too cheap");
    bench.pass_blocks(5, 60);
    bench.answer(SendOutcome::Accepted);
    assert_eq!(told(&bench), [LaneEventKind::Diagnosed], "only what is new");
    bench.signal = MempoolSignal::InMempool;
    bench.pass_blocks(5, 60);
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, 1));
    assert_eq!(told(&bench).len(), 2);
    assert_eq!(bench.states(), [StateName::Tracking], "it decides nothing");
}

fn stuck(decision: Decision) -> Bench {
    let mut setup = window(2);
    setup.policy.stuck = StuckRule { after_tries: 3, ask_interval: Duration::from_secs(300) };
    let mut bench = waiting(setup, 2);
    bench.decision = decision;
    for _ in 0..3 {
        assert_eq!(bench.state(1), StateName::Tracking);
        bench.pass_blocks(5, 60);
        bench.answer(SendOutcome::AlreadyKnown);
    }
    bench
}

#[test]
fn after_its_tries_it_is_stuck_and_by_default_only_sent_again() {
    let mut bench = stuck(Decision::Wait);
    assert_eq!(bench.states(), [StateName::Stuck, StateName::Tracking], "the one behind it is not at fault");
    let case = &bench.cases[0];
    assert_eq!((case.tx_id, case.nonce, case.tries, case.attempts.len()), (bench.id(1), nonce(0), 3, 1));
    for _ in 0..5 {
        bench.pass_blocks(5, 60);
        bench.answer(SendOutcome::AlreadyKnown);
    }
    assert_eq!((bench.cases.len(), bench.ledger.attempts.len()), (2, 2), "asked again after a while");
    bench.finish(bench.hash(0, 0), block(9));
    assert_eq!(bench.state(1), StateName::Confirmed, "left when the chain moves");
}

#[test]
fn a_halted_chain_makes_nothing_stuck() {
    let mut setup = window(1);
    setup.policy.stuck.after_tries = 3;
    let mut bench = waiting(setup, 1);
    for _ in 0..9 {
        bench.pass_secs(60);
        bench.answer(SendOutcome::AlreadyKnown);
    }
    assert_eq!((bench.state(1), bench.ledger.slots[&nonce(0)].tries), (StateName::Tracking, 0));
}

#[test]
fn what_is_decided_is_written_first_and_then_done() {
    let mut bench = stuck(Decision::Wait);
    bench.decision = Decision::Resend;
    bench.pass_secs(30);
    bench.tell(gapless_domain::Fact::Tick);
    assert!(bench.broadcasts.is_empty());
    bench.pass_blocks(5, 30);
    bench.answer(SendOutcome::AlreadyKnown);
    bench.pass_secs(240);
    assert_eq!(bench.state(1), StateName::Tracking, "revived");
    assert_eq!(bench.ledger.slots[&nonce(0)].tries, 0, "and counted anew");
    assert_eq!(bench.ledger.audits.last().unwrap().detail.as_str(), "nonce 0 is stuck: resend");
    assert_eq!(bench.answer(SendOutcome::AlreadyKnown)[0].tx.hash, bench.hash(0, 0));

    let mut bench = stuck(Decision::Bump);
    assert_eq!((bench.state(1), kinds(&bench, 0).len()), (StateName::Tracking, 2));
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, 1));

    let mut bench = stuck(Decision::Cancel);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    bench.finish(bench.hash(0, 1), block(9));
    assert_eq!(bench.state(1), StateName::Canceled);

    let bench = stuck(Decision::Escalate);
    assert_eq!((bench.state(1), told(&bench)), (StateName::Stuck, vec![LaneEventKind::Escalated]));
}

/// Found by seed 2730 of the simulator: a second cancel is no change that can be written, and the lane wrote nothing ever after.
#[test]
fn a_cancel_that_is_stuck_and_canceled_is_sent_again() {
    let mut setup = window(1);
    setup.policy.stuck.after_tries = 1;
    let mut bench = waiting(setup, 1);
    bench.cancel(1);
    bench.answer(SendOutcome::Accepted);
    bench.decision = Decision::Cancel;
    bench.pass_blocks(5, 60);
    bench.answer(SendOutcome::AlreadyKnown);
    assert_eq!((bench.state(1), kinds(&bench, 0).len()), (StateName::Tracking, 2));
    assert!(bench.notices.is_empty(), "{:?}", bench.notices);
    bench.finish(bench.hash(0, 1), block(9));
    assert_eq!(bench.state(1), StateName::Canceled);
}

/// What was decided, and not written, is not done.
#[test]
fn a_decision_that_comes_after_the_chains_is_dropped() {
    let mut setup = window(1);
    setup.policy.stuck.after_tries = 1;
    let mut bench = waiting(setup, 1);
    bench.hold.insert(Hold::Decide);
    bench.pass_blocks(5, 60);
    bench.answer(SendOutcome::AlreadyKnown);
    assert_eq!(bench.state(1), StateName::Stuck);
    bench.see(mined(bench.hash(0, 0), block(9)));
    bench.tell(gapless_domain::Fact::Decided(nonce(0), Decision::Cancel));
    assert_eq!((bench.state(1), kinds(&bench, 0).len()), (StateName::Tracking, 1));
}

#[test]
fn whoever_loads_a_lane_asks_about_what_is_stuck_in_it() {
    let mut bench = stuck(Decision::Wait);
    bench.crash();
    bench.decision = Decision::Cancel;
    bench.run();
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
}

/// Somebody who asks by hand is as good as a decision.
#[test]
fn a_resubmit_revives_what_is_stuck() {
    let mut bench = stuck(Decision::Wait);
    bench.command(CommandKind::Resubmit { tx_id: bench.id(1), fees: None });
    assert_eq!((bench.state(1), bench.ledger.slots[&nonce(0)].tries), (StateName::Tracking, 0));
}

/// The answer to that resend comes while the decision is being written.
#[test]
fn a_bump_that_is_decided_while_a_resend_is_under_way_is_done() {
    let mut bench = stuck(Decision::Wait);
    bench.hold.insert(Hold::Decide);
    for _ in 0..4 {
        bench.pass_blocks(5, 60);
        bench.answer(SendOutcome::AlreadyKnown);
    }
    bench.pass_blocks(5, 60);
    let sent = bench.take_broadcast();
    bench.hold.insert(Hold::Commit);
    bench.tell(gapless_domain::Fact::Decided(nonce(0), Decision::Bump));
    bench.held_commit();
    bench.answer_each(&sent, &vec![SendOutcome::AlreadyKnown; sent.len()]);
    bench.hold.clear();
    bench.commit_done(false);
    bench.run();
    assert_eq!(bench.ledger.audits.last().map(|entry| entry.detail.as_str()), Some("nonce 0 is stuck: bump"));
    bench.pass_blocks(1, 5);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Bump]);
}
