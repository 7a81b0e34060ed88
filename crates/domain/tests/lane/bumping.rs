//! Attempts that wait too long: claims, resends, bumps, mempool signals, and stuck intents.

use std::time::Duration;

use gapless_domain::{
    AttemptKind, BumpPolicy, CommandKind, Decision, EvmCall, FeePolicy, Fees, LaneEventKind, LaneSetup, MempoolPolicy,
    MempoolSignal, SendOutcome, StateName, StuckRule, SubStateName,
};

use crate::harness::{FEES, Hold, LaneHarness, block, kinds, mined, nonce, window};

fn bumping(size: u16) -> LaneSetup {
    let mut setup = window(size);
    setup.policy.bump = BumpPolicy { enabled: true, ..BumpPolicy::default() };
    setup
}

/// A lane whose intents were sent and accepted, and are not mined.
fn waiting(setup: LaneSetup, intents: u64) -> LaneHarness {
    let mut harness = LaneHarness::with_intents(setup, intents);
    while !harness.broadcasts.is_empty() {
        harness.answer(SendOutcome::Accepted);
    }
    harness
}

fn offers(harness: &LaneHarness, at: u64) -> Vec<Fees> {
    let attempts = harness.ledger.attempts.values().filter(|attempt| attempt.nonce == nonce(at));
    attempts.map(|attempt| attempt.fees).collect()
}

fn lane_events(harness: &LaneHarness) -> Vec<LaneEventKind> {
    harness.commits.iter().flat_map(|commit| commit.lane_events().map(|(_, kind, _)| kind)).collect()
}

/// proves F08
#[test]
fn resend_without_bumps_has_the_same_bytes() {
    let mut harness = waiting(window(1), 1);
    harness.market = (Fees::Eip1559 { max_fee: 900, max_priority_fee: 90 }, 400);
    for tries in 1..4 {
        harness.advance_blocks(5, 60);
        assert_eq!(harness.ledger.slots[&nonce(0)].tries, tries, "the claim is written before the send");
        assert_eq!(harness.answer(SendOutcome::AlreadyKnown)[0].tx.hash, harness.hash(0, 0));
    }
    assert_eq!(harness.ledger.attempts.len(), 1);
}

/// proves F01
#[test]
fn each_bump_offers_more_than_the_previous_attempt() {
    let mut harness = waiting(bumping(1), 1);
    for ordinal in 1..4 {
        harness.advance_blocks(5, 60);
        assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, ordinal));
    }
    assert_eq!(kinds(&harness, 0)[1..], [AttemptKind::Bump; 3]);
    let fees = |max_fee, max_priority_fee| Fees::Eip1559 { max_fee, max_priority_fee };
    assert_eq!(offers(&harness, 0), [FEES, fees(113, 12), fees(128, 14), fees(144, 16)]);
    harness.finish(harness.hash(0, 1), block(9));
    assert_eq!(harness.state(1), StateName::Confirmed, "any attempt may be mined");
}

/// A higher market price is followed at once.
#[test]
fn bump_follows_the_market_price() {
    let mut harness = waiting(bumping(1), 1);
    harness.market = (Fees::Eip1559 { max_fee: 700, max_priority_fee: 5 }, 300);
    harness.advance_blocks(5, 60);
    assert_eq!(offers(&harness, 0)[1], Fees::Eip1559 { max_fee: 700, max_priority_fee: 12 });
}

/// proves F02
#[test]
fn bumps_are_throttled_and_need_new_blocks() {
    let mut setup = bumping(1);
    setup.policy.bump.min_interval = Duration::from_secs(150);
    let mut harness = waiting(setup, 1);
    for (blocks, seconds, attempts) in
        [(9, 60, 1), (9, 60, 1), (9, 60, 2), (0, 60, 2), (0, 60, 2), (1, 60, 2), (2, 60, 3)]
    {
        harness.advance_blocks(blocks, seconds);
        harness.answer(SendOutcome::AlreadyKnown);
        assert_eq!(harness.ledger.attempts.len(), attempts, "{blocks} blocks, {seconds} s");
    }
}

/// proves F02
#[test]
fn exhausted_bumps_fall_back_to_resends() {
    let mut setup = bumping(1);
    setup.policy.bump.max_attempts = 2;
    let mut harness = waiting(setup, 1);
    for hash in [1, 2, 2, 2] {
        harness.advance_blocks(5, 60);
        assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, hash));
    }
    assert_eq!(harness.ledger.attempts.len(), 3);
}

/// proves F02
#[test]
fn attempt_at_the_cap_is_resent_and_reported_once() {
    let mut setup = bumping(1);
    setup.policy.fees = FeePolicy { max_price: 115 };
    let mut harness = waiting(setup, 1);
    for _ in 0..3 {
        harness.advance_blocks(5, 60);
        harness.answer(SendOutcome::Accepted);
    }
    assert_eq!(offers(&harness, 0), [FEES, Fees::Eip1559 { max_fee: 113, max_priority_fee: 12 }]);
    assert_eq!(lane_events(&harness), [LaneEventKind::FeesAboveCap], "one event only");
}

/// proves F06
#[test]
fn spike_above_the_cap_delays_binding_until_it_ends() {
    let mut setup = window(1);
    setup.policy.fees = FeePolicy { max_price: 150 };
    let mut harness = LaneHarness::new(setup);
    harness.market = (Fees::Eip1559 { max_fee: 2000, max_priority_fee: 10 }, 990);
    harness.queue(1);
    harness.run();
    harness.advance_secs(100);
    assert_eq!((harness.states(), lane_events(&harness)), (vec![StateName::Queued], vec![LaneEventKind::FeesAboveCap]));
    harness.market = (Fees::Eip1559 { max_fee: 200, max_priority_fee: 10 }, 90);
    harness.advance_secs(1);
    assert_eq!(offers(&harness, 0), [Fees::Eip1559 { max_fee: 150, max_priority_fee: 10 }]);
    harness.answer(SendOutcome::Accepted);
    assert_eq!(lane_events(&harness)[1..], [LaneEventKind::FeesBelowCap]);
}

/// proves F03
#[test]
fn price_set_by_caller_is_neither_capped_nor_bumped() {
    let mut setup = bumping(1);
    setup.policy.fees = FeePolicy { max_price: 10 };
    let mut harness = LaneHarness::new(setup);
    let own = Fees::Legacy { gas_price: 999 };
    harness.queue_call(EvmCall { fees: Some(own), gas_limit: Some(50_000), ..EvmCall::default() }, None);
    harness.run();
    harness.answer(SendOutcome::Accepted);
    for _ in 0..3 {
        harness.advance_blocks(5, 60);
        harness.answer(SendOutcome::Accepted);
    }
    assert_eq!(offers(&harness, 0), [own]);
}

#[test]
fn only_lowest_nonce_is_bumped_by_default() {
    for (only_lowest, expected) in [(true, [2, 1]), (false, [2, 2])] {
        let mut setup = bumping(2);
        setup.policy.bump.only_lowest = only_lowest;
        let mut harness = waiting(setup, 2);
        harness.advance_blocks(5, 60);
        assert_eq!([offers(&harness, 0).len(), offers(&harness, 1).len()], expected);
    }
}

/// proves S17
#[test]
fn unfunded_attempt_is_not_bumped_and_counts_no_try() {
    let mut harness = LaneHarness::with_intents(bumping(1), 1);
    harness.answer(SendOutcome::InsufficientFunds);
    for _ in 0..30 {
        harness.advance_blocks(5, 60);
        if !harness.broadcasts.is_empty() {
            harness.answer(SendOutcome::InsufficientFunds);
        }
    }
    assert_eq!((harness.ledger.attempts.len(), harness.ledger.slots[&nonce(0)].tries), (1, 0));
    assert_eq!(harness.ledger.txs[&1].state.sub_state(), Some(SubStateName::AwaitingFunds));
}

/// A price that the account cannot pay is not offered.
#[test]
fn unaffordable_bump_falls_back_to_a_resend() {
    let mut harness = LaneHarness::new(bumping(1));
    harness.account.balance = gapless_domain::Amount::from(21_000_u64 * 105);
    harness.queue(1);
    harness.run();
    harness.answer(SendOutcome::Accepted);
    harness.advance_blocks(5, 60);
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, 0));
    assert_eq!(harness.ledger.attempts.len(), 1);
}

/// proves S01
#[test]
fn bump_is_durable_before_it_is_sent() {
    let mut harness = waiting(bumping(1), 1);
    harness.hold.insert(Hold::Sign);
    harness.advance_blocks(5, 60);
    assert!(harness.broadcasts.is_empty(), "the bump is at the signer");
    harness.crash();
    harness.run();
    assert!(harness.broadcasts.is_empty(), "the former owner's claim still holds");
    harness.advance_blocks(5, 60);
    harness.answer(SendOutcome::Accepted);
    harness.advance_blocks(5, 60);
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, 1));
}

#[test]
fn mempool_diagnosis_precedes_a_bump_and_is_stored() {
    let mut setup = bumping(1);
    setup.policy.mempool = MempoolPolicy { diagnose: true };
    let mut harness = waiting(setup, 1);
    harness.signal = MempoolSignal::LikelyDropped;
    harness.advance_blocks(5, 60);
    assert_eq!(harness.ledger.slots[&nonce(0)].signal, Some(MempoolSignal::LikelyDropped));
    let sent = harness.answer(SendOutcome::Accepted)[0].tx.hash;
    assert_eq!(sent, harness.hash(0, 0), "an attempt in no pool is not too cheap");
    harness.advance_blocks(5, 60);
    harness.answer(SendOutcome::Accepted);
    assert_eq!(lane_events(&harness), [LaneEventKind::Diagnosed], "an unchanged signal makes no event");
    harness.signal = MempoolSignal::InMempool;
    harness.advance_blocks(5, 60);
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, 1));
    assert_eq!(lane_events(&harness).len(), 2);
    assert_eq!(harness.states(), [StateName::Tracking], "a signal changes no state");
}

fn stuck(decision: Decision) -> LaneHarness {
    let mut setup = window(2);
    setup.policy.stuck = StuckRule { after_tries: 3, ask_interval: Duration::from_secs(300) };
    let mut harness = waiting(setup, 2);
    harness.decision = decision;
    for _ in 0..3 {
        assert_eq!(harness.state(1), StateName::Tracking);
        harness.advance_blocks(5, 60);
        harness.answer(SendOutcome::AlreadyKnown);
    }
    harness
}

#[test]
fn stuck_intent_is_only_resent_by_default() {
    let mut harness = stuck(Decision::Wait);
    assert_eq!(harness.states(), [StateName::Stuck, StateName::Tracking], "the higher nonce is not stuck");
    let case = &harness.stuck_cases[0];
    assert_eq!((case.tx_id, case.nonce, case.tries, case.attempts.len()), (harness.id(1), nonce(0), 3, 1));
    for _ in 0..5 {
        harness.advance_blocks(5, 60);
        harness.answer(SendOutcome::AlreadyKnown);
    }
    assert_eq!(
        (harness.stuck_cases.len(), harness.ledger.attempts.len()),
        (2, 2),
        "a decision is requested again later"
    );
    harness.finish(harness.hash(0, 0), block(9));
    assert_eq!(harness.state(1), StateName::Confirmed, "an inclusion ends STUCK");
}

#[test]
fn halted_chain_makes_no_intent_stuck() {
    let mut setup = window(1);
    setup.policy.stuck.after_tries = 3;
    let mut harness = waiting(setup, 1);
    for _ in 0..9 {
        harness.advance_secs(60);
        harness.answer(SendOutcome::AlreadyKnown);
    }
    assert_eq!((harness.state(1), harness.ledger.slots[&nonce(0)].tries), (StateName::Tracking, 0));
}

#[test]
fn decision_is_written_before_it_is_carried_out() {
    let mut harness = stuck(Decision::Wait);
    harness.decision = Decision::Resend;
    harness.advance_secs(30);
    harness.give(gapless_domain::Fact::Tick);
    assert!(harness.broadcasts.is_empty());
    harness.advance_blocks(5, 30);
    harness.answer(SendOutcome::AlreadyKnown);
    harness.advance_secs(240);
    assert_eq!(harness.state(1), StateName::Tracking, "the intent is not stuck any more");
    assert_eq!(harness.ledger.slots[&nonce(0)].tries, 0, "the tries start again");
    assert_eq!(harness.ledger.audits.last().unwrap().detail.as_str(), "nonce 0 is stuck: resend");
    assert_eq!(harness.answer(SendOutcome::AlreadyKnown)[0].tx.hash, harness.hash(0, 0));

    let mut harness = stuck(Decision::Bump);
    assert_eq!((harness.state(1), kinds(&harness, 0).len()), (StateName::Tracking, 2));
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, 1));

    let mut harness = stuck(Decision::Cancel);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    harness.finish(harness.hash(0, 1), block(9));
    assert_eq!(harness.state(1), StateName::Canceled);

    let harness = stuck(Decision::Escalate);
    assert_eq!((harness.state(1), lane_events(&harness)), (StateName::Stuck, vec![LaneEventKind::Escalated]));
}

/// Found by seed 2730 of the simulator: a second cancel is an illegal transition, and the lane wrote nothing any more.
#[test]
fn cancel_decision_about_stuck_cancel_resends_it() {
    let mut setup = window(1);
    setup.policy.stuck.after_tries = 1;
    let mut harness = waiting(setup, 1);
    harness.cancel(1);
    harness.answer(SendOutcome::Accepted);
    harness.decision = Decision::Cancel;
    harness.advance_blocks(5, 60);
    harness.answer(SendOutcome::AlreadyKnown);
    assert_eq!((harness.state(1), kinds(&harness, 0).len()), (StateName::Tracking, 2));
    assert!(harness.notices.is_empty(), "{:?}", harness.notices);
    harness.finish(harness.hash(0, 1), block(9));
    assert_eq!(harness.state(1), StateName::Canceled);
}

/// A decision that is not written is not carried out.
#[test]
fn decision_after_an_inclusion_is_dropped() {
    let mut setup = window(1);
    setup.policy.stuck.after_tries = 1;
    let mut harness = waiting(setup, 1);
    harness.hold.insert(Hold::Decide);
    harness.advance_blocks(5, 60);
    harness.answer(SendOutcome::AlreadyKnown);
    assert_eq!(harness.state(1), StateName::Stuck);
    harness.sight(mined(harness.hash(0, 0), block(9)));
    harness.give(gapless_domain::Fact::Decided(nonce(0), Decision::Cancel));
    assert_eq!((harness.state(1), kinds(&harness, 0).len()), (StateName::Tracking, 1));
}

#[test]
fn new_owner_requests_decision_about_stuck_intent() {
    let mut harness = stuck(Decision::Wait);
    harness.crash();
    harness.decision = Decision::Cancel;
    harness.run();
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
}

/// A resubmit command counts as a decision.
#[test]
fn resubmit_ends_stuck() {
    let mut harness = stuck(Decision::Wait);
    harness.command(CommandKind::Resubmit { tx_id: harness.id(1), fees: None });
    assert_eq!((harness.state(1), harness.ledger.slots[&nonce(0)].tries), (StateName::Tracking, 0));
}

/// The answer to the resend comes while the decision is being written.
#[test]
fn bump_decision_during_a_resend_is_carried_out() {
    let mut harness = stuck(Decision::Wait);
    harness.hold.insert(Hold::Decide);
    for _ in 0..4 {
        harness.advance_blocks(5, 60);
        harness.answer(SendOutcome::AlreadyKnown);
    }
    harness.advance_blocks(5, 60);
    let sent = harness.take_broadcast();
    harness.hold.insert(Hold::Commit);
    harness.give(gapless_domain::Fact::Decided(nonce(0), Decision::Bump));
    harness.pending_commit();
    harness.answer_each(&sent, &vec![SendOutcome::AlreadyKnown; sent.len()]);
    harness.hold.clear();
    harness.commit_done(false);
    harness.run();
    assert_eq!(harness.ledger.audits.last().map(|entry| entry.detail.as_str()), Some("nonce 0 is stuck: bump"));
    harness.advance_blocks(1, 5);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Bump]);
}
