//! A store that lost commits: every lane must acknowledge the loss before it writes anything else.

use std::slice::from_ref;

use gapless_domain::{
    CommandKind, CommandReport, CommandResult, CommandStatus, FailReason, LaneEventKind, LaneState, LostRule,
    NewCommand, ProtectCode, Protection, SubmitterId, Transition,
};

use super::Harness;
use super::fixtures::*;
use super::trace::trace;
use crate::roles::{Accepted, CancelVerdict, CommitVerdict, NewSubmitter};

fn regressed() -> Protection {
    Protection { code: ProtectCode::StoreRegressed, detail: text("restored from a backup") }
}

async fn acknowledge(node: &Node, lane: &SubmitterId) {
    let cursor = view(node, lane).await.cursor;
    commit_done(node, lane, |commit| {
        commit.protect(&cursor, regressed()).unwrap();
    })
    .await;
}

/// Asserts that every commit except the acknowledgement is refused and changes nothing.
async fn assert_regressed(node: &Node, lane: &SubmitterId) {
    let before = trace(node, lane).await;
    assert!(before.lane.regressed);
    let seen = view(node, lane).await;
    let holder = seen.lane.bound[0].clone();
    let other = Protection { code: ProtectCode::CannotFill, detail: text("something else") };
    for kind in 0..8 {
        let verdict = commit(node, lane, |commit| match kind {
            7 => {
                commit.protect(&seen.cursor, regressed()).unwrap();
                commit.audit(audit("test", "beside it"));
            }
            6 => drop(commit.audit(audit("test", "alone"))),
            5 => {
                commit.protect(&seen.cursor, regressed()).unwrap();
                commit.change(holder.change(Transition::AwaitFunds).unwrap());
            }
            0 => drop(commit.bind(&seen.cursor, &seen.queue[0], seen.next_attempt()).unwrap()),
            1 => drop(commit.change(holder.change(Transition::AwaitFunds).unwrap())),
            2 => drop(commit.protect(&seen.cursor, other.clone()).unwrap()),
            3 => drop(commit.lane_event(&seen.cursor, LaneEventKind::LowBalance, text("")).unwrap()),
            _ => {}
        })
        .await;
        assert_eq!(verdict, CommitVerdict::Regressed, "commit {kind}");
    }
    assert_eq!(trace(node, lane).await, before);
}

pub(super) async fn regressed_lane_rejects_commits_until_acknowledged(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lanes = submitters(1..3);
    register(&a, &lanes).await;
    for lane in &lanes {
        bound(&a, lane, "0").await;
        accept(&a, lane, &["1"]).await;
        assert!(!view(&a, lane).await.lane.regressed);
    }
    declare_lost(&b, "an operator restored a backup").await;
    for lane in &lanes {
        assert_regressed(&a, lane).await;
    }
    acknowledge(&a, &lanes[0]).await;
    let seen = view(&a, &lanes[0]).await;
    assert!(!seen.lane.regressed);
    assert_eq!(seen.cursor.state, LaneState::Protect(regressed()));
    // The acknowledgement of one lane does not count for another.
    assert_regressed(&a, &lanes[1]).await;
    let id = seen.lane.bound[0].id;
    change(&a, &lanes[0], id, Transition::Acknowledge).await;
    commit_done(&a, &lanes[0], |commit| {
        commit.unprotect(&seen.cursor, true, text("reconciled")).unwrap();
    })
    .await;
    assert_eq!(bind_next(&a, &lanes[0]).await.state.nonce(), Some(nonce(1)));
}

/// The first cursor of the lane may be lost. Nonce 0 may be consumed although the lane looks new.
pub(super) async fn lane_without_cursor_must_acknowledge_loss(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    accept(&a, &lane, &["0"]).await;
    assert!(!view(&a, &lane).await.lane.regressed);
    declare_lost(&b, "restored").await;
    // A restarted node registers its submitters again, perhaps with a new alias.
    register(&b, from_ref(&lane)).await;
    let renamed = NewSubmitter { id: lane.clone(), alias: Some("renamed".to_owned()) };
    b.register_submitters(&[renamed]).await.unwrap();
    let before = trace(&a, &lane).await;
    assert!(before.lane.regressed);
    let seen = view(&a, &lane).await;
    let bind = commit(&a, &lane, |commit| {
        commit.bind(&seen.cursor, &seen.queue[0], seen.next_attempt()).unwrap();
    })
    .await;
    let nothing = commit(&a, &lane, |_| {}).await;
    assert_eq!((bind, nothing), (CommitVerdict::Regressed, CommitVerdict::Regressed));
    assert_eq!(trace(&a, &lane).await, before);

    acknowledge(&a, &lane).await;
    let seen = view(&a, &lane).await;
    assert!(!seen.lane.regressed);
    assert_eq!((&seen.cursor.state, seen.cursor.version), (&LaneState::Protect(regressed()), 1));
    commit_done(&a, &lane, |commit| {
        commit.unprotect(&seen.cursor, false, text("reconciled")).unwrap();
    })
    .await;
    assert_eq!(bind_next(&a, &lane).await.state.nonce(), Some(nonce(0)));
}

/// A restored database may have lost a submitter that has sent transactions. The next start registers it again.
pub(super) async fn submitter_registered_after_loss_must_acknowledge_it(h: &dyn Harness) {
    let a = h.node("a").await;
    let (early, late, unregistered) = (submitter(1), submitter(2), submitter(3));
    declare_lost(&a, "restored").await;
    register(&a, from_ref(&early)).await;
    assert!(view(&a, &early).await.lane.regressed);
    declare_reconciled(&a, "an operator has checked").await;
    register(&a, &[early.clone(), late.clone()]).await;
    assert!(view(&a, &early).await.lane.regressed, "the lane has to acknowledge the loss itself");
    for lane in [&late, &unregistered] {
        assert!(!view(&a, lane).await.lane.regressed);
        commit_done(&a, lane, |_| {}).await;
    }
    accept(&a, &late, &["0"]).await;
    assert_eq!(bind_next(&a, &late).await.state.nonce(), Some(nonce(0)));
    declare_lost(&a, "once more").await;
    assert!(view(&a, &late).await.lane.regressed);
    assert!(!view(&a, &unregistered).await.lane.regressed, "the submitter is not registered");
}

/// The request id of a new intent may be among the lost rows, so the intent may have been paid already.
pub(super) async fn regressed_lane_accepts_no_new_intent(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let known = accept(&a, &lane, &["known"]).await[0];
    declare_lost(&a, "restored").await;
    let verdicts = a.accept(&[new_intent(&lane, "known"), new_intent(&lane, "new")]).await.unwrap();
    assert_eq!(verdicts[0], Accepted::Existing(known));
    let Accepted::Protected(protection) = &verdicts[1] else { panic!("{verdicts:?}") };
    assert_eq!(protection.code, ProtectCode::StoreRegressed);
    acknowledge(&a, &lane).await;
    let again = a.accept(&[new_intent(&lane, "new")]).await.unwrap();
    assert_eq!(again, [Accepted::Protected(regressed())]);
}

/// An intent that is QUEUED in the restored database may have been sent before the loss.
pub(super) async fn no_intent_ends_before_lane_is_reconciled(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    bound(&a, &lane, "0").await;
    let id = accept(&a, &lane, &["1"]).await[0];
    let fail = Transition::FailInQueue(FailReason::Expired, text("late"));
    declare_lost(&a, "restored").await;
    for reconciled in [false, false, true] {
        let queued = record(&a, id).await;
        let verdict = commit(&a, &lane, |commit| {
            commit.change(queued.change(fail.clone()).unwrap());
        })
        .await;
        if reconciled {
            assert_eq!(verdict, CommitVerdict::Done);
            break;
        }
        assert_eq!(verdict, CommitVerdict::Regressed);
        assert_eq!(a.cancel_queued(&[id]).await.unwrap(), [CancelVerdict::Regressed]);
        assert_eq!(record(&a, id).await, queued);
        let seen = view(&a, &lane).await;
        match seen.lane.regressed {
            true => {
                acknowledge(&a, &lane).await;
                let cursor = view(&a, &lane).await.cursor;
                let other = Protection { code: ProtectCode::ExternalNonce, detail: text("the chain is ahead") };
                commit_done(&a, &lane, |commit| {
                    commit.protect(&cursor, other.clone()).unwrap();
                })
                .await;
            }
            false => {
                commit_done(&a, &lane, |commit| {
                    commit.unprotect(&seen.cursor, true, text("reconciled")).unwrap();
                })
                .await;
            }
        }
    }
}

/// PROTECT because of the first loss does not acknowledge the second one.
pub(super) async fn second_loss_in_protect_must_be_acknowledged(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    bound(&a, &lane, "0").await;
    declare_lost(&a, "first").await;
    acknowledge(&a, &lane).await;
    declare_lost(&a, "second").await;
    let cursor = view(&a, &lane).await.cursor;
    let verdict = commit(&a, &lane, |commit| {
        commit.observe_counts(&cursor, cursor.chain_nonce, cursor.final_nonce).unwrap();
    })
    .await;
    assert_eq!(verdict, CommitVerdict::Regressed);
    assert!(view(&a, &lane).await.lane.regressed);
    acknowledge(&a, &lane).await;
    assert!(!view(&a, &lane).await.lane.regressed);
}

/// An executed `resync` may be open again after the loss. The operator did not decide it for this loss.
pub(super) async fn operator_decision_from_before_loss_is_refused(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (one, two) = (lane(&a, 1).await, lane(&a, 2).await);
    let put = |lane: &SubmitterId, kind| NewCommand { submitter: lane.clone(), kind, issued_by: text("operator") };
    let resync = CommandKind::Resync { lost: LostRule::Requeue, dry_run: false };
    let decisions = [put(&one, resync.clone()), put(&two, CommandKind::Unprotect)];
    let others = [put(&one, CommandKind::Pause), put(&two, CommandKind::Cancel { tx_id: fresh_id() })];
    let decided = a.put_commands(&decisions).await.unwrap();
    let wanted = a.put_commands(&others).await.unwrap();
    commit_done(&a, &two, |_| {}).await;

    declare_lost(&b, "restored").await;
    let overtaken = CommandStatus::Over(CommandResult::Refused(CommandReport::new(CommandKind::OVERTAKEN)));
    assert_eq!(a.commands(&decided).await.unwrap(), [Some(overtaken.clone()), Some(overtaken)]);
    assert_eq!(a.commands(&wanted).await.unwrap(), [Some(CommandStatus::Open), Some(CommandStatus::Open)]);
    for (lane, kept) in [(&one, wanted[0]), (&two, wanted[1])] {
        let open = view(&a, lane).await.lane.commands;
        assert_eq!(open.iter().map(|command| command.id).collect::<Vec<_>>(), [kept]);
    }
    // A decision after the loss is open.
    let again = b.put_commands(&[put(&one, resync)]).await.unwrap();
    assert_eq!(a.commands(&again).await.unwrap(), [Some(CommandStatus::Open)]);
}

pub(super) async fn each_declared_loss_must_be_acknowledged(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    bound(&a, &lane, "0").await;
    accept(&a, &lane, &["1"]).await;
    for _ in 0..2 {
        declare_lost(&a, "again").await;
        assert_regressed(&a, &lane).await;
        acknowledge(&a, &lane).await;
        let cursor = view(&a, &lane).await.cursor;
        commit_done(&a, &lane, |commit| {
            commit.unprotect(&cursor, true, text("reconciled")).unwrap();
        })
        .await;
    }
    assert_eq!(bind_next(&a, &lane).await.state.nonce(), Some(nonce(1)));
}
