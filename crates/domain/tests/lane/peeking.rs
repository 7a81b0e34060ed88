//! Peeks: when the lane reads its queue, and when only its commands.

use gapless_domain::{
    Address, CancelReason, Cancellation, Command, CommandId, CommandKind, CommandResult, EvmCall, Fact, Payload,
    PrepareFailure, SendOutcome, TxState,
};

use crate::harness::{Hold, LaneHarness, block, mined, price, submitter, text, window};

/// The queue is read again only as long as a peek brings new intents.
#[test]
fn full_queue_is_not_read_in_a_loop() {
    let mut harness = LaneHarness::new(window(1000));
    harness.hold.insert(Hold::Prepare);
    harness.queue(600);
    let mut peeks = 0;
    for _ in 0..50 {
        harness.hold.insert(Hold::Peek);
        harness.run();
        if !harness.unanswered.iter().any(|effect| matches!(effect, gapless_domain::Effect::Peek { .. })) {
            break;
        }
        let limit = harness.take_peek();
        peeks += 1;
        let queue: Vec<_> = harness.ledger.txs.values().take(limit as usize).cloned().collect();
        harness.give(Fact::Peeked(Some(gapless_domain::Peeked { queue, commands: Vec::new() })));
    }
    assert!(peeks < 5, "{peeks} peeks");
}

/// Each accepted intent wakes the lane. While the window is full, only commands matter.
#[test]
fn wakeup_of_full_lane_reads_only_commands() {
    let mut harness = LaneHarness::with_intents(window(2), 20);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Peek);
    harness.queue(1);
    harness.give(Fact::Woken);
    assert_eq!(harness.take_peek(), 0, "all candidates wait for the window");
    harness.give(Fact::Peeked(Some(gapless_domain::Peeked { queue: Vec::new(), commands: Vec::new() })));
    assert_eq!(harness.unanswered.len(), 0);
    harness.hold.clear();
    harness.command(CommandKind::Pause);
    assert_eq!(harness.result(), (true, "the lane is paused"));
    harness.command(CommandKind::Resume);
    mine_and_send(&mut harness, 21);
    assert_eq!(harness.nonces().last(), Some(&Some(20)), "the new intent was found when the window had room");
}

/// The periodic peek makes up for lost wake-ups. While the window is full, new intents are behind the candidates.
#[test]
fn periodic_peek_of_full_lane_reads_mostly_commands() {
    let mut harness = LaneHarness::with_intents(window(2), 20);
    harness.answer(SendOutcome::Accepted);
    harness.queue(1);
    for peek in 1..=10 {
        harness.hold.insert(Hold::Peek);
        harness.advance_secs(2);
        let limit = harness.take_peek();
        assert_eq!(limit > 0, peek % 5 == 0, "candidates may be canceled, so every fifth peek reads them: {peek}");
        let seen = harness.peek(limit, &[]);
        harness.give(seen);
        assert_eq!(harness.unanswered.len(), 0, "one peek per interval");
        harness.hold.clear();
    }
    mine_and_send(&mut harness, 21);
    assert_eq!(harness.nonces().last(), Some(&Some(20)), "the new intent was found without a wake-up");
}

/// The periodic peek read only commands, and no wake-up came. The new intent is still found when the window has room.
#[test]
fn unread_intent_without_wakeup_is_found_when_window_has_room() {
    let mut harness = LaneHarness::with_intents(window(2), 6);
    harness.answer(SendOutcome::Accepted);
    harness.queue(1);
    harness.hold.insert(Hold::Peek);
    harness.advance_secs(2);
    assert_eq!(harness.take_peek(), 0);
    let seen = harness.peek(0, &[]);
    harness.give(seen);
    harness.hold.clear();
    mine_and_send(&mut harness, 6);
    assert_eq!(harness.nonces().last(), Some(&Some(6)));
}

/// A failed read of the queue is repeated at the next interval, not five intervals later.
#[test]
fn failed_read_of_full_queue_is_repeated_soon() {
    let mut harness = LaneHarness::with_intents(window(2), 20);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Peek);
    for _ in 1..5 {
        harness.advance_secs(2);
        harness.take_peek();
        let seen = harness.peek(0, &[]);
        harness.give(seen);
    }
    harness.advance_secs(2);
    assert!(harness.take_peek() > 0);
    harness.give(Fact::Peeked(None));
    harness.advance_secs(1);
    assert_eq!(harness.take_peek(), 0, "commands are polled soon");
    harness.give(Fact::Peeked(Some(gapless_domain::Peeked { queue: Vec::new(), commands: Vec::new() })));
    harness.advance_secs(1);
    assert!(harness.take_peek() > 0, "the queue is read at the next interval");
}

/// The front of the queue cannot be prepared, and the others wait for it. It is canceled in the store, and the next
/// peek shows that.
#[test]
fn canceled_front_of_queue_unblocks_the_others() {
    let mut harness = LaneHarness::new(window(2));
    harness.hold.insert(Hold::Prepare);
    harness.queue(4);
    harness.run();
    let asked = harness.take_prepare();
    assert_eq!(asked.len(), 2);
    let unavailable = || Err(PrepareFailure::Unavailable(text("away")));
    harness.prepared(vec![(asked[0].key, unavailable()), (asked[1].key, price())]);
    cancel_in_queue(&mut harness, 1);
    harness.hold.clear();
    harness.hold.insert(Hold::Prepare);
    harness.advance_secs(2);
    assert_eq!(harness.nonces()[..2], [None, Some(0)], "the next intent does not wait any more");
}

/// The intents behind a canceled candidate wait neither for the next periodic peek nor for a conflict.
#[test]
fn cancel_of_front_with_wakeup_unblocks_others_at_once() {
    let mut harness = LaneHarness::new(window(2));
    harness.hold.insert(Hold::Prepare);
    harness.queue(4);
    harness.run();
    let asked = harness.take_prepare();
    let unavailable = || Err(PrepareFailure::Unavailable(text("away")));
    harness.prepared(vec![(asked[0].key, unavailable()), (asked[1].key, price())]);
    cancel_in_queue(&mut harness, 1);
    harness.give(Fact::QueueChanged);
    assert_eq!(harness.nonces()[..2], [None, Some(0)]);
}

/// The window is full, so the lane has enough candidates. It still reads its queue, and does not bind the canceled one.
#[test]
fn cancel_behind_full_window_drops_the_candidate() {
    let mut harness = LaneHarness::with_intents(window(1), 20);
    harness.answer(SendOutcome::Accepted);
    cancel_in_queue(&mut harness, 2);
    harness.hold.insert(Hold::Peek);
    harness.give(Fact::QueueChanged);
    let limit = harness.take_peek();
    assert!(limit > 0, "the queue is read, not only the commands");
    let seen = harness.peek(limit, &[]);
    harness.give(seen);
    assert_eq!(harness.unanswered.len(), 0, "one read is enough");
    harness.hold.clear();
    harness.sight(mined(harness.hash(0, 0), block(1)));
    assert_eq!(harness.nonces()[..3], [Some(0), None, Some(1)]);
}

/// The wake-up arrives while a peek is in flight, whose answer may be older than the cancel.
#[test]
fn cancel_during_a_peek_reads_the_queue_again() {
    let mut harness = LaneHarness::with_intents(window(1), 3);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Peek);
    harness.give(Fact::Woken);
    let limit = harness.take_peek();
    let before = harness.peek(limit, &[]);
    cancel_in_queue(&mut harness, 2);
    harness.give(Fact::QueueChanged);
    harness.give(before);
    let limit = harness.take_peek();
    assert!(limit > 0);
    let after = harness.peek(limit, &[]);
    harness.give(after);
    harness.hold.clear();
    harness.sight(mined(harness.hash(0, 0), block(1)));
    assert_eq!(harness.nonces(), [Some(0), None, Some(1)]);
}

/// A read that fails is repeated as a read of the queue, although the lane has enough candidates.
#[test]
fn failed_read_after_a_cancel_is_repeated() {
    let mut harness = LaneHarness::with_intents(window(1), 20);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Peek);
    harness.give(Fact::QueueChanged);
    assert!(harness.take_peek() > 0);
    harness.give(Fact::Peeked(None));
    harness.advance_secs(1);
    assert!(harness.take_peek() > 0);
}

/// A lane without candidates has nothing to drop.
#[test]
fn cancel_without_candidates_reads_nothing() {
    let mut harness = LaneHarness::with_intents(window(2), 1);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Peek);
    harness.give(Fact::QueueChanged);
    assert_eq!(harness.unanswered.len(), 0, "{:?}", harness.unanswered);
}

/// Cancels the intent in the store, as a caller does by any node.
fn cancel_in_queue(harness: &mut LaneHarness, seq: u64) {
    let canceled = harness.ledger.txs.get_mut(&seq).unwrap();
    canceled.state = TxState::Canceled(Cancellation::InQueue(CancelReason::User));
    canceled.version += 1;
}

/// Intents in the commit in flight are still queued in the store, so one read is enough.
#[test]
fn queue_is_read_once_during_a_commit() {
    let mut harness = LaneHarness::new(window(100));
    harness.hold.insert(Hold::Commit);
    harness.queue(1);
    harness.run();
    harness.hold.insert(Hold::Peek);
    for (peek, limit) in [(0, true), (1, false), (2, false)] {
        harness.queue(1);
        harness.give(Fact::Woken);
        assert_eq!(harness.take_peek() > 0, limit, "peek {peek}");
        let queue = if limit { harness.ledger.txs.values().cloned().collect() } else { Vec::new() };
        harness.give(Fact::Peeked(Some(gapless_domain::Peeked { queue, commands: Vec::new() })));
    }
    harness.hold.clear();
    harness.commit_done(true);
    assert_eq!(harness.nonces(), [Some(0), Some(1), Some(2), Some(3)], "the new intents were found at once");
}

/// Commands refer to intents that the lane has not read. The lane reads the queue before it refuses them.
#[test]
fn command_for_unread_intent_is_not_refused_before_a_peek() {
    let mut harness = LaneHarness::with_intents(window(100), 103);
    harness.answer(SendOutcome::Accepted);
    harness.queue(60);
    harness.give(Fact::Woken);
    for seq in 104..=163 {
        let (id, tx_id) = (CommandId(seq), harness.id(seq));
        let payload = Payload::from(EvmCall { to: Some(Address::repeat_byte(9)), ..EvmCall::default() });
        let kind = CommandKind::Replace { tx_id, payload };
        let issued_at = harness.ledger.now();
        harness.ledger.commands.push(Command { id, submitter: submitter(), kind, issued_by: text("test"), issued_at });
    }
    harness.give(Fact::Woken);
    let refused = harness.ledger.results.iter().filter(|result| matches!(result, CommandResult::Refused(_)));
    assert_eq!((harness.ledger.results.len(), refused.count()), (60, 0));
}

/// The store is not reachable, and is not asked in a loop.
#[test]
fn failed_peek_is_repeated_after_a_pause() {
    for (queued, room) in [(20, 2), (0, 2), (300, 1000)] {
        let mut harness = LaneHarness::new(window(room));
        harness.queue(queued);
        harness.hold.extend([Hold::Prepare]);
        harness.run();
        harness.hold.insert(Hold::Peek);
        for _ in 0..3 {
            harness.give(Fact::Woken);
            if harness.unanswered.iter().any(|effect| matches!(effect, gapless_domain::Effect::Peek { .. })) {
                harness.take_peek();
                harness.give(Fact::Peeked(None));
            }
        }
        let peeks = harness.unanswered.iter().filter(|effect| matches!(effect, gapless_domain::Effect::Peek { .. }));
        assert_eq!(peeks.count(), 0, "{queued} queued intents");
        harness.advance_secs(1);
        harness.take_peek();
    }
}

/// The peek was answered before the commit that is done by now.
#[test]
fn late_peek_answer_does_not_restore_a_failed_intent() {
    let mut harness = LaneHarness::new(window(2));
    harness.hold.extend([Hold::Commit, Hold::Prepare]);
    harness.queue(1);
    harness.run();
    let asked = harness.take_prepare();
    harness.prepared(vec![(asked[0].key, Err(PrepareFailure::Invalid(text("bad"))))]);
    harness.hold.insert(Hold::Peek);
    harness.give(Fact::Woken);
    let seen = harness.ledger.txs[&1].clone();
    harness.commit_done(true);
    harness.hold.remove(&Hold::Peek);
    harness.unanswered.clear();
    harness.give(Fact::Peeked(Some(gapless_domain::Peeked { queue: vec![seen], commands: Vec::new() })));
    assert!(harness.unanswered.is_empty(), "{:?}", harness.unanswered);
}

/// Mines the first nonces one after the other, and accepts everything that is sent meanwhile.
fn mine_and_send(harness: &mut LaneHarness, count: u64) {
    for at in 0..count {
        harness.sight(mined(harness.hash(at, 0), block(at + 1)));
        if !harness.sending().is_empty() {
            harness.answer(SendOutcome::Accepted);
        }
    }
}
