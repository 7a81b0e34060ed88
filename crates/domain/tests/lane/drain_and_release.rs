//! Pausing, draining and releasing a lane.

use gapless_domain::{CommandKind, Effect, Fact, SendOutcome, StateName};

use crate::harness::{Hold, LaneHarness, block, window};

/// proves S15
#[test]
fn paused_lane_binds_nothing_until_resumed() {
    let mut harness = LaneHarness::with_intents(window(2), 1);
    harness.answer(SendOutcome::Accepted);
    harness.command(CommandKind::Pause);
    assert!(harness.ledger.cursor.as_ref().unwrap().paused && harness.ledger.commands.is_empty());
    harness.queue(1);
    harness.advance_secs(10);
    assert_eq!(harness.nonces(), [Some(0), None]);
    harness.finish(harness.hash(0, 0), block(1));
    assert_eq!(harness.state(1), StateName::Confirmed, "the intent in flight finishes");
    harness.command(CommandKind::Resume);
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
}

#[test]
fn command_read_twice_is_executed_once() {
    let mut harness = LaneHarness::with_intents(window(2), 1);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Commit);
    harness.command(CommandKind::Pause);
    // The command is read again while the commit that executes it is in flight.
    harness.give(Fact::Woken);
    harness.commit_done(true);
    harness.advance_secs(10);
    assert!(!harness.unanswered.iter().any(|effect| matches!(effect, Effect::Commit(_))));
    let paused = harness.commits.iter().map(|commit| commit.lane_events().count()).sum::<usize>();
    assert_eq!(paused, 1);
}

#[test]
fn drain_finishes_work_in_flight_then_releases() {
    let mut harness = LaneHarness::with_intents(window(2), 1);
    harness.hold.insert(Hold::Sign);
    harness.queue(1);
    harness.give(Fact::Woken);
    harness.give(Fact::Drain);
    assert!(!harness.released, "a send is in flight");
    harness.answer(SendOutcome::Accepted);
    assert!(!harness.released, "a signature is in flight");
    let Some(Effect::Sign(requests)) = harness.unanswered.pop() else { panic!() };
    harness.give(Fact::Signed(requests.iter().map(|request| Ok(crate::harness::sign(request))).collect()));
    assert!(harness.released);
    assert_eq!(harness.states(), [StateName::Tracking, StateName::Queued], "the result of the send is kept");
    assert_eq!(harness.nonces(), [Some(0), None]);
    // The lane ignores later facts.
    let commits = harness.commits.len();
    harness.give(Fact::Woken);
    harness.advance_secs(100);
    assert_eq!((harness.commits.len(), harness.broadcasts.len()), (commits, 0));
}

#[test]
fn drain_waits_for_the_commit_in_flight() {
    let mut harness = LaneHarness::new(window(1));
    harness.hold.insert(Hold::Commit);
    harness.queue(1);
    harness.run();
    harness.give(Fact::Drain);
    assert!(!harness.released);
    harness.commit_done(true);
    assert!(harness.released && harness.broadcasts.is_empty(), "the next owner sends the attempt");
}

#[test]
fn lane_without_work_is_released_after_linger() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.answer(SendOutcome::Accepted);
    harness.advance_secs(5);
    assert!(!harness.released, "a slot is open");
    harness.finish(harness.hash(0, 0), block(1));
    harness.advance_secs(3);
    harness.queue(1);
    harness.advance_secs(3);
    assert_eq!(harness.sending(), [1], "new work during the linger time is done");
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(1, 0), block(2));
    harness.advance_secs(5);
    harness.advance_secs(1);
    assert!(harness.released);
}

/// The account cannot be read, and the lane does not need it.
#[test]
fn idle_lane_is_released_while_chain_is_unreachable() {
    let mut harness = LaneHarness::new(window(1));
    harness.hold.insert(Hold::Account);
    harness.run();
    harness.advance_secs(6);
    assert!(harness.released);
}

#[test]
fn release_waits_for_the_peek_in_flight() {
    let mut harness = LaneHarness::new(window(1));
    harness.run();
    harness.hold.insert(Hold::Peek);
    harness.advance_secs(6);
    assert!(!harness.released);
    harness.queue(1);
    harness.hold.clear();
    let queue = harness.ledger.txs.values().cloned().collect();
    harness.give(Fact::Peeked(Some(gapless_domain::Peeked { queue, commands: Vec::new() })));
    assert!(!harness.released);
    assert_eq!(harness.sending(), [0]);
}
