//! Each check finds the violations that it is for, and accepts correct histories.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{
    Amount, B256, BlockLink, Bytes, CancelReason, Cancellation, ConfirmationNotice, Cursor, EventBody, FailReason,
    FencingToken, IntentRecord, LaneEventKind, Lease, LostRule, NodeText, Nonce, OwnerId, ProtectCode, Protection,
    ReleaseRule, SignedTx, Transition, TxState,
};

use super::fixture::{CheckFixture, NOTHING, follow, strict, wide};
use super::{EndState, Scan, check_end_state, read_end_state};
use crate::fault::Fault;
use crate::history::Moment;
use crate::world_spec::WorldSpec;

fn protection(code: ProtectCode) -> Protection {
    Protection { code, detail: NodeText::new("a test") }
}

#[test]
fn delivered_intents_violate_nothing() {
    let mut fixture = CheckFixture::new(&strict());
    fixture.deliver(1);
    fixture.deliver(2);
    assert_eq!(fixture.end(), NOTHING);
}

#[test]
fn p1_effect_in_two_canonical_blocks_is_found() {
    let mut fixture = CheckFixture::new(&wide());
    let (one, other) = (fixture.attempt(0, 1), fixture.attempt(1, 1));
    assert_eq!(fixture.mine(&[fixture.ours(&one)]), NOTHING);
    // The effect is counted once if the first block was orphaned.
    assert_eq!(fixture.orphan(), NOTHING);
    assert_eq!(fixture.mine(&[fixture.ours(&other)]), NOTHING);
    assert_eq!(fixture.mine(&[fixture.ours(&one)]), ["P1"]);
}

#[test]
fn p1_change_of_terminal_state_is_found() {
    let mut fixture = CheckFixture::new(&strict());
    let mut tx = fixture.accept(1);
    assert_eq!(fixture.change(&mut tx, Transition::CancelInQueue(CancelReason::User)), NOTHING);
    tx.state = TxState::Queued;
    let (commit, _) = fixture.bind_commit(&tx, 1);
    assert_eq!(fixture.record(commit), ["P1", "P8"]);
    assert_eq!(fixture.tell(Moment::CanceledInQueue { id: tx.id }), NOTHING, "the wrong commit has bound the intent");
    assert_eq!(fixture.tell(Moment::CanceledInQueue { id: tx.id }), ["P1"]);
}

#[test]
fn p1_request_accepted_twice_is_found() {
    let mut fixture = CheckFixture::new(&strict());
    let tx = fixture.accept(1);
    let intent = Arc::new(tx.intent);
    assert_eq!(fixture.tell(Moment::Accepted { id: fixture.intent(2).id, intent }), ["P1"]);
}

#[test]
fn p1_canceled_intent_on_chain_is_found_at_the_end() {
    let mut fixture = CheckFixture::new(&strict());
    let mut tx = fixture.accept(1);
    assert_eq!(fixture.change(&mut tx, Transition::CancelInQueue(CancelReason::User)), NOTHING);
    let attempt = fixture.attempt(0, 1);
    assert_eq!(fixture.mine(&[fixture.ours(&attempt)]), NOTHING);
    assert_eq!(fixture.end(), ["P1"]);
}

/// A loss of commits has removed the first acceptance, and the caller repeats the request.
#[test]
fn p1_repeated_request_of_a_lost_intent_may_be_canceled() {
    let mut fixture = CheckFixture::new(&strict());
    let attempt = fixture.attempt(0, 1);
    assert_eq!(fixture.mine(&[fixture.ours(&attempt)]), NOTHING);
    let mut tx = fixture.accept(1);
    assert_eq!(fixture.change(&mut tx, Transition::CancelInQueue(CancelReason::User)), NOTHING);
    assert_eq!(fixture.end(), NOTHING);
}

#[test]
fn p2_nonce_gap_or_second_holder_is_found() {
    let mut fixture = CheckFixture::new(&wide());
    let (mut one, two, three) = (fixture.accept(1), fixture.accept(2), fixture.accept(3));
    assert_eq!(fixture.bind(&mut one, 1).1, NOTHING);
    let right = fixture.cursor.clone();
    fixture.cursor = Cursor { next_nonce: Nonce::ZERO, ..right.clone() };
    let (again, _) = fixture.bind_commit(&two, 2);
    assert_eq!(fixture.record(again)[0], "P2");
    fixture.cursor = Cursor { next_nonce: Nonce::new(5).unwrap(), ..right };
    let (hole, _) = fixture.bind_commit(&three, 3);
    assert_eq!(fixture.record(hole)[0], "P2");
}

#[test]
fn p2_bound_nonce_without_use_is_found_at_the_end() {
    let mut fixture = CheckFixture::new(&strict());
    let mut tx = fixture.accept(1);
    fixture.bind(&mut tx, 1);
    assert_eq!(fixture.end(), ["P2", "liveness"]);
}

#[test]
fn p3_send_before_write_is_found() {
    let mut fixture = CheckFixture::new(&strict());
    let mut tx = fixture.accept(1);
    let attempt = fixture.attempt(0, 1);
    assert_eq!(fixture.send(&attempt), ["P3"]);
    let snapshot = fixture.snapshot();
    fixture.bind(&mut tx, 1);
    assert_eq!(fixture.send(&attempt), NOTHING);
    let other = SignedTx { hash: attempt.hash, raw: Bytes::from_static(b"other") };
    assert_eq!(fixture.tell(Moment::Sent { by: OwnerId::new("a", 1), tx: other }), ["P3"]);
    // The transaction was durable when it was sent first.
    assert_eq!(fixture.lose(snapshot), NOTHING);
    assert_eq!(fixture.send(&attempt), NOTHING);
}

#[test]
fn p4_loss_of_unconsumed_nonce_is_found() {
    let mut fixture = CheckFixture::new(&wide());
    let mut tx = fixture.accept(1);
    let (attempt, _) = fixture.bind(&mut tx, 1);
    let lose = |fixture: &CheckFixture| {
        let mut commit = fixture.new_commit();
        let queued = commit.lose_nonce(&tx, LostRule::Requeue, true, NodeText::new("a test")).unwrap().unwrap();
        (commit, queued)
    };
    assert_eq!(fixture.record(lose(&fixture).0), ["P4"]);

    let mut fixture = CheckFixture::new(&wide());
    fixture.accept(1);
    fixture.record(fixture.bind_commit(&fixture.intent(1), 1).0);
    fixture.mine(&[fixture.ours(&attempt)]);
    fixture.finalize();
    assert_eq!(fixture.record(lose(&fixture).0), ["P4"], "the own transaction has used the nonce");

    let mut fixture = CheckFixture::new(&wide());
    fixture.accept(1);
    fixture.record(fixture.bind_commit(&fixture.intent(1), 1).0);
    fixture.mine(&[fixture.strangers(0)]);
    assert_eq!(fixture.record(lose(&fixture).0), ["P4"], "not final yet");

    let mut fixture = CheckFixture::new(&wide());
    fixture.accept(1);
    fixture.record(fixture.bind_commit(&fixture.intent(1), 1).0);
    fixture.mine(&[fixture.strangers(0)]);
    fixture.finalize();
    let (commit, queued) = lose(&fixture);
    assert_eq!(fixture.record(commit), NOTHING);
    let (commit, _) = fixture.bind_commit(&queued, 1);
    assert_eq!(fixture.record(commit), NOTHING, "the first nonce is consumed, so the next one is allowed");
}

#[test]
fn p4_foreign_effect_at_bound_nonce_is_found() {
    let mut fixture = CheckFixture::new(&wide());
    let mut tx = fixture.accept(1);
    fixture.bind(&mut tx, 1);
    let anothers = fixture.attempt(0, 2);
    assert_eq!(fixture.mine(&[fixture.ours(&anothers)]), ["P4"]);
}

#[test]
fn p5_write_with_old_or_released_token_is_found() {
    let mut fixture = CheckFixture::new(&wide());
    let (old, other) = (fixture.lease.clone(), OwnerId::new("b", 2));
    let lease =
        |owner: &OwnerId, token| Lease::granted(old.submitter().clone(), owner.clone(), FencingToken::new(token));
    assert_eq!(fixture.tell(Moment::Leased { lease: lease(&other, 1) }), ["P5"], "the same token for another owner");
    assert_eq!(fixture.tell(Moment::Leased { lease: lease(&other, 2) }), NOTHING);
    let tx = fixture.accept(1);
    let (late, _) = fixture.bind_commit(&tx, 1);
    assert_eq!(fixture.record(late), ["P5"]);
    fixture.lease = lease(&other, 2);
    let mut commit = fixture.new_commit();
    commit.set_in_flight(&fixture.cursor, true).unwrap();
    assert_eq!(fixture.record(commit), NOTHING);
    assert_eq!(fixture.tell(Moment::Released { lease: lease(&other, 2) }), NOTHING);
    let mut commit = fixture.new_commit();
    commit.set_in_flight(&fixture.cursor, false).unwrap();
    assert_eq!(fixture.record(commit), ["P5"]);
    assert_eq!(fixture.tell(Moment::Leased { lease: lease(&other, 1) }), ["P5"], "a smaller token than before");
}

#[test]
fn p6_missing_acknowledged_intent_is_found_without_a_loss() {
    let mut fixture = CheckFixture::new(&strict());
    let tx = fixture.intent(1);
    let (id, lane, request) = (tx.id, fixture.lane.clone(), tx.intent.request_id().clone());
    let acknowledged = Moment::Acknowledged { id, lane, request };
    assert_eq!(fixture.tell(acknowledged.clone()), ["P6"]);
    assert_eq!(fixture.end(), ["P6"]);

    let mut fixture = CheckFixture::new(&strict());
    let kept = fixture.accept(2);
    let snapshot = fixture.snapshot();
    fixture.accept(1);
    assert_eq!(fixture.lose(snapshot), NOTHING);
    assert_eq!(fixture.tell(acknowledged), NOTHING, "an answer that arrives after the loss");
    assert_eq!(fixture.view.demanded().len(), 1);
    assert_eq!(fixture.view.demanded()[0].2, kept.id);
    assert_eq!(fixture.end(), ["liveness"]);
}

#[test]
fn p7_bind_after_loss_before_reconcile_is_found() {
    let mut fixture = CheckFixture::new(&wide());
    let (mut one, mut two) = (fixture.accept(1), fixture.accept(2));
    let snapshot = fixture.snapshot();
    fixture.bind(&mut one, 1);
    assert_eq!(fixture.lose(snapshot), NOTHING);
    fixture.cursor = Cursor::starting_at(Nonce::ZERO);
    let silent = fixture.bind_commit(&two, 2).0;
    assert_eq!(fixture.record(silent), ["P7"]);

    let mut fixture = CheckFixture::new(&wide());
    let mut one = fixture.accept(1);
    fixture.accept(2);
    let snapshot = fixture.snapshot();
    fixture.bind(&mut one, 1);
    assert_eq!(fixture.lose(snapshot), NOTHING);
    fixture.cursor = Cursor::starting_at(Nonce::ZERO);
    assert_eq!(fixture.protect(protection(ProtectCode::StoreRegressed)), NOTHING);
    let cursor = fixture.cursor.clone();
    let (command, result) = fixture.resync();
    let mut resync = fixture.new_commit();
    resync.lane_event(&cursor, LaneEventKind::Resynced, NodeText::new("resynced")).unwrap();
    resync.unprotect(&cursor, true, NodeText::new("operator")).unwrap().command_done(&command, result);
    assert_eq!(fixture.commit(resync), NOTHING);
    assert_eq!(fixture.bind(&mut two, 2).1, NOTHING);
}

#[test]
fn p7_protect_ended_without_decision_is_found() {
    let mut fixture = CheckFixture::new(&wide());
    assert_eq!(fixture.protect(protection(ProtectCode::CannotFill)), NOTHING);
    let mut commit = fixture.new_commit();
    commit.unprotect(&fixture.cursor, false, NodeText::new("no command")).unwrap();
    assert_eq!(fixture.commit(commit), ["P7"]);
}

#[test]
fn p7_bind_after_foreign_transaction_is_found() {
    let mut fixture = CheckFixture::new(&wide());
    let mut tx = fixture.accept(1);
    fixture.bind(&mut tx, 1);
    fixture.mine(&[fixture.strangers(0)]);
    fixture.finalize();
    let mut next = fixture.accept(2);
    assert_eq!(fixture.bind(&mut next, 2).1, NOTHING, "the node may not know yet");
    fixture.pass(600);
    let mut next = fixture.accept(3);
    assert_eq!(fixture.bind(&mut next, 3).1, ["P7"]);
    assert_eq!(fixture.protect(protection(ProtectCode::ForeignTransaction)), NOTHING);
    let (command, result) = fixture.resync();
    let mut resync = fixture.new_commit();
    resync.unprotect(&fixture.cursor, true, NodeText::new("operator")).unwrap().command_done(&command, result);
    assert_eq!(fixture.commit(resync), NOTHING);
    let mut next = fixture.accept(4);
    assert_eq!(fixture.bind(&mut next, 4).1, NOTHING);
}

#[test]
fn p7_skipped_or_adopted_unused_nonce_is_found() {
    let mut fixture = CheckFixture::new(&wide());
    let cursor = fixture.cursor.clone();
    let mut jump = fixture.new_commit();
    jump.start_at(&cursor, Nonce::new(3).unwrap()).unwrap();
    assert_eq!(fixture.record(jump), ["P7"]);

    let mut fixture = CheckFixture::new(&wide());
    let adopt = |fixture: &CheckFixture| {
        let (command, result) = fixture.resync();
        let mut commit = fixture.new_commit();
        commit
            .adopt_foreign(&fixture.cursor, Nonce::ZERO, NodeText::new("seen"))
            .unwrap()
            .command_done(&command, result);
        commit
    };
    assert_eq!(fixture.record(adopt(&fixture)), ["P7"], "no transaction has used the nonce");

    let mut fixture = CheckFixture::new(&wide());
    fixture.mine(&[fixture.strangers(0)]);
    fixture.finalize();
    assert_eq!(fixture.commit(adopt(&fixture)), NOTHING);
    assert_eq!(fixture.end(), NOTHING);
}

#[test]
fn p7_bind_after_orphaned_final_block_is_found() {
    let mut fixture = CheckFixture::new(&wide());
    fixture.deliver(1);
    fixture.orphan();
    fixture.mine(&[]);
    fixture.mine(&[]);
    fixture.pass(600);
    let mut next = fixture.accept(2);
    assert_eq!(fixture.bind(&mut next, 2).1, ["P7"]);
    assert_eq!(fixture.end(), NOTHING, "the lane is excused");
}

#[test]
fn p8_change_from_wrong_version_is_found() {
    let mut fixture = CheckFixture::new(&strict());
    let mut tx = fixture.accept(1);
    tx.version = 3;
    let (commit, _) = fixture.bind_commit(&tx, 1);
    assert_eq!(fixture.record(commit), ["P8"]);
}

#[test]
fn p8_missing_event_is_found_at_the_end() {
    let mut fixture = CheckFixture::new(&strict());
    fixture.deliver(1);
    assert_eq!(fixture.protect(protection(ProtectCode::CannotFill)), NOTHING);
    let lanes = [fixture.lane.clone()];
    let whole = fixture.read();
    let scan = fixture.view.blocks.scan();
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
fn p9_settle_before_final_block_is_found() {
    let mut fixture = CheckFixture::new(&strict());
    let mut tx = fixture.accept(1);
    let (attempt, _) = fixture.bind(&mut tx, 1);
    fixture.mine(&[fixture.ours(&attempt)]);
    assert_eq!(fixture.change(&mut tx, Transition::Mine(fixture.inclusion(&attempt))), NOTHING);
    assert_eq!(fixture.change(&mut tx, Transition::Settle(None)), ["P9"]);
    assert_eq!(fixture.end(), ["P9"]);
}

#[test]
fn p9_settle_by_unknown_hash_or_block_is_found() {
    let mut fixture = CheckFixture::new(&strict());
    let mut tx = fixture.accept(1);
    let (attempt, _) = fixture.bind(&mut tx, 1);
    let elsewhere = fixture.inclusion(&attempt);
    let strange = gapless_domain::Inclusion { hash: B256::repeat_byte(9), ..elsewhere.clone() };
    let mut other = tx.clone();
    let mut commit = fixture.new_commit();
    commit.change(other.change(Transition::Mine(strange)).unwrap());
    follow(&mut other, &commit);
    assert_eq!(fixture.record(commit), ["P9"]);

    let mut fixture = CheckFixture::new(&strict());
    let mut tx = fixture.accept(1);
    fixture.bind(&mut tx, 1);
    assert_eq!(fixture.change(&mut tx, Transition::Mine(elsewhere)), NOTHING, "a fork that only one endpoint has");
    assert_eq!(fixture.change(&mut tx, Transition::Settle(None)), ["P9"]);
}

/// An intent in block 1 with block 2 on top; consumers were notified of both.
fn two_confirmations() -> (CheckFixture, IntentRecord) {
    let mut fixture = CheckFixture::new(&WorldSpec { confirmations: 3, odds: BTreeMap::new(), ..strict() });
    let mut tx = fixture.accept(1);
    let (attempt, _) = fixture.bind(&mut tx, 1);
    fixture.mine(&[fixture.ours(&attempt)]);
    assert_eq!(fixture.change(&mut tx, Transition::Mine(fixture.inclusion(&attempt))), NOTHING);
    fixture.mine(&[]);
    assert_eq!(fixture.change(&mut tx, Transition::Confirm(notice(false, fixture.links(2)))), NOTHING);
    (fixture, tx)
}

fn notice(new_fork: bool, links: Vec<BlockLink>) -> ConfirmationNotice {
    ConfirmationNotice { new_fork, links }
}

#[test]
fn r03_notices_that_skip_a_fork_or_block_are_found() {
    let fork = || {
        let (mut fixture, tx) = two_confirmations();
        fixture.orphan();
        fixture.mine(&[]);
        fixture.mine(&[]);
        (fixture, tx)
    };
    let (mut fixture, mut tx) = fork();
    let whole = notice(true, fixture.links(1));
    assert_eq!(fixture.change(&mut tx, Transition::Confirm(whole)), NOTHING);
    fixture.finalize();
    assert_eq!(fixture.change(&mut tx, Transition::Settle(None)), NOTHING);

    let (mut fixture, mut tx) = fork();
    let lost = notice(false, fixture.links(3));
    assert_eq!(
        fixture.change(&mut tx, Transition::Confirm(lost)),
        ["R03"],
        "the notice of a fork is not marked as a fork"
    );

    let (mut fixture, mut tx) = fork();
    let rest = notice(true, fixture.links(2));
    assert_eq!(
        fixture.change(&mut tx, Transition::Confirm(rest)),
        ["R03"],
        "the list does not begin with the block of the transaction"
    );

    let (mut fixture, mut tx) = two_confirmations();
    let mut unknown = fixture.links(2)[0];
    (unknown.block.number, unknown.parent_hash) = (3, unknown.block.hash);
    unknown.block.hash = B256::repeat_byte(0xee);
    assert_eq!(fixture.change(&mut tx, Transition::Confirm(notice(false, vec![unknown]))), ["R03"]);
}

#[test]
fn r03_ended_intent_with_missing_confirmations_is_found() {
    let (mut fixture, mut tx) = two_confirmations();
    fixture.finalize();
    assert_eq!(fixture.change(&mut tx, Transition::Settle(None)), ["R03"], "two confirmations of three");

    let (mut fixture, mut tx) = two_confirmations();
    fixture.mine(&[]);
    fixture.finalize();
    assert_eq!(fixture.change(&mut tx, Transition::Settle(Some(notice(false, fixture.links(3))))), NOTHING);

    let (mut fixture, mut tx) = two_confirmations();
    assert_eq!(fixture.change(&mut tx, Transition::Unmine), NOTHING);
    assert_eq!(fixture.change(&mut tx, Transition::WantCancel(CancelReason::User)), NOTHING);
}

/// A notice that was lost is written again, and continues the list that was kept.
#[test]
fn r03_notices_after_a_loss_continue_the_kept_list() {
    let (mut fixture, mut tx) = two_confirmations();
    let (snapshot, kept) = (fixture.snapshot(), tx.clone());
    fixture.mine(&[]);
    assert_eq!(fixture.change(&mut tx, Transition::Confirm(notice(false, fixture.links(3)))), NOTHING);
    assert_eq!(fixture.lose(snapshot), NOTHING);
    let mut again = fixture.new_commit();
    again.change(kept.change(Transition::Confirm(notice(false, fixture.links(3)))).unwrap());
    assert_eq!(fixture.record(again), NOTHING);
}

#[test]
fn n12_bind_beyond_the_window_is_found() {
    for (release, seen) in [(ReleaseRule::Mined, NOTHING), (ReleaseRule::Final, &["N12"])] {
        let mut fixture = CheckFixture::new(&WorldSpec { release, ..strict() });
        let (mut one, mut two, mut three) = (fixture.accept(1), fixture.accept(2), fixture.accept(3));
        let (attempt, failure) = fixture.bind(&mut one, 1);
        assert_eq!(failure, NOTHING);
        fixture.mine(&[fixture.ours(&attempt)]);
        assert_eq!(fixture.bind(&mut two, 2).1, seen);
        assert_eq!(fixture.bind(&mut three, 3).1, ["N12"]);
    }
}

#[test]
fn n11_intent_bound_behind_a_later_one_is_found() {
    let mut fixture = CheckFixture::new(&wide());
    let (mut one, mut two) = (fixture.accept(1), fixture.accept(2));
    assert_eq!(fixture.bind(&mut two, 2).1, NOTHING);
    assert_eq!(fixture.bind(&mut one, 1).1, ["N11"]);
}

#[test]
fn s19_simulation_failure_before_an_unmined_nonce_is_found() {
    let failed = || Transition::FailInQueue(FailReason::SimulationReverted, NodeText::new("too early"));
    let mut fixture = CheckFixture::new(&wide());
    let (mut one, mut two, mut three) = (fixture.accept(1), fixture.accept(2), fixture.accept(3));
    let (attempt, failure) = fixture.bind(&mut one, 1);
    assert_eq!(failure, NOTHING);
    assert_eq!(fixture.change(&mut two, failed()), ["S19"]);
    fixture.mine(&[fixture.ours(&attempt)]);
    assert_eq!(fixture.change(&mut three, failed()), NOTHING);
}

#[test]
fn protect_without_a_cause_is_found() {
    for (odds, found) in [(BTreeMap::new(), &["no false PROTECT"][..]), (strict().odds, NOTHING)] {
        let mut fixture = CheckFixture::new(&WorldSpec { odds, ..wide() });
        assert_eq!(fixture.protect(protection(ProtectCode::ForeignTransaction)), found);
    }
}

#[test]
fn n06_send_after_lost_lease_is_found() {
    for (has_jumps, late) in [(false, &["N06"][..]), (true, NOTHING)] {
        let mut fixture = CheckFixture::new(&wide());
        if has_jumps {
            let what = "a clock jumps".to_owned();
            assert_eq!(fixture.tell(Moment::Struck { fault: Fault::NodeClockJump, what }), NOTHING);
        }
        let mut tx = fixture.accept(1);
        let (attempt, _) = fixture.bind(&mut tx, 1);
        assert_eq!(fixture.send(&attempt), NOTHING);
        let lease = Lease::granted(fixture.lane.clone(), OwnerId::new("b", 2), FencingToken::new(2));
        assert_eq!(fixture.tell(Moment::Leased { lease: lease.clone() }), NOTHING);
        assert_eq!(fixture.send(&attempt), late);
        fixture.lease = lease;
        assert_eq!(fixture.send(&attempt), NOTHING);
    }
}

#[test]
fn funds_bind_beyond_the_balance_is_found() {
    let mut fixture = CheckFixture::new(&wide());
    let cost = fixture.plan(0, 1).worst_cost(crate::chain::rules());
    let lane = fixture.lane.clone();
    fixture.view.record_balance(&lane, cost.checked_mul(2).unwrap());
    let (mut one, mut two, mut three) = (fixture.accept(1), fixture.accept(2), fixture.accept(3));
    assert_eq!(fixture.bind(&mut one, 1).1, NOTHING);
    fixture.view.record_balance(&lane, Amount::from(1_u64));
    assert_eq!(fixture.bind(&mut two, 2).1, NOTHING, "the loss may not be known yet");
    assert_eq!(fixture.bind(&mut three, 3).1, ["funds"]);
    fixture.pass(1000);
    let mut four = fixture.accept(4);
    fixture.view.record_balance(&lane, Amount::from(1_u64));
    assert_eq!(fixture.view.highest_balance(&lane), Some(Amount::from(1_u64)));
    assert_eq!(fixture.bind(&mut four, 4).1, ["funds"]);
}

#[test]
fn liveness_open_intent_or_protect_is_found_at_the_end() {
    let mut fixture = CheckFixture::new(&strict());
    let mut tx = fixture.accept(1);
    assert_eq!(fixture.end(), ["liveness"]);
    assert_eq!(fixture.change(&mut tx, Transition::CancelInQueue(CancelReason::User)), NOTHING);
    assert!(matches!(tx.state, TxState::Canceled(Cancellation::InQueue(_))));
    assert_eq!(fixture.end(), NOTHING);
    assert_eq!(fixture.protect(protection(ProtectCode::CannotFill)), NOTHING);
    assert_eq!(fixture.end(), ["liveness"]);
}

/// An end state that was filled by hand is checked by the same rules.
#[test]
fn end_state_with_empty_chain_violates_p2_and_p9() {
    let mut fixture = CheckFixture::new(&strict());
    fixture.deliver(1);
    let end = fixture.read();
    let names: Vec<&str> = check_end_state(&end, &Scan::default()).iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["P2", "P9"]);
    assert!(fixture.now == Duration::ZERO && fixture.index() > 0);
}

impl CheckFixture {
    fn read(&self) -> EndState {
        let reading = read_end_state(self.store(), std::slice::from_ref(&self.lane), self.view.demanded(), Vec::new());
        crate::store::wait_for(reading).unwrap()
    }
}
