//! Each check finds the violations that it is for, and accepts correct histories.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    Amount, B256, BlockLink, Bytes, CancelReason, Cancellation, ConfirmationNotice, Cursor, EventBody, FencingToken,
    IntentRecord, LaneEventKind, Lease, LostRule, NodeText, Nonce, OwnerId, ProtectCode, Protection, ReleaseRule,
    SignedTx, Transition, TxState,
};

use super::story::{NOTHING, Story, follow, strict, wide};
use super::{EndState, Scan, check_end_state, read_end_state};
use crate::fault::Fault;
use crate::history::Moment;
use crate::plan::Plan;

fn protection(code: ProtectCode) -> Protection {
    Protection { code, detail: NodeText::new("a test") }
}

#[test]
fn what_goes_well_breaks_nothing() {
    let mut story = Story::new(&strict());
    story.deliver(1);
    story.deliver(2);
    assert_eq!(story.end(), NOTHING);
}

#[test]
fn p1_one_effect_twice_on_the_chain() {
    let mut story = Story::new(&wide());
    let (one, other) = (story.attempt(0, 1), story.attempt(1, 1));
    assert_eq!(story.mine(&[story.ours(&one)]), NOTHING);
    // The effect is counted once if the first block was orphaned.
    assert_eq!(story.orphan(), NOTHING);
    assert_eq!(story.mine(&[story.ours(&other)]), NOTHING);
    assert_eq!(story.mine(&[story.ours(&one)]), ["P1"]);
}

#[test]
fn p1_an_end_that_changes() {
    let mut story = Story::new(&strict());
    let mut tx = story.accept(1);
    assert_eq!(story.change(&mut tx, Transition::CancelInQueue(CancelReason::User)), NOTHING);
    tx.state = TxState::Queued;
    let (commit, _) = story.bind_commit(&tx, 1);
    assert_eq!(story.say(commit), ["P1", "P8"]);
    assert_eq!(story.tell(Moment::CanceledInQueue { id: tx.id }), NOTHING, "it is bound now, by mistake");
    assert_eq!(story.tell(Moment::CanceledInQueue { id: tx.id }), ["P1"]);
}

#[test]
fn p1_one_request_accepted_twice() {
    let mut story = Story::new(&strict());
    let tx = story.accept(1);
    let intent = Arc::new(tx.intent);
    assert_eq!(story.tell(Moment::Accepted { id: story.intent(2).id, intent }), ["P1"]);
}

#[test]
fn p1_at_the_end_what_was_canceled_is_on_the_chain() {
    let mut story = Story::new(&strict());
    let mut tx = story.accept(1);
    assert_eq!(story.change(&mut tx, Transition::CancelInQueue(CancelReason::User)), NOTHING);
    let attempt = story.attempt(0, 1);
    assert_eq!(story.mine(&[story.ours(&attempt)]), NOTHING);
    assert_eq!(story.end(), ["P1"]);
}

#[test]
fn p2_nonces_with_a_hole_or_two_holders() {
    let mut story = Story::new(&wide());
    let (mut one, two, three) = (story.accept(1), story.accept(2), story.accept(3));
    assert_eq!(story.bind(&mut one, 1).1, NOTHING);
    let right = story.cursor.clone();
    story.cursor = Cursor { next_nonce: Nonce::ZERO, ..right.clone() };
    let (again, _) = story.bind_commit(&two, 2);
    assert_eq!(story.say(again)[0], "P2");
    story.cursor = Cursor { next_nonce: Nonce::new(5).unwrap(), ..right };
    let (hole, _) = story.bind_commit(&three, 3);
    assert_eq!(story.say(hole)[0], "P2");
}

#[test]
fn p2_at_the_end_a_nonce_that_nothing_used() {
    let mut story = Story::new(&strict());
    let mut tx = story.accept(1);
    story.bind(&mut tx, 1);
    assert_eq!(story.end(), ["P2", "liveness"]);
}

#[test]
fn p3_bytes_that_were_not_durable() {
    let mut story = Story::new(&strict());
    let mut tx = story.accept(1);
    let attempt = story.attempt(0, 1);
    assert_eq!(story.send(&attempt), ["P3"]);
    let snapshot = story.snapshot();
    story.bind(&mut tx, 1);
    assert_eq!(story.send(&attempt), NOTHING);
    let other = SignedTx { hash: attempt.hash, raw: Bytes::from_static(b"other") };
    assert_eq!(story.tell(Moment::Sent { by: OwnerId::new("a", 1), tx: other }), ["P3"]);
    // The transaction was durable when it was sent first.
    assert_eq!(story.lose(snapshot), NOTHING);
    assert_eq!(story.send(&attempt), NOTHING);
}

#[test]
fn p4_a_nonce_is_lost_only_when_something_else_has_used_it_finally() {
    let mut story = Story::new(&wide());
    let mut tx = story.accept(1);
    let (attempt, _) = story.bind(&mut tx, 1);
    let lose = |story: &Story| {
        let mut commit = story.new_commit();
        let queued = commit.lose_nonce(&tx, LostRule::Requeue, true, NodeText::new("a test")).unwrap().unwrap();
        (commit, queued)
    };
    assert_eq!(story.say(lose(&story).0), ["P4"]);

    let mut story = Story::new(&wide());
    story.accept(1);
    story.say(story.bind_commit(&story.intent(1), 1).0);
    story.mine(&[story.ours(&attempt)]);
    story.finalize();
    assert_eq!(story.say(lose(&story).0), ["P4"], "its own transaction has used it");

    let mut story = Story::new(&wide());
    story.accept(1);
    story.say(story.bind_commit(&story.intent(1), 1).0);
    story.mine(&[story.strangers(0)]);
    assert_eq!(story.say(lose(&story).0), ["P4"], "not final yet");

    let mut story = Story::new(&wide());
    story.accept(1);
    story.say(story.bind_commit(&story.intent(1), 1).0);
    story.mine(&[story.strangers(0)]);
    story.finalize();
    let (commit, queued) = lose(&story);
    assert_eq!(story.say(commit), NOTHING);
    let (commit, _) = story.bind_commit(&queued, 1);
    assert_eq!(story.say(commit), NOTHING, "the next nonce, since the first is gone");
}

#[test]
fn p4_what_is_mined_at_a_nonce_is_its_holders() {
    let mut story = Story::new(&wide());
    let mut tx = story.accept(1);
    story.bind(&mut tx, 1);
    let anothers = story.attempt(0, 2);
    assert_eq!(story.mine(&[story.ours(&anothers)]), ["P4"]);
}

#[test]
fn p5_an_old_token_another_owner_and_what_was_given_back() {
    let mut story = Story::new(&wide());
    let (old, other) = (story.lease.clone(), OwnerId::new("b", 2));
    let lease =
        |owner: &OwnerId, token| Lease::granted(old.submitter().clone(), owner.clone(), FencingToken::new(token));
    assert_eq!(story.tell(Moment::Leased { lease: lease(&other, 1) }), ["P5"], "the same token for another");
    assert_eq!(story.tell(Moment::Leased { lease: lease(&other, 2) }), NOTHING);
    let tx = story.accept(1);
    let (late, _) = story.bind_commit(&tx, 1);
    assert_eq!(story.say(late), ["P5"]);
    story.lease = lease(&other, 2);
    let mut commit = story.new_commit();
    commit.set_in_flight(&story.cursor, true).unwrap();
    assert_eq!(story.say(commit), NOTHING);
    assert_eq!(story.tell(Moment::Released { lease: lease(&other, 2) }), NOTHING);
    let mut commit = story.new_commit();
    commit.set_in_flight(&story.cursor, false).unwrap();
    assert_eq!(story.say(commit), ["P5"]);
    assert_eq!(story.tell(Moment::Leased { lease: lease(&other, 1) }), ["P5"], "a token that goes back");
}

#[test]
fn p6_what_was_acknowledged_is_there_but_for_a_told_loss() {
    let mut story = Story::new(&strict());
    let tx = story.intent(1);
    let (id, lane, request) = (tx.id, story.lane.clone(), tx.intent.request_id().clone());
    let acknowledged = Moment::Acknowledged { id, lane, request };
    assert_eq!(story.tell(acknowledged.clone()), ["P6"]);
    assert_eq!(story.end(), ["P6"]);

    let mut story = Story::new(&strict());
    let kept = story.accept(2);
    let snapshot = story.snapshot();
    story.accept(1);
    assert_eq!(story.lose(snapshot), NOTHING);
    assert_eq!(story.tell(acknowledged), NOTHING, "an answer that was on its way");
    assert_eq!(story.picture.demanded().len(), 1);
    assert_eq!(story.picture.demanded()[0].2, kept.id);
    assert_eq!(story.end(), ["liveness"]);
}

#[test]
fn p7_a_lane_that_lost_commits_binds_nothing_before_it_is_reconciled() {
    let mut story = Story::new(&wide());
    let (mut one, mut two) = (story.accept(1), story.accept(2));
    let snapshot = story.snapshot();
    story.bind(&mut one, 1);
    assert_eq!(story.lose(snapshot), NOTHING);
    story.cursor = Cursor::starting_at(Nonce::ZERO);
    let silent = story.bind_commit(&two, 2).0;
    assert_eq!(story.say(silent), ["P7"]);

    let mut story = Story::new(&wide());
    let mut one = story.accept(1);
    story.accept(2);
    let snapshot = story.snapshot();
    story.bind(&mut one, 1);
    assert_eq!(story.lose(snapshot), NOTHING);
    story.cursor = Cursor::starting_at(Nonce::ZERO);
    assert_eq!(story.protect(protection(ProtectCode::StoreRegressed)), NOTHING);
    let cursor = story.cursor.clone();
    let (command, result) = story.resync();
    let mut resync = story.new_commit();
    resync.lane_event(&cursor, LaneEventKind::Resynced, NodeText::new("all well")).unwrap();
    resync.unprotect(&cursor, true, NodeText::new("operator")).unwrap().command_done(&command, result);
    assert_eq!(story.commit(resync), NOTHING);
    assert_eq!(story.bind(&mut two, 2).1, NOTHING);
}

#[test]
fn p7_protect_does_not_end_in_silence() {
    let mut story = Story::new(&wide());
    assert_eq!(story.protect(protection(ProtectCode::CannotFill)), NOTHING);
    let mut commit = story.new_commit();
    commit.unprotect(&story.cursor, false, NodeText::new("nobody")).unwrap();
    assert_eq!(story.commit(commit), ["P7"]);
}

#[test]
fn p7_a_stranger_stops_the_lane() {
    let mut story = Story::new(&wide());
    let mut tx = story.accept(1);
    story.bind(&mut tx, 1);
    story.mine(&[story.strangers(0)]);
    story.finalize();
    let mut next = story.accept(2);
    assert_eq!(story.bind(&mut next, 2).1, NOTHING, "it may not know yet");
    story.pass(600);
    let mut next = story.accept(3);
    assert_eq!(story.bind(&mut next, 3).1, ["P7"]);
    assert_eq!(story.protect(protection(ProtectCode::ForeignTransaction)), NOTHING);
    let (command, result) = story.resync();
    let mut resync = story.new_commit();
    resync.unprotect(&story.cursor, true, NodeText::new("operator")).unwrap().command_done(&command, result);
    assert_eq!(story.commit(resync), NOTHING);
    let mut next = story.accept(4);
    assert_eq!(story.bind(&mut next, 4).1, NOTHING);
}

#[test]
fn p7_no_nonce_is_skipped_or_adopted_unseen() {
    let mut story = Story::new(&wide());
    let cursor = story.cursor.clone();
    let mut jump = story.new_commit();
    jump.start_at(&cursor, Nonce::new(3).unwrap()).unwrap();
    assert_eq!(story.say(jump), ["P7"]);

    let mut story = Story::new(&wide());
    let adopt = |story: &Story| {
        let (command, result) = story.resync();
        let mut commit = story.new_commit();
        commit.adopt_foreign(&story.cursor, Nonce::ZERO, NodeText::new("seen")).unwrap().command_done(&command, result);
        commit
    };
    assert_eq!(story.say(adopt(&story)), ["P7"], "nothing has used it");

    let mut story = Story::new(&wide());
    story.mine(&[story.strangers(0)]);
    story.finalize();
    assert_eq!(story.commit(adopt(&story)), NOTHING);
    assert_eq!(story.end(), NOTHING);
}

#[test]
fn p7_and_p9_after_a_chain_that_took_back_what_was_final() {
    let mut story = Story::new(&wide());
    story.deliver(1);
    story.orphan();
    story.mine(&[]);
    story.mine(&[]);
    story.pass(600);
    let mut next = story.accept(2);
    assert_eq!(story.bind(&mut next, 2).1, ["P7"]);
    assert_eq!(story.end(), NOTHING, "nothing more can be demanded of this chain");
}

#[test]
fn p8_a_change_from_another_version() {
    let mut story = Story::new(&strict());
    let mut tx = story.accept(1);
    tx.version = 3;
    let (commit, _) = story.bind_commit(&tx, 1);
    assert_eq!(story.say(commit), ["P8"]);
}

#[test]
fn p8_at_the_end_an_event_is_missing() {
    let mut story = Story::new(&strict());
    story.deliver(1);
    assert_eq!(story.protect(protection(ProtectCode::CannotFill)), NOTHING);
    let lanes = [story.lane.clone()];
    let whole = story.read();
    let scan = story.picture.blocks.scan();
    let promises =
        |end: &EndState| -> Vec<&str> { check_end_state(end, &scan).iter().map(|(name, _)| *name).collect() };
    assert_eq!(promises(&whole), NOTHING);
    assert_eq!(whole.lanes.iter().map(|(lane, _)| lane).collect::<Vec<_>>(), lanes.iter().collect::<Vec<_>>());

    let mut less = whole.clone();
    less.txs[0].events.remove(2);
    assert_eq!(promises(&less), ["P8"]);
    let mut less = whole.clone();
    less.events.remove(2);
    assert_eq!(promises(&less), ["P8"]);
    let mut less = whole.clone();
    less.events.retain(|event| !matches!(event.body, EventBody::Lane { .. }));
    assert_eq!(promises(&less), ["P8"]);
    let mut unknown = whole;
    unknown.txs.clear();
    assert_eq!(promises(&unknown), ["P6", "P8"]);
}

#[test]
fn p9_an_end_before_its_block_is_final() {
    let mut story = Story::new(&strict());
    let mut tx = story.accept(1);
    let (attempt, _) = story.bind(&mut tx, 1);
    story.mine(&[story.ours(&attempt)]);
    assert_eq!(story.change(&mut tx, Transition::Mine(story.inclusion(&attempt))), NOTHING);
    assert_eq!(story.change(&mut tx, Transition::Settle(None)), ["P9"]);
    assert_eq!(story.end(), ["P9"]);
}

#[test]
fn p9_an_end_by_what_is_not_ours_or_in_no_block() {
    let mut story = Story::new(&strict());
    let mut tx = story.accept(1);
    let (attempt, _) = story.bind(&mut tx, 1);
    let elsewhere = story.inclusion(&attempt);
    let strange = gapless_domain::Inclusion { hash: B256::repeat_byte(9), ..elsewhere.clone() };
    let mut other = tx.clone();
    let mut commit = story.new_commit();
    commit.change(other.change(Transition::Mine(strange)).unwrap());
    follow(&mut other, &commit);
    assert_eq!(story.say(commit), ["P9"]);

    let mut story = Story::new(&strict());
    let mut tx = story.accept(1);
    story.bind(&mut tx, 1);
    assert_eq!(story.change(&mut tx, Transition::Mine(elsewhere)), NOTHING, "a fork that only one endpoint has");
    assert_eq!(story.change(&mut tx, Transition::Settle(None)), ["P9"]);
}

/// An intent in block 1 with block 2 on top; consumers were notified of both.
fn told_of_two() -> (Story, IntentRecord) {
    let mut story = Story::new(&Plan { confirmations: 3, odds: BTreeMap::new(), ..strict() });
    let mut tx = story.accept(1);
    let (attempt, _) = story.bind(&mut tx, 1);
    story.mine(&[story.ours(&attempt)]);
    assert_eq!(story.change(&mut tx, Transition::Mine(story.inclusion(&attempt))), NOTHING);
    story.mine(&[]);
    assert_eq!(story.change(&mut tx, Transition::Confirm(notice(false, story.links(2)))), NOTHING);
    (story, tx)
}

fn notice(new_fork: bool, links: Vec<BlockLink>) -> ConfirmationNotice {
    ConfirmationNotice { new_fork, links }
}

#[test]
fn r03_notices_add_up_to_a_list_of_the_chain() {
    let fork = || {
        let (mut story, tx) = told_of_two();
        story.orphan();
        story.mine(&[]);
        story.mine(&[]);
        (story, tx)
    };
    let (mut story, mut tx) = fork();
    let whole = notice(true, story.links(1));
    assert_eq!(story.change(&mut tx, Transition::Confirm(whole)), NOTHING);
    story.finalize();
    assert_eq!(story.change(&mut tx, Transition::Settle(None)), NOTHING);

    let (mut story, mut tx) = fork();
    let lost = notice(false, story.links(3));
    assert_eq!(story.change(&mut tx, Transition::Confirm(lost)), ["R03"], "a fork is told as if it continued");

    let (mut story, mut tx) = fork();
    let rest = notice(true, story.links(2));
    assert_eq!(story.change(&mut tx, Transition::Confirm(rest)), ["R03"], "it does not begin with its own block");

    let (mut story, mut tx) = told_of_two();
    let mut unknown = story.links(2)[0];
    (unknown.block.number, unknown.parent_hash) = (3, unknown.block.hash);
    unknown.block.hash = B256::repeat_byte(0xee);
    assert_eq!(story.change(&mut tx, Transition::Confirm(notice(false, vec![unknown]))), ["R03"]);
}

#[test]
fn r03_who_has_ended_has_all_confirmations_and_who_is_in_no_block_has_none() {
    let (mut story, mut tx) = told_of_two();
    story.finalize();
    assert_eq!(story.change(&mut tx, Transition::Settle(None)), ["R03"], "two of three");

    let (mut story, mut tx) = told_of_two();
    story.mine(&[]);
    story.finalize();
    assert_eq!(story.change(&mut tx, Transition::Settle(Some(notice(false, story.links(3))))), NOTHING);

    let (mut story, mut tx) = told_of_two();
    assert_eq!(story.change(&mut tx, Transition::Unmine), NOTHING);
    assert_eq!(story.change(&mut tx, Transition::WantCancel(CancelReason::User)), NOTHING);
}

/// A notice that was lost is written again, and continues the list that was kept.
#[test]
fn r03_after_a_loss_it_goes_on_from_what_was_kept() {
    let (mut story, mut tx) = told_of_two();
    let (snapshot, kept) = (story.snapshot(), tx.clone());
    story.mine(&[]);
    assert_eq!(story.change(&mut tx, Transition::Confirm(notice(false, story.links(3)))), NOTHING);
    assert_eq!(story.lose(snapshot), NOTHING);
    let mut again = story.new_commit();
    again.change(kept.change(Transition::Confirm(notice(false, story.links(3)))).unwrap());
    assert_eq!(story.say(again), NOTHING);
}

#[test]
fn windows_are_kept() {
    for (release, seen) in [(ReleaseRule::Mined, NOTHING), (ReleaseRule::Final, &["N12"])] {
        let mut story = Story::new(&Plan { release, ..strict() });
        let (mut one, mut two, mut three) = (story.accept(1), story.accept(2), story.accept(3));
        let (attempt, broken) = story.bind(&mut one, 1);
        assert_eq!(broken, NOTHING);
        story.mine(&[story.ours(&attempt)]);
        assert_eq!(story.bind(&mut two, 2).1, seen);
        assert_eq!(story.bind(&mut three, 3).1, ["N12"]);
    }
}

#[test]
fn who_has_lost_a_lane_sends_nothing_more() {
    for (has_jumps, late) in [(false, &["N06"][..]), (true, NOTHING)] {
        let mut story = Story::new(&wide());
        if has_jumps {
            let what = "a clock jumps".to_owned();
            assert_eq!(story.tell(Moment::Struck { fault: Fault::NodeClockJump, what }), NOTHING);
        }
        let mut tx = story.accept(1);
        let (attempt, _) = story.bind(&mut tx, 1);
        assert_eq!(story.send(&attempt), NOTHING);
        let lease = Lease::granted(story.lane.clone(), OwnerId::new("b", 2), FencingToken::new(2));
        assert_eq!(story.tell(Moment::Leased { lease: lease.clone() }), NOTHING);
        assert_eq!(story.send(&attempt), late);
        story.lease = lease;
        assert_eq!(story.send(&attempt), NOTHING);
    }
}

#[test]
fn no_more_is_promised_than_there_is() {
    let mut story = Story::new(&wide());
    let cost = story.plan(0, 1).worst_cost();
    let lane = story.lane.clone();
    story.picture.see_balance(&lane, cost.checked_mul(2).unwrap());
    let (mut one, mut two, mut three) = (story.accept(1), story.accept(2), story.accept(3));
    assert_eq!(story.bind(&mut one, 1).1, NOTHING);
    story.picture.see_balance(&lane, Amount::from(1_u64));
    assert_eq!(story.bind(&mut two, 2).1, NOTHING, "the loss may not be known yet");
    assert_eq!(story.bind(&mut three, 3).1, ["funds"]);
    story.pass(1000);
    let mut four = story.accept(4);
    story.picture.see_balance(&lane, Amount::from(1_u64));
    assert_eq!(story.picture.highest_balance(&lane), Some(Amount::from(1_u64)));
    assert_eq!(story.bind(&mut four, 4).1, ["funds"]);
}

#[test]
fn what_is_still_open_at_the_end_is_not_alive() {
    let mut story = Story::new(&strict());
    let mut tx = story.accept(1);
    assert_eq!(story.end(), ["liveness"]);
    assert_eq!(story.change(&mut tx, Transition::CancelInQueue(CancelReason::User)), NOTHING);
    assert!(matches!(tx.state, TxState::Canceled(Cancellation::InQueue(_))));
    assert_eq!(story.end(), NOTHING);
    assert_eq!(story.protect(protection(ProtectCode::CannotFill)), NOTHING);
    assert_eq!(story.end(), ["liveness"]);
}

/// An end state that was filled by hand is checked by the same rules.
#[test]
fn an_end_state_without_a_chain_is_judged_too() {
    let mut story = Story::new(&strict());
    story.deliver(1);
    let end = story.read();
    let names: Vec<&str> = check_end_state(&end, &Scan::default()).iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["P2", "P9"]);
    assert!(story.now == Duration::ZERO && story.index() > 0);
}

impl Story {
    fn read(&self) -> EndState {
        let reading =
            read_end_state(self.store(), std::slice::from_ref(&self.lane), self.picture.demanded(), Vec::new());
        crate::store::wait_for(reading).unwrap()
    }
}
