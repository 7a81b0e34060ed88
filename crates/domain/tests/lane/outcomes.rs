//! What each outcome of a send leads to: a row of DESIGN §7 is a row here.

use gapless_domain::{
    AttemptKind, EvmCall, Fees, Goal, PrepareFailure, PrepareKey, Prepared, SendOutcome, Sighting, StateName,
    SubStateName,
};

use crate::bench::{Bench, FEES, GAS, Hold, block, kinds, mined, window};
use crate::doubted::sent;

/// How the only intent of a strict lane is after its first send was answered so: its state, when it is sent again with which
/// bytes, and what was done beside.
struct Row {
    outcome: SendOutcome,
    state: StateName,
    sub_state: SubStateName,
    /// Is the same attempt sent again, and after how many seconds?
    again: Option<u64>,
    looks_up: bool,
}

const fn row(outcome: SendOutcome, state: StateName, sub_state: SubStateName, again: Option<u64>) -> Row {
    Row { outcome, state, sub_state, again, looks_up: false }
}

/// proves S04, S06, C06
#[test]
fn every_outcome_leads_to_its_action_and_none_moves_the_nonce() {
    use SendOutcome as O;
    use StateName::{Allocated, Tracking};
    use SubStateName::{AwaitingFunds, Canceling, Pending};
    let rows = [
        row(O::Accepted, Tracking, Pending, Some(60)),
        row(O::AlreadyKnown, Tracking, Pending, Some(60)),
        Row { looks_up: true, ..row(O::NonceTooLow, Allocated, Pending, Some(1)) },
        row(O::NonceTooHigh, Allocated, Pending, Some(1)),
        row(O::ReplacementUnderpriced, Allocated, Pending, Some(1)),
        row(O::Underpriced, Allocated, Pending, Some(1)),
        row(O::InsufficientFunds, Allocated, AwaitingFunds, Some(1)),
        // Something else takes its nonce: a cancel of ours.
        row(O::Rejected, Allocated, Canceling, None),
        row(O::Wait, Allocated, Pending, Some(1)),
        row(O::PoolFull, Allocated, Pending, Some(1)),
        row(O::RateLimited, Allocated, Pending, Some(1)),
        row(O::Unavailable, Allocated, Pending, Some(1)),
        row(O::Unknown, Allocated, Pending, Some(1)),
    ];
    for Row { outcome, state, sub_state, again, looks_up } in rows {
        let mut bench = Bench::busy(window(1), 2);
        let looked_up = bench.looked_up().len();
        let first = bench.answer(outcome);
        let name = outcome.as_str();
        let tx = &bench.ledger.txs[&1];
        assert_eq!((tx.state.name(), tx.state.sub_state()), (state, Some(sub_state)), "{name}");
        assert_eq!(bench.nonces(), [Some(0), None], "{name}: the nonce stays, and nobody else gets one");
        assert_eq!(bench.looked_up().len() > looked_up, looks_up, "{name}");
        assert_eq!(bench.protect_code(), None, "{name}: no text stops a lane");
        if let Some(seconds) = again {
            bench.pass_secs(seconds - 1);
            assert!(bench.broadcasts.is_empty(), "{name}: too early");
            bench.pass_secs(1);
            assert_eq!(bench.take_broadcast(), first, "{name}: the same bytes");
        } else {
            let next = bench.take_broadcast();
            assert_ne!(next, first, "{name}");
            assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel], "{name}");
        }
        // Whatever they say: if the chain has it, it is done.
        bench.finish(bench.hash(0, 0), block(1));
        assert_eq!(bench.state(1), StateName::Confirmed, "{name}");
    }
}

/// What is not taken waits longer and longer, up to a limit.
#[test]
fn every_refusal_backs_off() {
    let mut bench = Bench::busy(window(1), 1);
    for outcome in [SendOutcome::PoolFull, SendOutcome::RateLimited, SendOutcome::Unknown, SendOutcome::Wait] {
        bench.answer(outcome);
        bench.pass_secs(64);
    }
    bench.answer(SendOutcome::PoolFull);
    bench.pass_secs(15);
    assert!(bench.broadcasts.is_empty());
    bench.pass_secs(50);
    assert_eq!(bench.sending(), [0]);
}

#[test]
fn a_nonce_too_high_sends_the_lower_ones_again() {
    let mut bench = Bench::busy(window(3), 3);
    let sent = bench.take_broadcast();
    bench.answer_each(&sent, &[SendOutcome::Accepted, SendOutcome::Accepted, SendOutcome::NonceTooHigh]);
    assert_eq!(bench.sending(), [0, 1], "a node that has lost them cannot take the third");
}

fn underpriced() -> Bench {
    let mut bench = Bench::busy(window(1), 1);
    bench.hold.insert(Hold::Prepare);
    bench.answer(SendOutcome::Underpriced);
    assert!(bench.held.is_empty(), "not at once");
    bench.pass_secs(1);
    bench
}

#[test]
fn underpriced_is_priced_again_and_bumped_if_the_market_asks_for_more() {
    let mut bench = underpriced();
    let asked = bench.take_prepare();
    assert_eq!(asked[0].call.gas_limit, Some(GAS), "the gas was decided before");
    let fees = Fees::Eip1559 { max_fee: 105, max_priority_fee: 40 };
    bench.prepared(vec![(asked[0].key, Ok(Prepared::new(GAS, fees)))]);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Bump]);
    let bump = bench.ledger.attempts.values().last().cloned().unwrap();
    // Each field is at least what a node takes for a replacement.
    assert_eq!(bump.fees, Fees::Eip1559 { max_fee: 113, max_priority_fee: 40 });
    assert_eq!(bench.take_broadcast()[0].tx.hash, bump.hash);
    bench.finish(bench.hash(0, 1), block(1));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

#[test]
fn underpriced_is_sent_again_as_it_is_if_the_market_does_not_ask_for_more() {
    let mut bench = underpriced();
    let asked = bench.take_prepare();
    bench.prepared(vec![(asked[0].key, Ok(Prepared::new(GAS, FEES)))]);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original]);
    assert_eq!(bench.sending(), [0]);
}

#[test]
fn underpriced_waits_for_a_price_that_nobody_can_tell() {
    let mut bench = underpriced();
    let asked = bench.take_prepare();
    let nobody = PrepareFailure::Unavailable(crate::bench::text("away"));
    bench.prepared(vec![(asked[0].key, Err(nobody))]);
    bench.pass_secs(1);
    assert!(matches!(bench.take_prepare()[0].key, PrepareKey::Slot(at, _) if at == crate::bench::nonce(0)));
}

/// proves F03
#[test]
fn a_price_of_the_callers_own_is_not_raised() {
    let mut bench = Bench::new(window(1));
    let to = Some(gapless_domain::Address::ZERO);
    bench.queue_call(EvmCall { to, fees: Some(FEES), gas_limit: Some(GAS), ..EvmCall::default() }, None);
    bench.run();
    for _ in 0..3 {
        bench.answer(SendOutcome::Underpriced);
        bench.pass_secs(10);
    }
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original]);
}

#[test]
fn a_price_is_not_raised_for_ever() {
    let mut setup = window(1);
    setup.policy.bump.max_attempts = 3;
    let mut bench = Bench::busy(setup, 1);
    bench.hold.insert(Hold::Prepare);
    for round in 0..10_u128 {
        bench.answer(SendOutcome::Underpriced);
        bench.pass_secs(70);
        if bench.held.iter().any(|effect| matches!(effect, gapless_domain::Effect::Prepare(_))) {
            let asked = bench.take_prepare();
            let fees = Fees::Eip1559 { max_fee: 1000 << round, max_priority_fee: 1000 << round };
            bench.prepared(vec![(asked[0].key, Ok(Prepared::new(GAS, fees)))]);
        }
    }
    assert_eq!(bench.ledger.attempts.len(), 4, "the original and three");
}

/// Somebody's transaction in the pool is dearer than our cancel.
#[test]
fn a_filler_that_does_not_replace_is_made_dearer() {
    let mut bench = Bench::busy(window(1), 1);
    bench.answer(SendOutcome::Rejected);
    bench.answer(SendOutcome::ReplacementUnderpriced);
    bench.pass_secs(2);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel, AttemptKind::Cancel]);
    let fees: Vec<u128> = bench.ledger.attempts.values().map(|attempt| attempt.fees.highest_price()).collect();
    assert_eq!(fees, [100, 100, 113], "what was rejected is in no pool");
    assert_eq!(bench.ledger.txs[&1].state.bound().unwrap().goal, Goal::Cancel(gapless_domain::CancelReason::Rejected));
}

#[test]
fn all_tries_are_not_used_up_in_one_moment() {
    let mut bench = sent(window(1), 1);
    bench.cancel(1);
    for _ in 0..40 {
        if bench.broadcasts.is_empty() {
            break;
        }
        bench.answer(SendOutcome::Underpriced);
    }
    assert!(kinds(&bench, 0).len() <= 4, "{} attempts without a second passing", kinds(&bench, 0).len());
}

#[test]
fn a_late_rejection_of_what_is_mined_already_does_not_stop_the_lane() {
    let mut bench = sent(window(1), 1);
    bench.cancel(1);
    assert_eq!(bench.sending(), [0]);
    bench.see(mined(bench.hash(0, 0), block(3)));
    bench.answer(SendOutcome::Rejected);
    assert_eq!(bench.protect_code(), None);
}

#[test]
fn a_late_rejection_of_what_is_mined_already_cancels_nothing_after_a_reorg() {
    let mut bench = Bench::busy(window(1), 1);
    bench.see(mined(bench.hash(0, 0), block(3)));
    bench.answer(SendOutcome::Rejected);
    bench.see(Sighting::Unmined { hash: bench.hash(0, 0), block: block(3) });
    bench.pass_secs(1);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original]);
}
