//! Nonces for callers who sign by themselves.

use std::time::Duration;

use gapless_domain::{
    Amount, AttemptKind, CancelReason, Cancellation, CommandKind, Effect, EvmCall, Fact, Goal, LaneState, LostRule,
    Progress, ProtectCode, Protection, ReservationStatus, SendOutcome, Sighting, SignRequest, SignedTx, StateName,
    TxPlan, TxState,
};

use crate::bench::{
    Bench, FEES, GAS, Hold, block, final_window, finalized, kinds, mined, nonce, owner, sign, submitter, text, window,
};

pub(crate) const HOLD: Duration = Duration::from_secs(30);

/// How much later than that the lane takes it back.
pub(crate) const GRACE: Duration = Duration::from_millis(100);

/// A caller's own transaction, as whoever took it in has read it.
fn signed_by_caller(at: u64, value: u64) -> (SignedTx, Amount) {
    let call = EvmCall { value: Amount::from(value), ..EvmCall::default() };
    let plan = TxPlan { submitter: submitter(), nonce: nonce(at), call, gas_limit: GAS, fees: FEES };
    let cost = plan.worst_cost();
    (sign(&SignRequest { kind: AttemptKind::Original, plan }), cost)
}

pub(crate) fn use_of(at: u64, name: &str, value: u64) -> CommandKind {
    let (signed, cost) = signed_by_caller(at, value);
    CommandKind::UseReserved { nonce: nonce(at), lock_owner: owner(name), signed, fees: FEES, cost }
}

pub(crate) fn release(at: u64, name: &str) -> CommandKind {
    CommandKind::ReleaseReserved { nonce: nonce(at), lock_owner: owner(name) }
}

/// A lane that has lent its first nonces to these.
pub(crate) fn lent(size: u16, names: &[&str]) -> Bench {
    let mut bench = Bench::new(window(size));
    names.iter().for_each(|name| bench.queue_external(name, HOLD));
    bench.run();
    bench
}

pub(crate) fn is_lent(bench: &Bench, at: u64) -> bool {
    matches!(bench.ledger.reservations.get(&nonce(at)), Some(ReservationStatus::Reserved { .. }))
}

pub(crate) fn is_recyclable(bench: &Bench, at: u64) -> bool {
    bench.ledger.reservations.get(&nonce(at)) == Some(&ReservationStatus::Recyclable)
}

fn protect(bench: &mut Bench) {
    let protection = Protection { code: ProtectCode::PendingAhead, detail: text("x") };
    bench.ledger.cursor.as_mut().unwrap().state = LaneState::Protect(protection);
    bench.crash();
    bench.run();
}

/// proves N18 N11
#[test]
fn nonces_are_lent_in_the_order_of_acceptance_among_those_that_are_bound() {
    let mut bench = Bench::new(window(8));
    bench.queue(2);
    bench.queue_external("a", HOLD);
    bench.queue_external("b", HOLD);
    bench.queue(1);
    bench.queue_external("c", HOLD);
    bench.run();
    let all: Vec<_> = (0..6).map(Some).collect();
    while bench.nonces() != all {
        bench.answer(SendOutcome::Accepted);
    }
    assert_eq!([2, 3, 5].map(|at| is_lent(&bench, at)), [true; 3]);
    assert_eq!(bench.ledger.attempts.len(), 3, "nothing is signed for what is lent");
    assert_eq!(bench.state(3), StateName::Allocated);
    let TxState::Allocated(bound) = &bench.ledger.txs[&3].state else { panic!() };
    assert_eq!((bound.nonce, bound.goal), (nonce(2), Goal::Deliver));
    bench.pass_secs(20);
    assert!(bench.sending().iter().all(|at| [0, 1, 4].contains(at)), "nothing of it is sent");
}

/// proves N13 N18
#[test]
fn what_is_lent_is_in_the_window() {
    let mut bench = Bench::new(window(2));
    bench.queue_external("a", HOLD);
    bench.queue_external("b", HOLD);
    bench.queue_external("c", HOLD);
    bench.queue(1);
    bench.run();
    assert_eq!(bench.nonces(), [Some(0), Some(1), None, None]);
    assert_eq!(bench.lane.in_flight(), 2);
    bench.command(use_of(0, "a", 1));
    bench.answer(SendOutcome::Accepted);
    bench.see(mined(bench.hash(0, 0), block(1)));
    assert_eq!(bench.nonces(), [Some(0), Some(1), Some(2), None]);
    bench.crash();
    bench.run();
    assert_eq!(bench.lane.in_flight(), 3, "what is mined is not compared yet");
    assert_eq!(bench.nonces()[3], None);
}

/// proves N12 N18
#[test]
fn a_strict_lane_waits_for_what_it_has_lent() {
    let mut bench = Bench::new(final_window(1));
    bench.queue_external("a", HOLD);
    bench.queue(1);
    bench.run();
    bench.pass_secs(10);
    assert_eq!(bench.nonces(), [Some(0), None]);
    bench.command(use_of(0, "a", 1));
    bench.answer(SendOutcome::Accepted);
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(1)));
    assert_eq!(bench.nonces(), [Some(0), None]);
    bench.see(finalized(hash, block(1)));
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
}

/// proves N18 S01
#[test]
fn what_is_given_is_durable_then_sent_and_ends_like_any_other() {
    let mut bench = lent(1, &["a"]);
    bench.hold.insert(Hold::Commit);
    bench.command(use_of(0, "a", 5));
    let commit = bench.held_commit();
    assert_eq!((commit.reservations().len(), commit.attempts().len()), (1, 1), "in one commit");
    assert!(bench.broadcasts.is_empty());
    bench.hold.clear();
    bench.commit_done(true);
    assert!(bench.result().0);
    let (signed, _) = signed_by_caller(0, 5);
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx, signed);
    assert_eq!((bench.state(1), kinds(&bench, 0)), (StateName::Tracking, vec![AttemptKind::Original]));
    bench.pass_secs(60);
    assert_eq!(bench.answer(SendOutcome::AlreadyKnown)[0].tx, signed, "it is resubmitted, byte for byte");
    bench.see(mined(signed.hash, block(1)));
    bench.see(Sighting::Unmined { hash: signed.hash, block: block(1) });
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx, signed, "orphaned, it goes out again");
    bench.finish(signed.hash, block(2));
    assert_eq!(bench.state(1), StateName::Confirmed);
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce, nonce(1));
    bench.pass_secs(6);
    bench.pass_secs(6);
    assert!(bench.released, "the lane rests");
}

/// proves N18
#[test]
fn only_its_owner_uses_it_in_time_and_once() {
    let mut bench = lent(3, &["a", "b"]);
    let refusals = [
        (use_of(0, "b", 1), "nonce 0 is lent to another owner"),
        (release(0, "b"), "nonce 0 is lent to another owner"),
        (use_of(2, "a", 1), "nonce 2 is not lent"),
    ];
    for (command, why) in refusals {
        bench.command(command);
        assert_eq!(bench.result(), (false, why));
    }
    bench.command(use_of(0, "a", 1));
    bench.command(use_of(0, "a", 1));
    assert_eq!(bench.result(), (true, "it was given already"), "the same again is the same");
    for command in [use_of(0, "a", 2), release(0, "a")] {
        bench.command(command);
        assert_eq!(bench.result(), (false, "there is a transaction for nonce 0 already"));
    }
    bench.pass(HOLD);
    for command in [use_of(1, "b", 1), release(1, "b")] {
        bench.command(command);
        assert_eq!(bench.result(), (false, "the time for which nonce 1 was lent is over"));
    }
    bench.pass(GRACE);
    bench.command(use_of(1, "b", 1));
    assert!(!bench.result().0);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original]);
    assert!(!kinds(&bench, 1).contains(&AttemptKind::Original), "whatever comes late is not taken");
}

/// Asked for together, in one commit.
///
/// proves N18
#[test]
fn of_two_that_are_given_at_once_the_first_counts() {
    let mut bench = lent(2, &["a", "b"]);
    bench.hold.insert(Hold::Commit);
    bench.command(CommandKind::Pause);
    for command in [use_of(0, "a", 1), use_of(0, "a", 1), use_of(0, "a", 2), release(0, "a")] {
        bench.command(command);
    }
    for command in [release(1, "b"), use_of(1, "b", 1), release(1, "b")] {
        bench.command(command);
    }
    bench.hold.clear();
    bench.commit_done(true);
    let done: Vec<bool> =
        bench.ledger.results.iter().map(|result| matches!(result, gapless_domain::CommandResult::Done(_))).collect();
    assert_eq!(done, [true, true, true, false, false, true, false, false]);
    assert_eq!(bench.hash(0, 0), signed_by_caller(0, 1).0.hash);
    assert_eq!(bench.state(2), StateName::Canceled);
}

/// Its owner can send it whenever it likes, so nobody asks whether there are funds; but from now on they are spoken for.
///
/// proves S18 S17
#[test]
fn what_is_given_counts_in_the_purse() {
    let mut bench = lent(4, &["a"]);
    let one = GAS * 100;
    bench.account.balance = Amount::from(one * 3 / 2);
    bench.pass_secs(20);
    bench.command(use_of(0, "a", one));
    bench.queue(1);
    bench.tell(Fact::Woken);
    assert_eq!(bench.nonces(), [Some(0), None], "what is left does not pay for another one");
    bench.answer(SendOutcome::InsufficientFunds);
    assert_eq!(bench.ledger.txs[&1].state.bound().unwrap().progress, Progress::AwaitingFunds);
    bench.pass_secs(20);
    assert_eq!(bench.nonces(), [Some(0), None]);
    bench.crash();
    bench.run();
    assert_eq!(bench.nonces(), [Some(0), None], "nor for another owner");
    bench.account.balance = Amount::from(one * 10);
    bench.pass_secs(20);
    bench.answer(SendOutcome::Accepted);
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
}

/// proves N18
#[test]
fn released_it_is_lent_to_the_next_in_line_the_smallest_first() {
    let mut bench = lent(4, &["a", "b", "c", "d"]);
    bench.hold.insert(Hold::Prepare);
    bench.command(release(3, "d"));
    bench.command(release(1, "b"));
    assert_eq!([bench.state(2), bench.state(4)], [StateName::Canceled; 2]);
    assert_eq!(bench.ledger.txs[&2].state, TxState::Canceled(Cancellation::Released));
    assert!(is_recyclable(&bench, 1) && is_recyclable(&bench, 3));
    assert_eq!(bench.lane.in_flight(), 4);
    bench.queue_external("e", HOLD);
    bench.queue_external("f", HOLD);
    bench.queue_external("g", HOLD);
    bench.tell(Fact::Woken);
    assert_eq!(bench.nonces(), [Some(0), None, Some(2), None, Some(1), Some(3), None]);
    // A filler was being prepared for both. It comes too late, and nobody signs one.
    bench.hold = [Hold::Sign].into();
    let asked: Vec<_> = bench.held.drain(..).collect();
    for effect in asked {
        let Effect::Prepare(requests) = effect else { panic!("{effect:?}") };
        bench.prepared(requests.iter().map(|request| (request.key, crate::bench::price())).collect());
    }
    assert!(bench.held.is_empty(), "{:?}", bench.held);
    bench.command(use_of(1, "b", 1));
    assert_eq!(bench.result(), (false, "nonce 1 is lent to another owner"));
    bench.command(use_of(1, "e", 1));
    assert!(bench.result().0);
}

/// proves N18
#[test]
fn nobody_takes_it_so_it_is_filled_and_the_lane_goes_on() {
    let mut bench = lent(1, &["a"]);
    bench.queue(1);
    bench.queue_external("b", HOLD);
    bench.tell(Fact::Woken);
    bench.command(release(0, "a"));
    assert_eq!(kinds(&bench, 0), [AttemptKind::Fill], "who is next in line signs nothing, and waits for the window");
    assert_eq!(bench.ledger.reservations[&nonce(0)], ReservationStatus::Used { tx_id: None });
    let fill = bench.commits.iter().find(|commit| !commit.attempts().is_empty()).unwrap();
    assert_eq!(fill.reservations().len(), 1, "in one commit");
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, 0));
    bench.finish(bench.hash(0, 0), block(1));
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce, nonce(1));
    assert_eq!(bench.nonces(), [None, Some(1), None]);
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(1, 0), block(2));
    assert_eq!(bench.nonces(), [None, Some(1), Some(2)]);
}

/// proves N18
#[test]
fn past_its_time_it_comes_back_by_itself() {
    let mut bench = lent(1, &["a"]);
    bench.pass(HOLD);
    assert!(is_lent(&bench, 0));
    assert!(bench.wake_at.unwrap() <= bench.now.saturating_add(GRACE), "it is woken for it");
    bench.pass(GRACE);
    assert_eq!(bench.ledger.txs[&1].state, TxState::Canceled(Cancellation::Released));
    assert_eq!(kinds(&bench, 0), [AttemptKind::Fill]);
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(0, 0), block(1));
    bench.pass_secs(6);
    bench.pass_secs(6);
    assert!(bench.released, "the lane rests");
}

#[test]
fn a_lane_that_has_lent_something_is_not_let_go() {
    let mut bench = lent(1, &["a"]);
    bench.pass_secs(10);
    bench.pass_secs(10);
    assert!(!bench.released);
}

/// proves N15 N18
#[test]
fn a_filler_that_is_refused_for_good_stops_the_lane() {
    let mut bench = lent(1, &["a"]);
    bench.command(release(0, "a"));
    bench.answer(SendOutcome::Rejected);
    assert_eq!(bench.protect_code(), Some("cannot_fill"));
}

/// proves N17 N18
#[test]
fn a_lane_that_binds_nothing_lends_nothing_but_takes_what_is_given_and_fills_what_comes_back() {
    let stops: [fn(&mut Bench); 2] = [|bench| bench.command(CommandKind::Pause), protect];
    for stop in stops {
        let mut bench = lent(4, &["a", "b", "c"]);
        stop(&mut bench);
        bench.queue_external("d", HOLD);
        bench.tell(Fact::Woken);
        assert_eq!(bench.nonces()[3], None, "not a fresh one");
        bench.command(release(1, "b"));
        assert_eq!(kinds(&bench, 1), [AttemptKind::Fill], "nor one that came back");
        bench.command(use_of(0, "a", 1));
        assert!(bench.result().0);
        bench.pass(HOLD + GRACE);
        bench.pass_secs(1);
        assert_eq!(kinds(&bench, 2), [AttemptKind::Fill]);
        assert_eq!(bench.state(4), StateName::Queued);
        bench.command(CommandKind::Resume);
        assert_eq!(bench.nonces()[3], bench.protect_code().is_none().then_some(3));
    }
}

/// proves S02 N18
#[test]
fn after_a_crash_at_any_stage_everything_is_as_it_was() {
    let mut bench = lent(4, &["a", "b", "c"]);
    bench.crash();
    bench.run();
    bench.command(release(0, "b"));
    assert_eq!(bench.result(), (false, "nonce 0 is lent to another owner"));
    bench.command(use_of(0, "a", 1));
    assert!(bench.result().0);
    let first = bench.take_broadcast();
    bench.crash();
    bench.run();
    assert_eq!(bench.answer(SendOutcome::Accepted), first, "given and not sent");
    // Released, and the owner dies before it is filled.
    bench.hold.insert(Hold::Prepare);
    bench.command(release(1, "b"));
    bench.crash();
    bench.run();
    assert_eq!(kinds(&bench, 1), [AttemptKind::Fill]);
    // Filled, and not sent.
    let fill = bench.take_broadcast();
    bench.crash();
    bench.run();
    assert_eq!(bench.answer(SendOutcome::Accepted), fill);
    assert_eq!(kinds(&bench, 1).len(), 1);
    // Its time runs out while nobody has the lane.
    bench.ledger.now_micros += 60_000_000;
    bench.crash();
    bench.run();
    assert_eq!(bench.ledger.txs[&3].state, TxState::Canceled(Cancellation::Released));
    assert_eq!(kinds(&bench, 2), [AttemptKind::Fill]);
    if !bench.broadcasts.is_empty() {
        bench.answer(SendOutcome::Accepted);
    }
    (0..3).for_each(|at| bench.finish(bench.hash(at, 0), block(1)));
    assert_eq!(bench.state(1), StateName::Confirmed);
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce, nonce(3));
}

/// Ended above one that is open: another owner does not begin with it anew.
#[test]
fn a_used_one_that_has_ended_is_not_touched_again() {
    let mut bench = lent(2, &["a", "b"]);
    bench.command(use_of(1, "b", 1));
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(1, 0), block(1));
    assert_eq!(bench.state(2), StateName::Confirmed);
    bench.crash();
    bench.run();
    bench.pass_secs(10);
    assert!(bench.broadcasts.is_empty());
    assert_eq!((bench.lane.in_flight(), kinds(&bench, 1).len()), (1, 1));
    bench.command(use_of(0, "a", 1));
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(0, 0), block(2));
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce, nonce(2));
}

/// proves N10 N18
#[test]
fn a_loan_that_was_not_written_is_made_again_and_nobody_gets_ahead() {
    let mut bench = Bench::new(window(4));
    bench.hold.extend([Hold::Commit, Hold::Sign]);
    bench.queue_external("a", HOLD);
    bench.queue(1);
    bench.run();
    assert_eq!(bench.held_commit().slots().len(), 1);
    // Signed behind it, for the next nonce.
    bench.tell(Fact::Woken);
    let Some(Effect::Sign(requests)) = bench.held.pop() else { panic!() };
    assert_eq!(requests[0].plan.nonce, nonce(1));
    bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    bench.commit_not_written();
    bench.hold.clear();
    bench.pass_secs(2);
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
    assert!(is_lent(&bench, 0) && bench.notices.is_empty(), "{:?}", bench.notices);
}

/// proves S02 N18
#[test]
fn what_was_given_and_not_written_is_given_once() {
    let mut bench = lent(1, &["a"]);
    bench.hold.insert(Hold::Commit);
    bench.command(use_of(0, "a", 1));
    bench.commit_not_written();
    assert!(bench.broadcasts.is_empty());
    bench.hold.clear();
    bench.pass_secs(2);
    assert_eq!((bench.ledger.results.len(), bench.ledger.attempts.len()), (1, 1));
    assert_eq!(bench.sending(), [0]);
    let mut late = lent(1, &["a"]);
    late.hold.insert(Hold::Commit);
    late.command(use_of(0, "a", 1));
    late.commit_not_written();
    late.hold.clear();
    late.pass(HOLD);
    assert!(!late.result().0, "it could not be written in time");
    late.pass(GRACE);
    assert_eq!(kinds(&late, 0), [AttemptKind::Fill]);
}

#[test]
fn what_is_lent_is_released_not_canceled_and_what_is_given_is_canceled_like_any_other() {
    let mut bench = lent(2, &["a", "b"]);
    bench.cancel(1);
    assert!(!bench.result().0);
    bench.command(CommandKind::CancelPending);
    assert_eq!(bench.result().1, "0 bound intents are being canceled; the chain decides; 2 lent nonces are left alone");
    bench.command(use_of(0, "a", 1));
    bench.answer(SendOutcome::Accepted);
    bench.cancel(1);
    assert!(bench.result().0);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(0, 1), block(1));
    let TxState::Canceled(Cancellation::OnChain(reason, _)) = &bench.ledger.txs[&1].state else { panic!() };
    assert_eq!(*reason, CancelReason::User);
}

/// proves S20
#[test]
fn what_is_given_and_refused_for_good_is_canceled_in_its_own_slot() {
    let mut bench = lent(1, &["a"]);
    bench.command(use_of(0, "a", 1));
    bench.answer(SendOutcome::Rejected);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    assert!(!is_recyclable(&bench, 0), "it is lent to nobody else: it may yet be mined");
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(0, 0), block(1));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

#[test]
fn in_the_queue_a_request_for_a_nonce_is_canceled_at_once() {
    let mut bench = lent(1, &["a", "b"]);
    bench.cancel(2);
    assert_eq!(bench.state(2), StateName::Canceled);
}

/// A filler that was signed while the nonce went to somebody else is not written.
#[test]
fn a_filler_that_comes_too_late_is_dropped() {
    let mut bench = lent(1, &["a"]);
    bench.hold.insert(Hold::Sign);
    bench.command(release(0, "a"));
    let Some(Effect::Sign(requests)) = bench.held.pop() else { panic!() };
    bench.queue_external("b", HOLD);
    bench.tell(Fact::Woken);
    assert_eq!(bench.nonces(), [None, Some(0)]);
    bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    assert!(bench.ledger.attempts.is_empty());
    bench.hold.clear();
    bench.command(release(0, "b"));
    assert_eq!(kinds(&bench, 0), [AttemptKind::Fill], "until nobody wants it any more");
}

/// Signed, and it is somebody's turn before it is written: then it is lent, not filled.
///
/// proves N18
#[test]
fn whose_turn_it_is_takes_it_before_a_filler_does() {
    let mut bench = lent(1, &["a"]);
    bench.hold.insert(Hold::Sign);
    bench.command(release(0, "a"));
    let Some(Effect::Sign(requests)) = bench.held.pop() else { panic!() };
    bench.hold.insert(Hold::Commit);
    bench.command(CommandKind::Resume);
    bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    bench.queue_external("b", HOLD);
    bench.tell(Fact::Woken);
    bench.hold.clear();
    bench.commit_done(true);
    assert_eq!(bench.nonces(), [None, Some(0)]);
    assert!(bench.ledger.attempts.is_empty());
}

/// In a store that lost commits nothing ends, so nothing comes back; what is given is taken.
#[test]
fn a_store_that_lost_commits_takes_nothing_back() {
    let mut bench = lent(2, &["a", "b"]);
    bench.ledger.regressed = true;
    bench.crash();
    bench.run();
    bench.command(release(0, "a"));
    assert!(!bench.result().0);
    bench.command(use_of(1, "b", 1));
    assert!(bench.result().0);
    bench.pass(HOLD + GRACE);
    assert!(is_lent(&bench, 0));
    assert!(bench.wake_at.unwrap() > bench.now, "and the lane does not run in circles for it");
}

/// A nonce that nobody used comes back only when a loss of commits is reconciled, and until then nothing behind it can be mined.
#[test]
fn a_loss_can_be_reconciled_while_a_nonce_is_lent_before_those_that_wait() {
    let mut bench = Bench::new(window(8));
    bench.queue_external("a", HOLD);
    bench.queue(1);
    bench.run();
    bench.answer(SendOutcome::Accepted);
    bench.ledger.regressed = true;
    bench.crash();
    bench.run();
    bench.blocks = Some((0, Vec::new()));
    bench.pass(HOLD + GRACE);
    assert_eq!((bench.protect_code(), is_lent(&bench, 0)), (Some("store_regressed"), true));
    bench.command(CommandKind::Resync { lost: LostRule::Requeue, dry_run: false });
    bench.pass_secs(1);
    assert_eq!((bench.protect_code(), is_lent(&bench, 0)), (None, false), "{:?}", bench.result());
    assert_eq!(bench.state(2), StateName::Tracking);
}
