//! The history of sends, and the claims of the next resend.

use std::time::Duration;

use gapless_domain::{Attempt, Claim, EndpointAnswer, MempoolSignal, NewAttempt, SendOutcome, SendRecord, SendReport};

use super::Harness;
use super::fixtures::*;

const TICK: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(3600);

/// The n-th send of an attempt.
fn send(made: &NewAttempt, n: usize) -> SendReport {
    let outcome = SendOutcome::ALL[n % SendOutcome::ALL.len()];
    let answer = |node: usize| EndpointAnswer {
        endpoint: text(&format!("node-{node}")),
        outcome: SendOutcome::ALL[(n + node) % SendOutcome::ALL.len()],
        text: text(&format!("\"{n}\" \\ é")),
    };
    SendReport { answers: (0..n % 3).map(answer).collect(), ..report(made, outcome, &format!("send {n}")) }
}

/// Asserts that the history has exactly these sends. All reports of one commit have the same time.
fn assert_history(attempt: &Attempt, sends: &[SendReport]) {
    let expected: Vec<_> = sends
        .iter()
        .zip(&attempt.history)
        .map(|(SendReport { outcome, text, answers, .. }, found)| SendRecord {
            at: found.at,
            outcome: *outcome,
            text: text.clone(),
            answers: answers.clone(),
        })
        .collect();
    assert_eq!((&attempt.history, attempt.history.len()), (&expected, sends.len()));
    assert!(attempt.history.is_sorted_by_key(|send| send.at));
    assert_eq!(attempt.history.last().map(|send| send.at), attempt.last_sent_at);
}

pub(super) async fn send_history_is_shown_in_order_and_not_loaded(h: &dyn Harness) {
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

    // A loaded lane has the attempts without their history.
    let bare: Vec<_> = kept.iter().map(|attempt| Attempt { history: Vec::new(), ..attempt.clone() }).collect();
    assert_eq!(view(&a, &lane).await.lane.attempts, bare);

    confirm(&a, &lane, id).await;
    h.pass(TICK).await;
    assert_eq!(move_out(&a, 9).await, 1);
    assert_eq!(b.attempts(id).await.unwrap(), kept);
    assert_eq!(b.open_slots(&lane, None, 9).await.unwrap()[0].attempts, kept);
}

pub(super) async fn send_history_keeps_newest_sends(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let id = bound(&a, &lane, "r").await.id;
    let made = attempt(nonce(0), 0, "bind");
    let mut sends: Vec<SendReport> = Vec::new();
    // Counts below the limit, at the limit, one above, several above, and more than the limit in one commit.
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
        assert_eq!(kept.sends as usize, sends.len(), "all sends are counted");
    }
}

pub(super) async fn claim_stores_tries_and_signal(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    bound(&a, &lane, "0").await;
    bound(&a, &lane, "1").await;
    let claim = |tries, signal| Claim { nonce: nonce(1), pause: LONG, tries, signal };
    let found = async || {
        let slots: Vec<_> = view(&a, &lane).await.lane.slots;
        let shown: Vec<_> = b.open_slots(&lane, None, 9).await.unwrap().into_iter().map(|status| status.slot).collect();
        assert_eq!(slots, shown);
        assert_eq!(
            (slots[0].tries, slots[0].signal, slots[0].next_resubmit_at),
            (0, None, None),
            "the other nonce is unchanged"
        );
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
    // Several claims of one commit apply one after the other.
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
