//! Reads, and the list of submitters.

use gapless_domain::{StateName, SubmitterId, Transition};

use super::Harness;
use super::fixtures::*;
use crate::error::StoreError;
use crate::roles::{Accepted, NewSubmitter, TxFilter};

pub(super) async fn unknown_id_is_none_at_its_position(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let ids = accept(&a, &lane, &["0", "1"]).await;
    let found = a.get(&[ids[1], fresh_id(), ids[0], ids[1]]).await.unwrap();
    let found: Vec<_> = found.iter().map(|tx| tx.as_ref().map(|tx| tx.id)).collect();
    assert_eq!(found, [Some(ids[1]), None, Some(ids[0]), Some(ids[1])]);
    assert_eq!(a.get(&[]).await.unwrap(), []);
    assert_eq!(a.attempts(fresh_id()).await.unwrap(), []);
    assert_eq!(a.attempts(ids[0]).await.unwrap(), []);
}

pub(super) async fn list_pages_newest_first(h: &dyn Harness) {
    let a = h.node("a").await;
    let (one, two) = (lane(&a, 1).await, lane(&a, 2).await);
    let mut ids = Vec::new();
    for request in ["0", "1", "2", "3"] {
        ids.extend(accept(&a, &one, &[request]).await);
        ids.extend(accept(&a, &two, &[request]).await);
    }
    ids.reverse();
    let mut found = Vec::new();
    let mut filter = TxFilter { limit: 3, ..TxFilter::default() };
    loop {
        let page = a.list(&filter).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        filter.before_seq = Some(last.seq);
        found.extend(page.iter().map(|tx| tx.id));
        assert!(found.len() <= ids.len(), "an intent was listed twice");
    }
    assert_eq!(found, ids);
}

pub(super) async fn list_filters_by_submitter_and_state(h: &dyn Harness) {
    let a = h.node("a").await;
    let (one, two) = (lane(&a, 1).await, lane(&a, 2).await);
    let tracked = bound(&a, &one, "tracked").await.id;
    change(&a, &one, tracked, Transition::Acknowledge).await;
    let queued = accept(&a, &one, &["q0", "q1"]).await;
    let other = accept(&a, &two, &["q"]).await;
    let list = async |submitter, state, before_seq, limit| {
        let filter = TxFilter { submitter, state, before_seq, limit };
        a.list(&filter).await.unwrap().iter().map(|tx| tx.id).collect::<Vec<_>>()
    };
    let queue = Some(StateName::Queued);
    assert_eq!(list(Some(one.clone()), None, None, 9).await, [queued[1], queued[0], tracked]);
    assert_eq!(list(Some(one.clone()), queue, None, 9).await, [queued[1], queued[0]]);
    assert_eq!(list(None, queue, None, 2).await, [other[0], queued[1]]);
    assert_eq!(list(None, Some(StateName::Tracking), None, 9).await, [tracked]);
    let seq = record(&a, queued[1]).await.seq;
    assert_eq!(list(Some(one), queue, Some(seq), 9).await, [queued[0]]);
    assert_eq!(list(Some(two), Some(StateName::Stuck), None, 9).await, []);
}

pub(super) async fn attempts_of_all_nonces_are_oldest_first(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let id = bound(&a, &lane, "r").await.id;
    commit_done(&a, &lane, |commit| {
        commit.attempt(attempt(nonce(0), 1, "bump"));
    })
    .await;
    commit_done(&a, &lane, |commit| {
        commit.attempt(attempt(nonce(0), 2, "bump"));
    })
    .await;
    change(&a, &lane, id, Transition::LoseNonce).await;
    bind_next(&a, &lane).await;
    bound(&a, &lane, "another").await;
    let attempts = a.attempts(id).await.unwrap();
    let positions: Vec<_> = attempts.iter().map(|attempt| (attempt.nonce.get(), attempt.ordinal)).collect();
    assert_eq!(positions, [(0, 0), (0, 1), (0, 2), (1, 0)]);
    assert_eq!(attempts[1].raw, attempt(nonce(0), 1, "bump").raw);
}

fn named(id: &SubmitterId, alias: Option<&str>) -> NewSubmitter {
    NewSubmitter { id: id.clone(), alias: alias.map(str::to_owned) }
}

pub(super) async fn submitter_is_registered_once_and_can_be_renamed(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let [one, two] = [submitter(1), submitter(2)];
    a.register_submitters(&[named(&one, Some("treasury")), named(&two, None)]).await.unwrap();
    b.register_submitters(&[named(&one, None), named(&two, Some("payroll"))]).await.unwrap();
    let mut expected = vec![named(&one, Some("treasury")), named(&two, Some("payroll"))];
    expected.sort_by(|x, y| x.id.cmp(&y.id));
    assert_eq!(a.submitters().await.unwrap(), expected);
    b.register_submitters(&[named(&one, Some("cold"))]).await.unwrap();
    let known = a.submitters().await.unwrap();
    assert!(known.len() == 2 && known.contains(&named(&one, Some("cold"))));
}

/// An alias that moved silently would send the next payment from another account.
pub(super) async fn alias_belongs_to_one_submitter(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let [one, two, three, four] = [1, 2, 3, 4].map(submitter);
    a.register_submitters(&[named(&one, Some("treasury")), named(&two, Some("payroll"))]).await.unwrap();
    let before = a.submitters().await.unwrap();
    for taken in [
        [named(&three, Some("treasury")), named(&four, None)],
        [named(&four, Some("ops")), named(&three, Some("treasury"))],
        [named(&three, Some("ops")), named(&two, Some("treasury"))],
        [named(&three, Some("ops")), named(&four, Some("ops"))],
    ] {
        let refused = b.register_submitters(&taken).await;
        assert!(matches!(refused, Err(StoreError::Setup(_))), "{taken:?}: {refused:?}");
        assert_eq!(a.submitters().await.unwrap(), before, "{taken:?}");
    }
    // A submitter may keep its own alias, and several submitters may have none.
    let fine = [named(&one, Some("treasury")), named(&three, None), named(&four, None)];
    b.register_submitters(&fine).await.unwrap();
    assert_eq!(a.submitters().await.unwrap().len(), 4);
    assert_eq!(b.accept(&[new_intent(&three, "r")]).await.unwrap(), [Accepted::New]);
}
