//! Pausing, draining, letting go.

use gapless_domain::{CommandKind, Effect, Fact, SendOutcome, StateName};

use crate::bench::{Bench, Hold, block, window};

/// proves S15
#[test]
fn a_paused_lane_binds_nothing_and_goes_on_when_it_is_resumed() {
    let mut bench = Bench::busy(window(2), 1);
    bench.answer(SendOutcome::Accepted);
    bench.command(CommandKind::Pause);
    assert!(bench.ledger.cursor.as_ref().unwrap().paused && bench.ledger.commands.is_empty());
    bench.queue(1);
    bench.pass_secs(10);
    assert_eq!(bench.nonces(), [Some(0), None]);
    bench.finish(bench.hash(0, 0), block(1));
    assert_eq!(bench.state(1), StateName::Confirmed, "what is in flight finishes");
    bench.command(CommandKind::Resume);
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
}

#[test]
fn a_command_is_executed_once() {
    let mut bench = Bench::busy(window(2), 1);
    bench.answer(SendOutcome::Accepted);
    bench.hold.insert(Hold::Commit);
    bench.command(CommandKind::Pause);
    // Seen again while the commit that executes it is under way.
    bench.tell(Fact::Woken);
    bench.commit_done(true);
    bench.pass_secs(10);
    assert!(!bench.held.iter().any(|effect| matches!(effect, Effect::Commit(_))));
    let paused = bench.commits.iter().map(|commit| commit.lane_events().count()).sum::<usize>();
    assert_eq!(paused, 1);
}

#[test]
fn a_drain_finishes_what_is_under_way_and_lets_go() {
    let mut bench = Bench::busy(window(2), 1);
    bench.hold.insert(Hold::Sign);
    bench.queue(1);
    bench.tell(Fact::Woken);
    bench.tell(Fact::Drain);
    assert!(!bench.released, "a send is under way");
    bench.answer(SendOutcome::Accepted);
    assert!(!bench.released, "a signature is under way");
    let Some(Effect::Sign(requests)) = bench.held.pop() else { panic!() };
    bench.tell(Fact::Signed(requests.iter().map(|request| Ok(crate::bench::sign(request))).collect()));
    assert!(bench.released);
    assert_eq!(bench.states(), [StateName::Tracking, StateName::Queued], "what came of the send is kept");
    assert_eq!(bench.nonces(), [Some(0), None]);
    // Whatever comes now, it does nothing more.
    let commits = bench.commits.len();
    bench.tell(Fact::Woken);
    bench.pass_secs(100);
    assert_eq!((bench.commits.len(), bench.broadcasts.len()), (commits, 0));
}

#[test]
fn a_drain_waits_for_its_last_commit() {
    let mut bench = Bench::new(window(1));
    bench.hold.insert(Hold::Commit);
    bench.queue(1);
    bench.run();
    bench.tell(Fact::Drain);
    assert!(!bench.released);
    bench.commit_done(true);
    assert!(bench.released && bench.broadcasts.is_empty(), "the next owner sends it");
}

#[test]
fn a_lane_without_work_is_let_go_after_a_while() {
    let mut bench = Bench::busy(window(1), 1);
    bench.answer(SendOutcome::Accepted);
    bench.pass_secs(5);
    assert!(!bench.released, "not while a slot is open");
    bench.finish(bench.hash(0, 0), block(1));
    bench.pass_secs(3);
    bench.queue(1);
    bench.pass_secs(3);
    assert_eq!(bench.sending(), [1], "work that comes meanwhile is done");
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(1, 0), block(2));
    bench.pass_secs(5);
    bench.pass_secs(1);
    assert!(bench.released);
}

/// Nobody can read the account, and there is nothing to read it for.
#[test]
fn an_idle_lane_is_let_go_also_when_the_chain_is_away() {
    let mut bench = Bench::new(window(1));
    bench.hold.insert(Hold::Account);
    bench.run();
    bench.pass_secs(6);
    assert!(bench.released);
}

#[test]
fn a_look_that_is_under_way_decides_whether_a_lane_is_let_go() {
    let mut bench = Bench::new(window(1));
    bench.run();
    bench.hold.insert(Hold::Peek);
    bench.pass_secs(6);
    assert!(!bench.released);
    bench.queue(1);
    bench.hold.clear();
    let queue = bench.ledger.txs.values().cloned().collect();
    bench.tell(Fact::Peeked(Some(gapless_domain::Peeked { queue, commands: Vec::new() })));
    assert!(!bench.released);
    assert_eq!(bench.sending(), [0]);
}
