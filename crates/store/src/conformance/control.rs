//! What raising, replacing and judging leave behind: other payloads, the history of sends, claims.

use std::slice::from_ref;
use std::time::Duration;

use gapless_domain::{
    Attempt, CancelReason, Claim, EndpointAnswer, EventKind, Goal, MempoolSignal, NewAttempt, SendOutcome, SendRecord,
    SendReport, Transition, TransitionName, TxState,
};

use super::Harness;
use super::fixtures::*;
use super::trace::{history, trace};
use crate::contract::{NewIntent, TxFilter};
use crate::verdict::{Accepted, CancelVerdict};

const TICK: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(3600);

fn replace(wei: u64) -> Transition {
    Transition::WantReplace(transfer(wei))
}

pub(super) async fn a_replacement_in_the_queue_keeps_the_place_in_line(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let ids = accept(&a, &lane, &["0", "1", "2"]).await;
    let before = record(&a, ids[1]).await;
    assert_eq!((&before.replacement, before.payload()), (&None, &transfer(1)));
    for (wei, version) in [(7, 2), (8, 3)] {
        let tx = change(&a, &lane, ids[1], replace(wei)).await;
        assert_eq!((&tx.state, tx.version, tx.seq), (&TxState::Queued, version, before.seq));
        assert_eq!((&tx.replacement, &tx.intent), (&Some(transfer(wei)), &before.intent));
        let queue = b.peek_queues(&[(lane.clone(), 9)], &[]).await.unwrap().remove(0);
        assert_eq!(queue.iter().map(|tx| tx.id).collect::<Vec<_>>(), ids);
        assert_eq!(queue[1], tx);
        let listed =
            b.list(&TxFilter { submitter: Some(lane.clone()), limit: 9, ..TxFilter::default() }).await.unwrap();
        assert_eq!((&listed[1], listed.len()), (&tx, 3));
    }
    let seen = trace(&a, &lane).await;
    let told = (3, EventKind::Tx(TransitionName::WantReplace), TxState::Queued);
    assert_eq!(history(&seen.events, ids[1])[2..], [told]);
    assert_eq!(seen.queue.iter().map(|tx| tx.replacement.is_some()).collect::<Vec<_>>(), [false, true, false]);

    // What comes after leaves it: a bind, a loss, another bind.
    bind_next(&a, &lane).await;
    let tx = bind_next(&a, &lane).await;
    assert_eq!((tx.id, tx.state.nonce(), &tx.replacement), (ids[1], Some(nonce(1)), &Some(transfer(8))));
    let lost = change(&a, &lane, ids[1], Transition::LoseNonce).await;
    assert_eq!((&lost.state, lost.seq, lost.payload()), (&TxState::Queued, before.seq, &transfer(8)));
    let tx = bind_next(&a, &lane).await;
    assert_eq!((tx.id, tx.state.nonce(), tx.payload()), (ids[1], Some(nonce(2)), &transfer(8)));

    // Whoever may cancel in line may do so after a replacement too.
    change(&a, &lane, ids[2], replace(9)).await;
    assert_eq!(b.cancel_queued(&[ids[2]]).await.unwrap(), [CancelVerdict::Canceled]);
    assert_eq!(record(&b, ids[2]).await.replacement, Some(transfer(9)));
}

pub(super) async fn a_replacement_of_what_is_bound_keeps_the_nonce(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let before = bound(&a, &lane, "r").await;
    let slots = view(&a, &lane).await.lane.slots;
    let tx = change(&a, &lane, before.id, replace(7)).await;
    assert_eq!((tx.state.nonce(), tx.seq, tx.version), (before.state.nonce(), before.seq, before.version + 1));
    assert_eq!(tx.state.bound().unwrap().goal, Goal::Replace);
    assert_eq!((&tx.replacement, &tx.intent), (&Some(transfer(7)), &before.intent));

    let lease = acquire(&a, &lane).await;
    a.release(&[lease]).await.unwrap();
    let seen = view(&b, &lane).await;
    assert_eq!((&seen.lane.slots, &seen.lane.bound[..]), (&slots, from_ref(&tx)));
    assert!(seen.queue.is_empty());
    assert_eq!(b.open_slots(&lane, None, 9).await.unwrap()[0].tx.as_ref(), Some(&tx));

    change(&b, &lane, tx.id, Transition::Acknowledge).await;
    let ended = confirm(&b, &lane, tx.id).await;
    assert_eq!(ended.replacement, Some(transfer(7)));
    h.pass(TICK).await;
    assert_eq!(move_out(&b, 9).await, 1);
    assert_eq!(record(&a, tx.id).await, ended);
    assert_eq!(a.open_slots(&lane, None, 9).await.unwrap()[0].tx, Some(ended));
}

/// Each is told, and the row is what the last of them left.
pub(super) async fn replacements_of_one_commit_leave_the_last(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let mut tx = bound(&a, &lane, "r").await;
    let mut changes = Vec::new();
    for transition in [replace(7), replace(8), Transition::Acknowledge, Transition::WantCancel(CancelReason::User)] {
        let change = tx.change(transition).unwrap();
        tx.apply(&change, tx.updated_at);
        changes.push(change);
    }
    commit_done(&a, &lane, |commit| {
        for change in &changes {
            commit.change(change.clone());
        }
    })
    .await;
    let found = record(&a, tx.id).await;
    assert_eq!((&found.state, found.version, &found.replacement), (&tx.state, 6, &Some(transfer(8))));
    assert_eq!(view(&a, &lane).await.lane.bound, [found]);
    let events = events(&a).await;
    let kinds = history(&events, tx.id).into_iter().skip(2).map(|(_, kind, _)| kind).collect::<Vec<_>>();
    assert_eq!(kinds, changes.iter().map(|change| change.event()).collect::<Vec<_>>());
}

/// In line, bound, and moved out: whoever repeats the first call gets the first answer, and the replacement is not what was asked
/// under that id.
///
/// proves S11
pub(super) async fn a_request_stands_for_its_first_payload(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let id = accept(&a, &lane, &["r"]).await[0];
    let again = async || {
        let replaced = NewIntent { id: fresh_id(), intent: intent_with(&lane, "r", transfer(7)) };
        b.accept(&[new_intent(&lane, "r"), replaced]).await.unwrap()
    };
    let expected = [Accepted::Existing(id), Accepted::Conflict(id)];
    change(&a, &lane, id, replace(7)).await;
    assert_eq!(again().await, expected);
    bind_next(&a, &lane).await;
    assert_eq!(again().await, expected);
    confirm(&a, &lane, id).await;
    h.pass(TICK).await;
    assert_eq!(move_out(&a, 9).await, 1);
    assert_eq!(again().await, expected);
}

/// The n-th send of an attempt.
fn send(made: &NewAttempt, n: usize) -> SendReport {
    let outcome = SendOutcome::ALL[n % SendOutcome::ALL.len()];
    let heard = |node: usize| EndpointAnswer {
        endpoint: text(&format!("node-{node}")),
        outcome: SendOutcome::ALL[(n + node) % SendOutcome::ALL.len()],
        text: text(&format!("\"{n}\" \\ é")),
    };
    SendReport { heard: (0..n % 3).map(heard).collect(), ..report(made, outcome, &format!("send {n}")) }
}

/// Is the history that of these sends? All that one commit reports is of one time.
fn assert_history(attempt: &Attempt, sends: &[SendReport]) {
    let expected: Vec<_> = sends
        .iter()
        .zip(&attempt.history)
        .map(|(SendReport { outcome, text, heard, .. }, found)| SendRecord {
            at: found.at,
            outcome: *outcome,
            text: text.clone(),
            heard: heard.clone(),
        })
        .collect();
    assert_eq!((&attempt.history, attempt.history.len()), (&expected, sends.len()));
    assert!(attempt.history.is_sorted_by_key(|send| send.at));
    assert_eq!(attempt.history.last().map(|send| send.at), attempt.last_sent_at);
}

pub(super) async fn sends_are_kept_in_order_for_people_only(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let id = bound(&a, &lane, "r").await.id;
    let (first, second) = (attempt(nonce(0), 0, "bind"), attempt(nonce(0), 1, "bump"));
    commit_done(&a, &lane, |commit| {
        commit.attempt(second.clone()).report(send(&first, 2)).report(send(&first, 1));
    })
    .await;
    h.pass(TICK).await;
    commit_done(&a, &lane, |commit| {
        commit.report(send(&second, 5)).report(send(&first, 0)).report(send(&second, 3));
    })
    .await;
    let kept = b.attempts(id).await.unwrap();
    assert_history(&kept[0], &[send(&first, 2), send(&first, 1), send(&first, 0)]);
    assert_history(&kept[1], &[send(&second, 5), send(&second, 3)]);
    assert_eq!((kept[0].sends, kept[0].history[0].at), (3, kept[0].history[1].at));
    assert!(kept[0].history[2].at > kept[0].history[1].at);
    assert_eq!(b.open_slots(&lane, None, 9).await.unwrap()[0].attempts, kept);

    // A lane is loaded without it, and with all the rest.
    let bare: Vec<_> = kept.iter().map(|attempt| Attempt { history: Vec::new(), ..attempt.clone() }).collect();
    assert_eq!(view(&a, &lane).await.lane.attempts, bare);

    confirm(&a, &lane, id).await;
    h.pass(TICK).await;
    assert_eq!(move_out(&a, 9).await, 1);
    assert_eq!(b.attempts(id).await.unwrap(), kept);
    assert_eq!(b.open_slots(&lane, None, 9).await.unwrap()[0].attempts, kept);
}

pub(super) async fn the_newest_sends_are_kept(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let id = bound(&a, &lane, "r").await.id;
    let made = attempt(nonce(0), 0, "bind");
    let mut sends: Vec<SendReport> = Vec::new();
    // One below the limit, up to it, past it, several past it, and more than it in one commit.
    for count in [Attempt::HISTORY - 1, 1, 1, 7, 2 * Attempt::HISTORY + 1] {
        let new: Vec<_> = (sends.len()..sends.len() + count).map(|n| send(&made, n)).collect();
        commit_done(&a, &lane, |commit| {
            for report in &new {
                commit.report(report.clone());
            }
        })
        .await;
        sends.extend(new);
        let kept = a.attempts(id).await.unwrap().remove(0);
        assert_history(&kept, &sends[sends.len().saturating_sub(Attempt::HISTORY)..]);
        assert_eq!(kept.sends as usize, sends.len(), "all of them are counted");
    }
}

pub(super) async fn claims_keep_tries_and_signal(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    bound(&a, &lane, "0").await;
    bound(&a, &lane, "1").await;
    let claim = |tries, signal| Claim { nonce: nonce(1), pause: LONG, tries, signal };
    let found = async || {
        let slots: Vec<_> = view(&a, &lane).await.lane.slots;
        let shown: Vec<_> = b.open_slots(&lane, None, 9).await.unwrap().into_iter().map(|status| status.slot).collect();
        assert_eq!(slots, shown);
        assert_eq!((slots[0].tries, slots[0].signal, slots[0].next_resubmit_at), (0, None, None), "of another nonce");
        (slots[1].tries, slots[1].signal)
    };
    assert_eq!(found().await, (0, None));
    let mut signal = None;
    let mut steps = vec![(1, None)];
    steps.extend(MempoolSignal::ALL.iter().map(|signal| (2, Some(*signal))));
    steps.extend([(u16::MAX, None), (3, Some(MempoolSignal::InMempool)), (0, None)]);
    for (tries, new) in steps {
        commit_done(&a, &lane, |commit| {
            commit.claim_resubmit(claim(tries, new));
        })
        .await;
        signal = new.or(signal);
        assert_eq!(found().await, (tries, signal));
    }
    // Of several in one commit as if they had come one after the other.
    commit_done(&a, &lane, |commit| {
        commit.claim_resubmit(claim(8, Some(MempoolSignal::LikelyDropped))).claim_resubmit(claim(7, None));
    })
    .await;
    assert_eq!(found().await, (7, Some(MempoolSignal::LikelyDropped)));
    assert!(view(&a, &lane).await.lane.slots[1].next_resubmit_at.is_some());

    let lease = acquire(&a, &lane).await;
    a.release(&[lease]).await.unwrap();
    let slots = view(&b, &lane).await.lane.slots;
    assert_eq!((slots[1].tries, slots[1].signal), (7, Some(MempoolSignal::LikelyDropped)));
}
