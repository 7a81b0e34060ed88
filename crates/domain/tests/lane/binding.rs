//! Who gets which nonce, and when.

use std::time::Duration;

use gapless_domain::{
    Address, Amount, CancelReason, Cancellation, Command, CommandId, CommandKind, CommandResult, EvmCall, Fact,
    FundsPolicy, OnShortage, Payload, PrepareFailure, SendOutcome, Sighting, SignFailure, StateName, Timestamp,
    TxState,
};

use crate::bench::{Bench, Hold, block, final_window, finalized, mined, price, sign, submitter, text, window};

/// proves N12
#[test]
fn a_strict_lane_binds_the_next_one_when_the_one_before_is_mined() {
    let mut bench = Bench::busy(window(1), 3);
    bench.answer(SendOutcome::Accepted);
    bench.pass_secs(5);
    assert_eq!(bench.nonces(), [Some(0), None, None]);
    bench.see(mined(bench.hash(0, 0), block(1)));
    assert_eq!(bench.nonces(), [Some(0), Some(1), None]);
    assert_eq!(bench.sending(), [1]);
}

/// proves N12
#[test]
fn with_release_final_it_binds_the_next_one_when_the_one_before_is_final() {
    let mut bench = Bench::busy(final_window(1), 2);
    bench.answer(SendOutcome::Accepted);
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(1)));
    assert_eq!(bench.nonces(), [Some(0), None]);
    bench.see(finalized(hash, block(1)));
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
}

/// proves N12
#[test]
fn after_a_restart_what_was_mined_is_compared_before_the_next_one_is_bound() {
    let mut bench = Bench::busy(window(1), 2);
    bench.answer(SendOutcome::Accepted);
    bench.hold.insert(Hold::Prepare);
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(1)));
    bench.crash();
    bench.run();
    assert_eq!(bench.nonces(), [Some(0), None]);
    bench.see(Sighting::StillMined { hash, block: block(1) });
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
}

/// proves N13
#[test]
fn full_window_binds_only_what_mining_makes_room_for() {
    let mut bench = Bench::busy(window(3), 10);
    assert_eq!(bench.sending(), [0, 1, 2]);
    bench.answer(SendOutcome::Accepted);
    bench.pass_secs(5);
    assert_eq!(bench.lane.in_flight(), 3);
    bench.see(mined(bench.hash(0, 0), block(1)));
    bench.see(mined(bench.hash(1, 0), block(1)));
    assert_eq!(bench.lane.in_flight(), 3);
    assert_eq!(bench.nonces().iter().flatten().count(), 5);
}

/// A reorg takes a mined transaction back: four are in flight in a window of three. The lane binds nothing until there
/// is room again.
///
/// proves N13
#[test]
fn window_overfilled_by_reorg_binds_nothing_until_it_drains() {
    let mut bench = Bench::busy(window(3), 10);
    bench.answer(SendOutcome::Accepted);
    bench.see(mined(bench.hash(0, 0), block(1)));
    bench.see(mined(bench.hash(1, 0), block(1)));
    let hash = bench.hash(0, 0);
    bench.see(Sighting::Unmined { hash, block: block(1) });
    assert_eq!((bench.lane.in_flight(), bench.nonces().iter().flatten().count()), (4, 5));
    bench.see(mined(bench.hash(2, 0), block(1)));
    assert_eq!((bench.lane.in_flight(), bench.nonces().iter().flatten().count()), (3, 5));
    bench.see(mined(hash, block(2)));
    assert_eq!((bench.lane.in_flight(), bench.nonces().iter().flatten().count()), (3, 6));
}

/// A commit that is under way, signatures that are under way: all of it counts.
///
/// proves N13
#[test]
fn what_is_under_way_is_in_the_window() {
    let mut bench = Bench::new(window(2));
    bench.hold.extend([Hold::Commit]);
    bench.queue(1);
    bench.run();
    bench.hold.insert(Hold::Sign);
    bench.queue(5);
    bench.tell(Fact::Woken);
    bench.hold.remove(&Hold::Sign);
    assert_eq!(bench.held.len(), 2, "{:?}", bench.held);
    let signed = bench.held.pop().unwrap();
    let gapless_domain::Effect::Sign(requests) = signed else { panic!("{signed:?}") };
    assert_eq!(requests.len(), 1);
    bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    bench.commit_done(true);
    bench.commit_done(true);
    assert_eq!(bench.nonces().iter().flatten().count(), 2);
}

/// proves N09 N11
#[test]
fn one_that_cannot_be_prepared_uses_no_nonce_and_keeps_nobody_waiting() {
    let mut bench = Bench::new(window(3));
    bench.hold.insert(Hold::Prepare);
    bench.queue(3);
    bench.run();
    let asked = bench.take_prepare();
    bench.prepared(vec![
        (asked[0].key, price()),
        (asked[1].key, Err(PrepareFailure::Invalid(text("bad")))),
        (asked[2].key, price()),
    ]);
    assert_eq!(bench.nonces(), [Some(0), None, Some(1)]);
    assert_eq!(bench.state(2), StateName::FailedFinal);
    assert_eq!(bench.sending(), [0, 1]);
}

/// proves N09 N11
#[test]
fn those_behind_one_that_is_not_prepared_yet_wait() {
    let mut bench = Bench::new(window(3));
    bench.hold.insert(Hold::Prepare);
    bench.queue(3);
    bench.run();
    let asked = bench.take_prepare();
    bench.prepared(vec![
        (asked[0].key, Err(PrepareFailure::Unavailable(text("away")))),
        (asked[1].key, price()),
        (asked[2].key, price()),
    ]);
    assert_eq!(bench.nonces(), [None, None, None]);
    bench.hold.clear();
    bench.pass_secs(2);
    assert_eq!(bench.nonces(), [Some(0), Some(1), Some(2)]);
}

/// proves N09 N11
#[test]
fn one_that_the_signer_refuses_uses_no_nonce() {
    let mut bench = Bench::new(window(3));
    bench.hold.insert(Hold::Sign);
    bench.queue(3);
    bench.run();
    let Some(gapless_domain::Effect::Sign(requests)) = bench.held.pop() else { panic!() };
    let refused = Err(SignFailure::Refused(text("never")));
    bench.hold.clear();
    bench.tell(Fact::Signed(vec![Ok(sign(&requests[0])), refused, Ok(sign(&requests[2]))]));
    assert_eq!(bench.state(2), StateName::FailedFinal);
    assert_eq!(bench.nonces(), [Some(0), None, None], "what was signed for nonce 2 is dropped");
    bench.pass_secs(2);
    assert_eq!(bench.nonces(), [Some(0), None, Some(1)]);
    assert_eq!(bench.ledger.attempts.len(), 2);
}

/// proves S19
#[test]
fn a_revert_in_simulation_counts_only_when_everything_earlier_has_run() {
    let reverted = |number| Err(PrepareFailure::Reverted { at: block(number), text: text("not yet") });
    let mut bench = Bench::new(window(2));
    bench.hold.insert(Hold::Prepare);
    bench.queue(2);
    bench.run();
    let asked = bench.take_prepare();
    bench.prepared(vec![(asked[0].key, price()), (asked[1].key, reverted(1))]);
    assert_eq!(bench.states(), [StateName::Allocated, StateName::Queued], "the one before has no nonce yet");
    bench.answer(SendOutcome::Accepted);
    bench.pass_secs(2);
    let asked = bench.take_prepare();
    bench.prepared(vec![(asked[0].key, reverted(1))]);
    assert_eq!(bench.state(2), StateName::Queued, "the one before is not mined");
    bench.see(mined(bench.hash(0, 0), block(5)));
    let asked = bench.take_prepare();
    bench.prepared(vec![(asked[0].key, reverted(4))]);
    assert_eq!(bench.state(2), StateName::Queued, "it was tried before the block of the one before");
    bench.see(finalized(bench.hash(0, 0), block(5)));
    bench.pass_secs(2);
    let asked = bench.take_prepare();
    bench.prepared(vec![(asked[0].key, reverted(4))]);
    assert_eq!(bench.state(2), StateName::Queued, "also when that slot is closed");
    bench.pass_secs(2);
    let asked = bench.take_prepare();
    bench.prepared(vec![(asked[0].key, reverted(5))]);
    assert_eq!(bench.state(2), StateName::FailedFinal);
    assert_eq!(bench.nonces()[1], None);
}

/// proves N10 S01
#[test]
fn nonce_and_attempt_are_one_commit_and_nothing_is_sent_before_it_is_done() {
    let mut bench = Bench::new(window(1));
    bench.hold.insert(Hold::Commit);
    bench.queue(1);
    bench.run();
    let commit = bench.held_commit();
    assert_eq!((commit.slots().len(), commit.changes().len(), commit.attempts().len()), (1, 1, 1));
    bench.pass_secs(60);
    assert!(bench.broadcasts.is_empty());
    bench.commit_done(true);
    assert_eq!(bench.sending(), [0]);
}

/// proves N10
#[test]
fn what_was_not_written_is_not_sent_and_the_same_nonce_is_bound_again() {
    let mut bench = Bench::new(window(1));
    bench.hold.insert(Hold::Commit);
    bench.queue(2);
    bench.run();
    let first = bench.held_commit().clone();
    bench.commit_not_written();
    assert!(bench.broadcasts.is_empty() && bench.held.is_empty());
    assert!(bench.wake_at.is_some());
    bench.pass_secs(2);
    assert_eq!(bench.held_commit(), &first);
    bench.commit_done(true);
    assert_eq!(bench.sending(), [0]);
}

#[test]
fn one_more_is_signed_while_a_commit_is_under_way_and_keeps_its_place() {
    let mut bench = Bench::new(window(4));
    bench.hold.insert(Hold::Commit);
    bench.queue(2);
    bench.run();
    bench.queue(2);
    bench.tell(Fact::Woken);
    bench.commit_not_written();
    bench.pass_secs(2);
    assert_eq!(bench.held_commit().attempts().len(), 4);
    bench.commit_done(true);
    assert_eq!(bench.nonces(), [Some(0), Some(1), Some(2), Some(3)]);
}

#[test]
fn pausing_drops_what_is_signed_and_resuming_goes_on_without_a_hole() {
    let mut bench = Bench::new(window(4));
    bench.hold.insert(Hold::Commit);
    bench.queue(1);
    bench.run();
    bench.queue(1);
    bench.tell(Fact::Woken);
    // The second is signed and waits; the third is at the signer when the lane is paused and resumed.
    bench.hold.insert(Hold::Sign);
    bench.queue(1);
    bench.pass_secs(2);
    bench.command(CommandKind::Pause);
    bench.commit_done(true);
    assert!(bench.held_commit().slots().is_empty());
    bench.commit_done(true);
    assert!(bench.ledger.cursor.as_ref().unwrap().paused);
    bench.command(CommandKind::Resume);
    bench.commit_done(true);
    let at = bench.held.iter().position(|effect| matches!(effect, gapless_domain::Effect::Sign(_))).unwrap();
    let gapless_domain::Effect::Sign(requests) = bench.held.remove(at) else { panic!() };
    assert_eq!(requests[0].plan.nonce.get(), 2);
    bench.hold.clear();
    bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    assert_eq!(bench.nonces(), [Some(0), Some(1), Some(2)]);
    assert!(bench.notices.is_empty(), "{:?}", bench.notices);
}

/// proves S16
#[test]
fn what_has_expired_in_the_queue_fails_even_when_there_is_no_room() {
    let mut bench = Bench::busy(window(1), 1);
    let call = EvmCall { to: Some(Address::ZERO), ..EvmCall::default() };
    let until = bench.ledger.now().saturating_add(Duration::from_secs(10));
    bench.queue_call(call, Some(until));
    bench.tell(Fact::Woken);
    bench.pass_secs(9);
    assert_eq!(bench.state(2), StateName::Queued);
    bench.pass_secs(1);
    assert_eq!(bench.state(2), StateName::FailedFinal);
    assert!(bench.ledger.txs[&2].created_at < until && until > Timestamp::EPOCH);
}

/// proves S18
#[test]
fn nothing_is_bound_that_the_account_cannot_pay_for() {
    let mut bench = Bench::new(window(5));
    // Two and a half transactions.
    bench.account.balance = Amount::from(5 * 21_000 * 100_u64 / 2);
    bench.queue(4);
    bench.run();
    assert_eq!(bench.sending(), [0, 1]);
    bench.answer(SendOutcome::Accepted);
    bench.pass_secs(20);
    assert_eq!(bench.nonces().iter().flatten().count(), 2);
    bench.account.balance = Amount::from(u64::MAX);
    bench.pass_secs(20);
    assert_eq!(bench.nonces().iter().flatten().count(), 4);
}

/// proves S17
#[test]
fn what_cannot_be_paid_for_fails_only_by_policy_and_only_for_itself() {
    let mut setup = window(5);
    setup.policy.funds = FundsPolicy { on_shortage: OnShortage::Fail, ..FundsPolicy::default() };
    let mut bench = Bench::new(setup);
    bench.account.balance = Amount::from(21_000 * 100_u64);
    bench.hold.insert(Hold::Commit);
    bench.queue(2);
    bench.run();
    // The first is being written when the account is read again; what is left for the second is nothing, but it may yet be.
    bench.pass_secs(20);
    bench.commit_done(true);
    assert_eq!(bench.state(2), StateName::Queued);
    bench.hold.clear();
    // Consumers are told meanwhile.
    bench.commit_done(true);
    assert!(bench.ledger.cursor.as_ref().unwrap().low_balance);
    bench.answer(SendOutcome::Accepted);
    bench.account.balance = Amount::from(1_u64);
    bench.see(mined(bench.hash(0, 0), block(1)));
    bench.pass_secs(20);
    assert_eq!(bench.state(2), StateName::FailedFinal);
}

/// The queue is read anew as long as it brings something, and not for nothing.
#[test]
fn a_full_queue_is_not_read_in_circles() {
    let mut bench = Bench::new(window(1000));
    bench.hold.insert(Hold::Prepare);
    bench.queue(600);
    let mut looks = 0;
    for _ in 0..50 {
        bench.hold.insert(Hold::Peek);
        bench.run();
        if !bench.held.iter().any(|effect| matches!(effect, gapless_domain::Effect::Peek { .. })) {
            break;
        }
        let limit = bench.take_peek();
        looks += 1;
        let queue: Vec<_> = bench.ledger.txs.values().take(limit as usize).cloned().collect();
        bench.tell(Fact::Peeked(Some(gapless_domain::Peeked { queue, commands: Vec::new() })));
    }
    assert!(looks < 5, "{looks} looks");
}

/// Each intent that comes in calls the lane. What is new then, while there is no room for more than is in line, are commands.
#[test]
fn a_lane_at_its_limit_reads_commands_and_not_its_queue() {
    let mut bench = Bench::busy(window(2), 20);
    bench.answer(SendOutcome::Accepted);
    bench.hold.insert(Hold::Peek);
    bench.queue(1);
    bench.tell(Fact::Woken);
    assert_eq!(bench.take_peek(), 0, "everybody in line waits for room");
    bench.tell(Fact::Peeked(Some(gapless_domain::Peeked { queue: Vec::new(), commands: Vec::new() })));
    assert_eq!(bench.held.len(), 0);
    bench.hold.clear();
    bench.command(CommandKind::Pause);
    assert_eq!(bench.result(), (true, "done"));
    bench.command(CommandKind::Resume);
    mine_and_send(&mut bench, 21);
    assert_eq!(bench.nonces().last(), Some(&Some(20)), "who came meanwhile was found when there was room");
}

/// The look by the clock is for a call that was lost: where everybody in line waits for room, whoever came unheard stands behind them.
#[test]
fn the_clock_makes_a_lane_at_its_limit_read_its_commands_and_not_its_queue() {
    let mut bench = Bench::busy(window(2), 20);
    bench.answer(SendOutcome::Accepted);
    bench.queue(1);
    for look in 1..=10 {
        bench.hold.insert(Hold::Peek);
        bench.pass_secs(2);
        let limit = bench.take_peek();
        assert_eq!(limit > 0, look % 5 == 0, "everybody in line waits for room, but may be canceled: look {look}");
        let seen = bench.peek(limit, &[]);
        bench.tell(seen);
        assert_eq!(bench.held.len(), 0, "once each time");
        bench.hold.clear();
    }
    mine_and_send(&mut bench, 21);
    assert_eq!(bench.nonces().last(), Some(&Some(20)), "nobody called, and who came meanwhile was found all the same");
}

/// Nobody called, and the clock's look passed by whoever came: there is one to find all the same when there is room.
#[test]
fn who_was_passed_by_without_a_call_is_found_when_there_is_room() {
    let mut bench = Bench::busy(window(2), 6);
    bench.answer(SendOutcome::Accepted);
    bench.queue(1);
    bench.hold.insert(Hold::Peek);
    bench.pass_secs(2);
    assert_eq!(bench.take_peek(), 0);
    let seen = bench.peek(0, &[]);
    bench.tell(seen);
    bench.hold.clear();
    mine_and_send(&mut bench, 6);
    assert_eq!(bench.nonces().last(), Some(&Some(6)));
}

/// A read that brought nothing was none: the next one by the clock does not wait for five more looks.
#[test]
fn a_read_of_a_fed_line_that_fails_is_made_up_for() {
    let mut bench = Bench::busy(window(2), 20);
    bench.answer(SendOutcome::Accepted);
    bench.hold.insert(Hold::Peek);
    for _ in 1..5 {
        bench.pass_secs(2);
        bench.take_peek();
        let seen = bench.peek(0, &[]);
        bench.tell(seen);
    }
    bench.pass_secs(2);
    assert!(bench.take_peek() > 0);
    bench.tell(Fact::Peeked(None));
    bench.pass_secs(1);
    assert_eq!(bench.take_peek(), 0, "the commands, soon");
    bench.tell(Fact::Peeked(Some(gapless_domain::Peeked { queue: Vec::new(), commands: Vec::new() })));
    bench.pass_secs(1);
    assert!(bench.take_peek() > 0, "and the line, as soon as it is time");
}

/// The first in line cannot be prepared, and everybody waits for it. Somebody cancels it in the store: the lane sees that at its next look.
#[test]
fn who_holds_up_the_line_is_gone_soon_after_it_was_canceled() {
    let mut bench = Bench::new(window(2));
    bench.hold.insert(Hold::Prepare);
    bench.queue(4);
    bench.run();
    let asked = bench.take_prepare();
    assert_eq!(asked.len(), 2);
    let unavailable = || Err(PrepareFailure::Unavailable(text("away")));
    bench.prepared(vec![(asked[0].key, unavailable()), (asked[1].key, price())]);
    let (first, reason) = (bench.id(1), CancelReason::User);
    let canceled = bench.ledger.txs.values_mut().find(|tx| tx.id == first).unwrap();
    canceled.state = TxState::Canceled(Cancellation::InQueue(reason));
    canceled.version += 1;
    bench.hold.clear();
    bench.hold.insert(Hold::Prepare);
    bench.pass_secs(2);
    assert_eq!(bench.nonces()[..2], [None, Some(0)], "the next one does not wait for it any more");
}

/// While a commit is under way, those whom it binds are still in the queue: one look is enough.
#[test]
fn while_a_commit_is_under_way_the_queue_is_read_once() {
    let mut bench = Bench::new(window(100));
    bench.hold.insert(Hold::Commit);
    bench.queue(1);
    bench.run();
    bench.hold.insert(Hold::Peek);
    for (look, limit) in [(0, true), (1, false), (2, false)] {
        bench.queue(1);
        bench.tell(Fact::Woken);
        assert_eq!(bench.take_peek() > 0, limit, "look {look}");
        let queue = if limit { bench.ledger.txs.values().cloned().collect() } else { Vec::new() };
        bench.tell(Fact::Peeked(Some(gapless_domain::Peeked { queue, commands: Vec::new() })));
    }
    bench.hold.clear();
    bench.commit_done(true);
    assert_eq!(bench.nonces(), [Some(0), Some(1), Some(2), Some(3)], "those who came meanwhile were found at once");
}

/// Something is asked of those whom the lane has passed by: it looks for them before it says anything.
#[test]
fn what_is_asked_of_one_who_was_passed_by_is_not_refused_for_want_of_a_look() {
    let mut bench = Bench::busy(window(100), 103);
    bench.answer(SendOutcome::Accepted);
    bench.queue(60);
    bench.tell(Fact::Woken);
    for seq in 104..=163 {
        let (id, tx_id) = (CommandId(seq), bench.id(seq));
        let payload = Payload::Evm(EvmCall { to: Some(Address::repeat_byte(9)), ..EvmCall::default() });
        let kind = CommandKind::Replace { tx_id, payload };
        let issued_at = bench.ledger.now();
        bench.ledger.commands.push(Command { id, submitter: submitter(), kind, issued_by: text("test"), issued_at });
    }
    bench.tell(Fact::Woken);
    let refused = bench.ledger.results.iter().filter(|result| matches!(result, CommandResult::Refused(_)));
    assert_eq!((bench.ledger.results.len(), refused.count()), (60, 0));
}

/// The store is away: nobody asks it again and again.
#[test]
fn a_look_that_fails_is_not_repeated_at_once() {
    for (in_line, room) in [(20, 2), (0, 2), (300, 1000)] {
        let mut bench = Bench::new(window(room));
        bench.queue(in_line);
        bench.hold.extend([Hold::Prepare]);
        bench.run();
        bench.hold.insert(Hold::Peek);
        for _ in 0..3 {
            bench.tell(Fact::Woken);
            if bench.held.iter().any(|effect| matches!(effect, gapless_domain::Effect::Peek { .. })) {
                bench.take_peek();
                bench.tell(Fact::Peeked(None));
            }
        }
        let looks = bench.held.iter().filter(|effect| matches!(effect, gapless_domain::Effect::Peek { .. }));
        assert_eq!(looks.count(), 0, "{in_line} in line");
        bench.pass_secs(1);
        bench.take_peek();
    }
}

/// Its answer was read before the commit that is done by now.
#[test]
fn a_look_that_comes_late_brings_nobody_back() {
    let mut bench = Bench::new(window(2));
    bench.hold.extend([Hold::Commit, Hold::Prepare]);
    bench.queue(1);
    bench.run();
    let asked = bench.take_prepare();
    bench.prepared(vec![(asked[0].key, Err(PrepareFailure::Invalid(text("bad"))))]);
    bench.hold.insert(Hold::Peek);
    bench.tell(Fact::Woken);
    let seen = bench.ledger.txs[&1].clone();
    bench.commit_done(true);
    bench.hold.remove(&Hold::Peek);
    bench.held.clear();
    bench.tell(Fact::Peeked(Some(gapless_domain::Peeked { queue: vec![seen], commands: Vec::new() })));
    assert!(bench.held.is_empty(), "{:?}", bench.held);
}

/// Orphaned between the signature and the commit: it was mined when it was signed, and is not when it is bound.
///
/// proves N12
#[test]
fn the_window_is_measured_once_more_when_the_nonce_is_bound() {
    let mut bench = Bench::busy(window(1), 2);
    bench.answer(SendOutcome::Accepted);
    let hash = bench.hash(0, 0);
    bench.hold.insert(Hold::Sign);
    bench.see(mined(hash, block(1)));
    let Some(gapless_domain::Effect::Sign(requests)) = bench.held.pop() else { panic!() };
    bench.hold.clear();
    bench.see(Sighting::Unmined { hash, block: block(1) });
    bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    assert_eq!(bench.nonces(), [Some(0), None]);
    bench.answer(SendOutcome::Accepted);
    bench.see(mined(hash, block(2)));
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
}

/// To fail for a revert, and the one before is orphaned while that waits to be written: it does not fail, and nobody who
/// was signed behind it gets ahead of it.
///
/// proves S19 N11
#[test]
fn a_revert_is_doubted_when_the_one_before_is_orphaned() {
    let mut bench = Bench::busy(window(3), 1);
    bench.answer(SendOutcome::Accepted);
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(1)));
    bench.hold.extend([Hold::Prepare, Hold::Commit]);
    bench.queue(2);
    bench.tell(Fact::Woken);
    let asked = bench.take_prepare();
    let reverted = Err(PrepareFailure::Reverted { at: block(1), text: text("not yet") });
    bench.prepared(vec![(asked[0].key, reverted), (asked[1].key, price())]);
    bench.commit_not_written();
    bench.see(Sighting::Unmined { hash, block: block(1) });
    bench.answer(SendOutcome::Accepted);
    bench.pass_secs(2);
    while bench.held.iter().any(|effect| matches!(effect, gapless_domain::Effect::Commit(_))) {
        bench.commit_done(true);
    }
    assert_eq!(bench.states()[1..], [StateName::Queued, StateName::Queued]);
}

/// Mines the first so many, one after the other, and whatever is sent meanwhile is taken.
fn mine_and_send(bench: &mut Bench, count: u64) {
    for at in 0..count {
        bench.see(mined(bench.hash(at, 0), block(at + 1)));
        if !bench.sending().is_empty() {
            bench.answer(SendOutcome::Accepted);
        }
    }
}
