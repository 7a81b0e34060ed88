//! Refused for good, and out of money.

use gapless_domain::{
    Amount, AttemptKind, CancelReason, Cancellation, Effect, Fees, Goal, Progress, SendOutcome, Sighting, StateName,
    TxState,
};

use crate::bench::{Bench, Hold, block, finalized, kinds, mined, window};

fn rejected() -> Bench {
    rejected_of(2)
}

fn rejected_of(intents: u64) -> Bench {
    let mut bench = Bench::busy(window(1), intents);
    bench.answer(SendOutcome::Rejected);
    bench
}

/// proves N14 N15
#[test]
fn what_is_rejected_for_good_is_canceled_in_its_own_slot() {
    let mut bench = rejected();
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    assert_eq!(bench.ledger.txs[&1].state.bound().unwrap().goal, Goal::Cancel(CancelReason::Rejected));
    let fees = bench.ledger.attempts.values().map(|attempt| attempt.fees).collect::<Vec<_>>();
    assert_eq!(fees[1], crate::bench::FEES, "no pool has what it replaces");
    let sent = bench.answer(SendOutcome::Accepted);
    assert_eq!(sent[0].tx.hash, bench.hash(0, 1));
    assert_eq!(bench.nonces(), [Some(0), None]);
}

/// A node had taken it before the others refused it: then the cancel has to outbid it.
#[test]
fn what_may_be_in_a_pool_is_outbid() {
    let mut bench = Bench::busy(window(1), 1);
    bench.answer(SendOutcome::Unknown);
    bench.pass_secs(1);
    bench.answer(SendOutcome::Rejected);
    let fees = bench.ledger.attempts.values().map(|attempt| attempt.fees).collect::<Vec<_>>();
    let Fees::Eip1559 { max_fee, max_priority_fee } = fees[1] else { panic!() };
    assert!(max_fee >= 113 && max_priority_fee >= 12, "{fees:?}");
    bench.crash();
    bench.run();
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
}

/// proves S20
#[test]
fn it_ends_canceled_when_the_cancel_is_final() {
    let mut bench = rejected();
    bench.answer(SendOutcome::Accepted);
    let hash = bench.hash(0, 1);
    bench.see(mined(hash, block(1)));
    assert_eq!(bench.state(1), StateName::Tracking);
    bench.see(finalized(hash, block(1)));
    let TxState::Canceled(Cancellation::OnChain(reason, _)) = &bench.ledger.txs[&1].state else { panic!() };
    assert_eq!(*reason, CancelReason::Rejected);
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
}

/// proves S20 S07 N24
#[test]
fn it_ends_confirmed_when_the_original_is_mined_after_all() {
    let mut bench = rejected();
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(0, 0), block(1));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

/// Both stand in blocks of two branches; the final one decides.
///
/// proves S07
#[test]
fn any_of_its_hashes_completes_it_and_only_the_final_one_counts() {
    let mut bench = rejected_of(1);
    bench.answer(SendOutcome::Accepted);
    let (original, cancel) = (bench.hash(0, 0), bench.hash(0, 1));
    bench.see(mined(original, block(1)));
    bench.see(Sighting::Unmined { hash: original, block: block(1) });
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, cancel, "what it wants now is sent again");
    bench.see(mined(original, block(2)));
    bench.see(Sighting::Unmined { hash: original, block: block(2) });
    bench.finish(cancel, block(3));
    assert_eq!(bench.state(1), StateName::Canceled);
}

/// proves N15
#[test]
fn a_cancel_that_is_rejected_too_stops_the_lane() {
    let mut bench = rejected();
    bench.answer(SendOutcome::Rejected);
    assert_eq!(bench.protect_code(), Some("cannot_fill"));
    // It is still tried, and still ends if the chain takes it.
    bench.pass_secs(2);
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, 1));
    bench.finish(bench.hash(0, 1), block(1));
    assert_eq!(bench.state(1), StateName::Canceled);
    bench.pass_secs(20);
    assert_eq!(bench.state(2), StateName::Queued, "nothing new is bound");
}

/// Mined while its cancel was at the signer: nothing is written for a slot that is closed.
#[test]
fn a_cancel_that_comes_too_late_is_not_written() {
    let mut bench = Bench::busy(window(1), 1);
    bench.hold.insert(Hold::Sign);
    bench.answer(SendOutcome::Rejected);
    let Some(Effect::Sign(requests)) = bench.held.pop() else { panic!() };
    bench.finish(bench.hash(0, 0), block(1));
    bench.tell(gapless_domain::Fact::Signed(requests.iter().map(|request| Ok(crate::bench::sign(request))).collect()));
    assert_eq!(bench.ledger.attempts.len(), 1);
    assert_eq!(bench.state(1), StateName::Confirmed);
}

/// The answer to the original comes after its cancel is durable: the cancel goes out at once all the same.
#[test]
fn a_late_answer_to_the_original_does_not_hold_up_the_cancel() {
    let mut bench = Bench::busy(window(1), 1);
    bench.hold.insert(Hold::Commit);
    bench.answer(SendOutcome::Rejected);
    // The goal takes long to write, and the original is tried once more meanwhile.
    bench.pass_secs(1);
    let original = bench.take_broadcast();
    bench.commit_done(true);
    bench.commit_done(true);
    assert!(bench.broadcasts.is_empty());
    bench.answer_each(&original, &[SendOutcome::Accepted]);
    assert_eq!(bench.take_broadcast()[0].tx.hash, bench.hash(0, 1));
}

#[test]
fn an_answer_that_is_no_verdict_takes_no_verdict_back() {
    let mut bench = Bench::busy(window(1), 1);
    bench.hold.insert(Hold::Commit);
    bench.answer(SendOutcome::Rejected);
    bench.pass_secs(1);
    bench.answer(SendOutcome::Unavailable);
    bench.commit_not_written();
    bench.hold.clear();
    bench.pass_secs(5);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
}

fn progress(bench: &Bench) -> Progress {
    bench.ledger.txs[&1].state.bound().unwrap().progress.clone()
}

/// proves S17
#[test]
fn out_of_funds_it_waits_and_goes_on_by_itself() {
    let mut bench = Bench::busy(window(3), 2);
    bench.account.balance = Amount::from(1_u64);
    let first = bench.answer(SendOutcome::InsufficientFunds);
    assert_eq!(progress(&bench), Progress::AwaitingFunds);
    bench.queue(1);
    bench.pass_secs(1);
    assert_eq!(bench.answer(SendOutcome::Unavailable), first);
    assert_eq!(progress(&bench), Progress::AwaitingFunds, "nobody said that there are funds now");
    assert_eq!(bench.nonces(), [Some(0), Some(1), None]);
    bench.account.balance = Amount::from(u64::MAX);
    bench.pass_secs(2);
    bench.answer(SendOutcome::Accepted);
    assert_eq!(progress(&bench), Progress::Pending);
    assert_eq!(bench.state(1), StateName::Tracking);
    assert_eq!(bench.ledger.attempts.values().filter(|attempt| attempt.ordinal > 0).count(), 0, "nothing is bumped");
    bench.pass_secs(20);
    assert_eq!(bench.nonces(), [Some(0), Some(1), Some(2)]);
}
