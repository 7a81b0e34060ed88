//! A store that lost commits: every lane takes notice before it writes anything else.

use std::slice::from_ref;

use gapless_domain::{
    CommandKind, CommandReport, CommandResult, CommandStatus, FailReason, LaneEventKind, LaneState, LostRule,
    NewCommand, ProtectCode, Protection, SubmitterId, Transition,
};

use super::Harness;
use super::fixtures::*;
use super::trace::trace;
use crate::contract::NewSubmitter;
use crate::verdict::{Accepted, CancelVerdict, CommitVerdict};

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

/// Everything that is no acknowledgement is refused, and leaves no trace.
async fn assert_stopped(node: &Node, lane: &SubmitterId) {
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

pub(super) async fn a_regressed_lane_writes_nothing_until_it_takes_notice(h: &dyn Harness) {
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
        assert_stopped(&a, lane).await;
    }
    acknowledge(&a, &lanes[0]).await;
    let seen = view(&a, &lanes[0]).await;
    assert!(!seen.lane.regressed);
    assert_eq!(seen.cursor.state, LaneState::Protect(regressed()));
    // Others have not taken notice by that.
    assert_stopped(&a, &lanes[1]).await;
    let id = seen.lane.bound[0].id;
    change(&a, &lanes[0], id, Transition::Acknowledge).await;
    commit_done(&a, &lanes[0], |commit| {
        commit.unprotect(&seen.cursor, true, text("reconciled")).unwrap();
    })
    .await;
    assert_eq!(bind_next(&a, &lanes[0]).await.state.nonce(), Some(nonce(1)));
}

/// Its first cursor may be among what was lost: what looks like nonce 0 may be long gone.
pub(super) async fn a_lane_without_a_cursor_takes_notice_too(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    accept(&a, &lane, &["0"]).await;
    assert!(!view(&a, &lane).await.lane.regressed);
    declare_lost(&b, "restored").await;
    // A node that starts again registers what it knows already, perhaps by a new name.
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

/// A restored database may have forgotten a submitter that had paid already; its name comes back with the next start.
pub(super) async fn a_submitter_registered_after_the_loss_takes_notice_until_all_is_reconciled(h: &dyn Harness) {
    let a = h.node("a").await;
    let (early, late, nobody) = (submitter(1), submitter(2), submitter(3));
    declare_lost(&a, "restored").await;
    register(&a, from_ref(&early)).await;
    assert!(view(&a, &early).await.lane.regressed);
    declare_reconciled(&a, "an operator has looked").await;
    register(&a, &[early.clone(), late.clone()]).await;
    assert!(view(&a, &early).await.lane.regressed, "it still has to take notice itself");
    for lane in [&late, &nobody] {
        assert!(!view(&a, lane).await.lane.regressed);
        commit_done(&a, lane, |_| {}).await;
    }
    accept(&a, &late, &["0"]).await;
    assert_eq!(bind_next(&a, &late).await.state.nonce(), Some(nonce(0)));
    declare_lost(&a, "once more").await;
    assert!(view(&a, &late).await.lane.regressed);
    assert!(!view(&a, &nobody).await.lane.regressed, "nobody has registered it");
}

/// What was lost may be the very key that would say "paid already".
pub(super) async fn a_regressed_lane_takes_nothing_new(h: &dyn Harness) {
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

/// What looks queued may have been sent by a commit that was lost.
pub(super) async fn nothing_ends_before_the_lane_is_reconciled(h: &dyn Harness) {
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
                let other = Protection { code: ProtectCode::ReservationRequest, detail: text("the chain is ahead") };
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

/// Being in PROTECT for the first loss says nothing of the second.
pub(super) async fn a_second_loss_is_noticed_in_protect_too(h: &dyn Harness) {
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

/// A `resync` that was done may come back as open with the commits that are lost, and it was never meant for this loss.
pub(super) async fn what_an_operator_decided_before_a_loss_is_refused(h: &dyn Harness) {
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
    // What is decided now is about this loss.
    let again = b.put_commands(&[put(&one, resync)]).await.unwrap();
    assert_eq!(a.commands(&again).await.unwrap(), [Some(CommandStatus::Open)]);
}

pub(super) async fn every_declared_regression_is_noticed_anew(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    bound(&a, &lane, "0").await;
    accept(&a, &lane, &["1"]).await;
    for _ in 0..2 {
        declare_lost(&a, "again").await;
        assert_stopped(&a, &lane).await;
        acknowledge(&a, &lane).await;
        let cursor = view(&a, &lane).await.cursor;
        commit_done(&a, &lane, |commit| {
            commit.unprotect(&cursor, true, text("reconciled")).unwrap();
        })
        .await;
    }
    assert_eq!(bind_next(&a, &lane).await.state.nonce(), Some(nonce(1)));
}
