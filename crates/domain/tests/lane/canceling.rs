//! Canceling: in the queue, in flight, all of a lane, and what is past its time.

use std::time::Duration;

use gapless_domain::{
    AccountFacts, Address, AttemptKind, CancelReason, Cancellation, CommandKind, Effect, EvmCall, Fact, Fees, Goal,
    LaneState, ProtectCode, Protection, ReservationPolicy, SendOutcome, Sighting, StateName, Timestamp, TxState,
};

use crate::bench::{Bench, Hold, account, block, finalized, kinds, mined, nonce, sign, stranger, text, window};

fn goal(bench: &Bench, seq: u64) -> Goal {
    bench.ledger.txs[&seq].state.bound().unwrap().goal
}

fn reason(bench: &Bench, seq: u64) -> CancelReason {
    match &bench.ledger.txs[&seq].state {
        TxState::Canceled(Cancellation::OnChain(reason, _) | Cancellation::InQueue(reason)) => *reason,
        other => panic!("{other:?}"),
    }
}

fn tracked(size: u16, intents: u64) -> Bench {
    let mut bench = Bench::busy(window(size), intents);
    bench.answer(SendOutcome::Accepted);
    bench
}

/// proves S13 N14
#[test]
fn in_flight_it_gets_a_cancel_at_the_same_nonce_and_ends_when_that_is_final() {
    let mut bench = tracked(1, 1);
    bench.cancel(1);
    assert!(bench.result().0, "{:?}", bench.result());
    assert_eq!(goal(&bench, 1), Goal::Cancel(CancelReason::User));
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    let Fees::Eip1559 { max_fee, .. } = bench.ledger.attempts[&(nonce(0), 1)].fees else { panic!() };
    assert!(max_fee >= 113, "it must be dear enough to take the place of the original");
    let cancel = bench.hash(0, 1);
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, cancel);
    bench.see(mined(cancel, block(1)));
    assert_eq!(bench.state(1), StateName::Tracking, "not before it is final");
    bench.see(finalized(cancel, block(1)));
    assert_eq!((bench.state(1), reason(&bench, 1)), (StateName::Canceled, CancelReason::User));
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce, nonce(1));
}

/// The owner that sent the original was stopped, and wakes up after the cancel is durable.
///
/// proves S13 N24
#[test]
fn the_original_that_is_mined_after_all_counts() {
    let mut bench = tracked(1, 1);
    bench.cancel(1);
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(0, 0), block(1));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

/// proves S13
#[test]
fn what_was_canceled_is_canceled_again_after_a_reorg() {
    let mut bench = tracked(1, 1);
    bench.cancel(1);
    bench.answer(SendOutcome::Accepted);
    let (original, cancel) = (bench.hash(0, 0), bench.hash(0, 1));
    bench.see(mined(original, block(1)));
    bench.see(Sighting::Unmined { hash: original, block: block(1) });
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, cancel);
    bench.finish(cancel, block(2));
    assert_eq!(bench.state(1), StateName::Canceled);
}

/// A cancel that was asked for while it stood in a block was refused; asked for again after the reorg, it is done.
///
/// proves S13
#[test]
fn what_is_mined_is_not_canceled_unless_the_block_is_orphaned() {
    let mut bench = tracked(1, 1);
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(1)));
    bench.cancel(1);
    assert_eq!(bench.result(), (false, "it is mined already; the chain has decided"));
    bench.see(Sighting::Unmined { hash, block: block(1) });
    bench.answer(SendOutcome::Accepted);
    assert_eq!((goal(&bench, 1), kinds(&bench, 0).len()), (Goal::Deliver, 1), "it was refused");
    bench.cancel(1);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
}

/// Loaded, and not compared with the chain yet: the ledger's word counts.
#[test]
fn what_the_ledger_says_is_mined_is_not_canceled() {
    let mut bench = tracked(1, 1);
    bench.see(mined(bench.hash(0, 0), block(1)));
    bench.crash();
    bench.cancel(1);
    assert!(!bench.result().0);
}

#[test]
fn canceled_twice_is_canceled_once() {
    let mut bench = tracked(1, 1);
    bench.hold.insert(Hold::Commit);
    bench.cancel(1);
    bench.cancel(1);
    bench.hold.clear();
    bench.commit_done(true);
    assert_eq!(bench.result(), (true, "it is being canceled already"));
    assert_eq!(bench.ledger.results.len(), 2);
    assert_eq!(kinds(&bench, 0).len(), 2);
}

/// proves S02
#[test]
fn a_cancel_that_was_not_written_is_executed_again() {
    let mut bench = tracked(1, 1);
    bench.hold.insert(Hold::Commit);
    bench.cancel(1);
    bench.commit_not_written();
    bench.see(mined(bench.hash(0, 0), block(1)));
    bench.hold.clear();
    bench.pass_secs(2);
    assert!(!bench.result().0, "mined since");
    assert_eq!((goal(&bench, 1), bench.ledger.results.len()), (Goal::Deliver, 1));
}

/// proves S13
#[test]
fn in_the_queue_it_is_canceled_at_once() {
    let mut bench = tracked(1, 3);
    bench.cancel(2);
    assert_eq!((bench.state(2), reason(&bench, 2)), (StateName::Canceled, CancelReason::User));
    assert!(bench.result().0);
    bench.see(mined(bench.hash(0, 0), block(1)));
    assert_eq!(bench.nonces(), [Some(0), None, Some(1)]);
}

/// A command that was there before the lane was loaded waits for the first look at the queue.
#[test]
fn loaded_anew_a_lane_knows_who_is_in_its_queue_before_it_answers() {
    let mut bench = tracked(1, 2);
    bench.hold.insert(Hold::Commit);
    bench.cancel(2);
    bench.crash();
    bench.hold.insert(Hold::Peek);
    bench.run();
    assert!(bench.ledger.results.is_empty(), "nobody has looked yet");
    bench.hold.clear();
    let (queue, commands) = (vec![bench.ledger.txs[&2].clone()], bench.ledger.commands.clone());
    bench.tell(Fact::Peeked(Some(gapless_domain::Peeked { queue, commands })));
    assert_eq!(bench.state(2), StateName::Canceled);
}

/// What is signed and not written uses no nonce, and those behind it close the ranks.
///
/// proves N10 S15
#[test]
fn signed_and_not_written_it_is_canceled_without_a_nonce() {
    let mut bench = Bench::busy(window(4), 1);
    bench.hold.insert(Hold::Commit);
    bench.answer(SendOutcome::Accepted);
    bench.queue(3);
    bench.tell(Fact::Woken);
    bench.cancel(3);
    bench.hold.clear();
    bench.commit_done(true);
    assert_eq!(bench.state(3), StateName::Canceled);
    assert_eq!(bench.nonces(), [Some(0), Some(1), None, Some(2)]);
    assert_eq!(bench.ledger.attempts.len(), 3);
}

/// It may come back without a nonce, or be bound: the command waits for it.
#[test]
fn at_the_signer_its_cancel_waits() {
    let mut bench = tracked(2, 1);
    bench.hold.insert(Hold::Sign);
    bench.queue(1);
    bench.tell(Fact::Woken);
    bench.cancel(2);
    assert!(bench.ledger.results.is_empty());
    let Some(Effect::Sign(requests)) = bench.held.pop() else { panic!() };
    bench.hold.clear();
    bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    assert_eq!((bench.state(2), bench.nonces()[1]), (StateName::Canceled, None));
}

#[test]
fn what_is_not_here_is_not_canceled() {
    let mut bench = tracked(2, 2);
    bench.finish(bench.hash(1, 0), block(1));
    bench.cancel(2);
    assert_eq!(bench.result(), (false, "it is not open in this lane"), "it is over, its slot is not closed");
    bench.command(CommandKind::Cancel { tx_id: gapless_domain::TxId::from_uuid(uuid::Uuid::from_u128(99)) });
    assert_eq!(bench.result(), (false, "it is not open in this lane"));
}

/// proves N15
#[test]
fn a_cancel_that_nodes_refuse_for_good_stops_the_lane() {
    let mut bench = tracked(1, 2);
    bench.cancel(1);
    bench.answer(SendOutcome::Rejected);
    assert_eq!(bench.protect_code(), Some("cannot_fill"));
    bench.finish(bench.hash(0, 0), block(1));
    assert_eq!(bench.states(), [StateName::Confirmed, StateName::Queued]);
}

/// proves S15
#[test]
fn all_of_a_lane_is_canceled_and_those_in_line_go_on() {
    let mut bench = tracked(3, 4);
    bench.see(mined(bench.hash(0, 0), block(1)));
    bench.answer(SendOutcome::Accepted);
    bench.cancel(2);
    bench.answer(SendOutcome::Accepted);
    bench.command(CommandKind::CancelPending);
    assert_eq!(bench.result(), (true, "2 bound intents are being canceled; the chain decides"));
    bench.answer(SendOutcome::Accepted);
    assert_eq!(goal(&bench, 1), Goal::Deliver, "the chain has it");
    bench.queue(1);
    bench.tell(Fact::Woken);
    assert_eq!(bench.nonces()[4], None, "a cancel makes no room before it is mined");
    for at in 1..4 {
        bench.finish(bench.hash(at, 1), block(2));
    }
    bench.see(finalized(bench.hash(0, 0), block(1)));
    bench.finish(bench.hash(4, 0), block(3));
    use StateName::{Canceled, Confirmed};
    assert_eq!(bench.states(), [Confirmed, Canceled, Canceled, Canceled, Confirmed]);
    assert_eq!(bench.nonces(), [Some(0), Some(1), Some(2), Some(3), Some(4)], "and no gap");
}

/// A wide window is canceled in batches: no effect is larger than its limit.
#[test]
fn cancels_are_made_in_batches() {
    let mut setup = window(20);
    setup.limits.batch = 8;
    let mut bench = Bench::busy(setup, 20);
    while !bench.broadcasts.is_empty() {
        bench.answer(SendOutcome::Accepted);
    }
    assert_eq!(bench.nonces().iter().flatten().count(), 20);
    bench.hold.extend([Hold::Prepare, Hold::Sign]);
    bench.command(CommandKind::CancelPending);
    // All are prepared before the first is signed.
    while !bench.held.is_empty() {
        let prepares = bench.held.iter().position(|effect| matches!(effect, Effect::Prepare(_)));
        match bench.held.remove(prepares.unwrap_or(0)) {
            Effect::Prepare(requests) => {
                assert!(requests.len() <= 8);
                bench.prepared(requests.iter().map(|request| (request.key, crate::bench::price())).collect());
            }
            Effect::Sign(requests) => {
                assert!(requests.len() <= 8);
                bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((0..20).all(|at| kinds(&bench, at) == [AttemptKind::Original, AttemptKind::Cancel]));
}

/// Neither PROTECT nor a pause keeps anybody from canceling: nothing is bound by it.
///
/// proves N17 S15
#[test]
fn a_lane_that_binds_nothing_still_cancels() {
    let protection = Protection { code: ProtectCode::PendingAhead, detail: text("x") };
    let stops: [fn(&mut Bench, Protection); 2] = [
        |bench, _| bench.command(CommandKind::Pause),
        |bench, protection| {
            bench.ledger.cursor.as_mut().unwrap().state = LaneState::Protect(protection);
            bench.crash();
            bench.run();
        },
    ];
    for stop in stops {
        let mut bench = tracked(2, 4);
        stop(&mut bench, protection.clone());
        bench.cancel(1);
        bench.command(CommandKind::CancelPending);
        bench.cancel(3);
        assert_eq!((kinds(&bench, 0).len(), kinds(&bench, 1).len()), (2, 2));
        assert_eq!(bench.state(3), StateName::Canceled, "in the queue");
        if !bench.broadcasts.is_empty() {
            bench.answer(SendOutcome::Accepted);
        }
        bench.finish(bench.hash(0, 1), block(1));
        bench.finish(bench.hash(1, 1), block(1));
        assert_eq!(bench.state(4), StateName::Queued);
        assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce, nonce(2));
        bench.command(CommandKind::Resume);
        let goes_on = bench.protect_code().is_none();
        assert_eq!(bench.nonces()[3], goes_on.then_some(2), "and the next one has the next nonce");
    }
}

/// Those above the one that is canceled are neither touched nor held up.
///
/// proves S15
#[test]
fn those_above_go_on() {
    let mut bench = tracked(3, 3);
    bench.cancel(1);
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(0, 1), block(1));
    bench.finish(bench.hash(1, 0), block(1));
    bench.finish(bench.hash(2, 0), block(1));
    assert_eq!(bench.states(), [StateName::Canceled, StateName::Confirmed, StateName::Confirmed]);
}

/// proves S02 S03
#[test]
fn another_owner_takes_the_wish_up() {
    let mut bench = tracked(1, 1);
    bench.hold.insert(Hold::Sign);
    bench.cancel(1);
    assert_eq!(kinds(&bench, 0).len(), 1);
    bench.crash();
    bench.run();
    let cancel = bench.hash(0, 1);
    assert_eq!(bench.take_broadcast()[0].tx.hash, cancel, "it was only a wish");
    bench.crash();
    bench.run();
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, cancel, "it was there, and is not made again");
    assert_eq!(kinds(&bench, 0).len(), 2);
    bench.finish(cancel, block(1));
    assert_eq!(reason(&bench, 1), CancelReason::User);
}

/// A survey finds that its nonce is gone, and a cancel comes with it: it is in line again before it is canceled.
///
/// proves S13
#[test]
fn what_has_lost_its_nonce_is_canceled_in_the_queue() {
    let mut setup = window(1);
    setup.policy.nonce.on_external_nonce = ReservationPolicy::Adopt;
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    bench.hold.insert(Hold::ScanResult);
    bench.account = AccountFacts { final_block: Some(block(50)), ..account(1) };
    bench.pass_secs(20);
    for _ in 0..3 {
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(1);
    }
    let Some(Effect::Scan(_)) = bench.held.pop() else { panic!() };
    bench.hold.insert(Hold::Commit);
    bench.command(CommandKind::Resume);
    bench.cancel(1);
    let (account, head, sent) = (bench.account, block(100), vec![stranger(0, 7, 20)]);
    bench.tell(Fact::Scanned(Some(gapless_domain::ScanResult { account, head, oldest: 2, is_whole: true, sent })));
    bench.hold.clear();
    bench.commit_done(true);
    assert_eq!((bench.state(1), reason(&bench, 1)), (StateName::Canceled, CancelReason::User));
    assert!(matches!(bench.ledger.txs[&1].state, TxState::Canceled(Cancellation::InQueue(_))));
}

/// In a store that lost commits nothing ends; what is bound may goal for another end.
#[test]
fn nothing_is_canceled_in_the_queue_of_a_store_that_lost_commits() {
    let mut bench = tracked(1, 2);
    bench.ledger.regressed = true;
    bench.crash();
    bench.run();
    bench.cancel(2);
    assert!(!bench.result().0);
    bench.cancel(1);
    assert_eq!(goal(&bench, 1), Goal::Cancel(CancelReason::User));
    assert_eq!(bench.state(2), StateName::Queued);
}

fn expiring(bench: &mut Bench, seconds: u64) -> Timestamp {
    let call = EvmCall { to: Some(Address::ZERO), ..EvmCall::default() };
    let until = bench.ledger.now().saturating_add(Duration::from_secs(seconds));
    bench.queue_call(call, Some(until));
    until
}

fn expiring_in_flight(seconds: u64) -> Bench {
    let mut bench = Bench::new(window(2));
    expiring(&mut bench, seconds);
    bench.run();
    bench.answer(SendOutcome::Accepted);
    bench
}

/// proves S16
#[test]
fn expired_in_flight_it_is_canceled_at_that_moment() {
    let mut bench = expiring_in_flight(7);
    bench.pass(Duration::from_millis(6_900));
    assert_eq!(goal(&bench, 1), Goal::Deliver);
    let wake_at = bench.wake_at.unwrap();
    assert!(wake_at <= bench.now.saturating_add(Duration::from_millis(100)), "it is woken for it");
    bench.pass(Duration::from_millis(100));
    assert_eq!(goal(&bench, 1), Goal::Cancel(CancelReason::Expired));
    let cancel = bench.hash(0, 1);
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, cancel);
    bench.finish(cancel, block(1));
    assert_eq!(reason(&bench, 1), CancelReason::Expired);
}

/// proves S16
#[test]
fn what_is_mined_does_not_expire_but_what_is_orphaned_does() {
    let mut bench = expiring_in_flight(7);
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(1)));
    bench.pass_secs(60);
    assert_eq!((goal(&bench, 1), kinds(&bench, 0).len()), (Goal::Deliver, 1));
    bench.see(Sighting::Unmined { hash, block: block(1) });
    assert_eq!(goal(&bench, 1), Goal::Cancel(CancelReason::Expired));
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, 1), "and the original is not sent again");
    bench.finish(hash, block(2));
    assert_eq!(bench.state(1), StateName::Confirmed, "the chain decides all the same");
}

/// proves S16
#[test]
fn what_expired_while_nobody_looked_is_canceled_and_its_original_is_not_sent() {
    let mut bench = Bench::new(window(1));
    expiring(&mut bench, 7);
    bench.run();
    bench.ledger.now_micros += 60_000_000;
    bench.crash();
    bench.run();
    assert_eq!(goal(&bench, 1), Goal::Cancel(CancelReason::Expired));
    assert_eq!(bench.take_broadcast()[0].tx.hash, bench.hash(0, 1));
}

/// The goal is written before the cancel is made; meanwhile a commit may fail.
#[test]
fn an_expiry_that_was_not_written_is_written_again() {
    let mut bench = expiring_in_flight(7);
    bench.hold.insert(Hold::Commit);
    bench.pass_secs(7);
    bench.commit_not_written();
    assert!(bench.broadcasts.is_empty());
    bench.hold.clear();
    bench.pass_secs(2);
    assert_eq!(goal(&bench, 1), Goal::Cancel(CancelReason::Expired));
    assert_eq!(bench.ledger.txs[&1].version, 4, "once");
}

/// A user's cancel came first: that is the reason.
#[test]
fn what_is_being_canceled_does_not_expire() {
    let mut bench = expiring_in_flight(7);
    bench.cancel(1);
    bench.answer(SendOutcome::Accepted);
    bench.pass_secs(30);
    assert_eq!(goal(&bench, 1), Goal::Cancel(CancelReason::User));
}
