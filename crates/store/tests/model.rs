//! The model under a clock that goes back and a database that loses commits.

use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{LaneCommit, LeaseTerms, OwnerId, ProtectCode, Protection, Timestamp};
use gapless_store::conformance::fixtures::{acquire, bound, commit, commit_done, lane, text, try_acquire, view};
use gapless_store::{Acquired, CommitVerdict, ManualClock, Model, Store, StoreError};

const START: Timestamp = Timestamp::from_micros(1_900_000_000_000_000);

fn model() -> (Model, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::starting_at(START));
    (Model::new(LeaseTerms::default(), clock.clone()), clock)
}

fn node(model: &Model, name: &str) -> Arc<dyn Store> {
    Arc::new(model.node(OwnerId::new(name, 1)))
}

/// The clock of a new primary may be behind. A lease that would then last for hours counts as expired.
#[tokio::test]
async fn lease_with_absurdly_late_expiry_counts_as_expired() {
    let (model, clock) = model();
    let (a, b) = (node(&model, "a"), node(&model, "b"));
    let lane = lane(&a, 1).await;
    let old = acquire(&a, &lane).await;

    clock.set(START.saturating_sub(LeaseTerms::default().clock_skew));
    assert_eq!(try_acquire(&b, &lane).await, Acquired::HeldByOther, "the lease is valid within the skew");

    clock.set(START.saturating_sub(Duration::from_secs(3600)));
    assert_eq!(a.commit(&[LaneCommit::new(&old)]).await.unwrap().verdicts, [CommitVerdict::Fenced]);
    assert!(a.renew().await.unwrap().extended.is_empty());
    assert!(acquire(&b, &lane).await.token() > old.token());
}

/// The first write after the loss is refused, and every lane must acknowledge the loss.
#[tokio::test]
async fn first_write_after_lost_commits_is_refused() {
    let (model, _) = model();
    let a = node(&model, "a");
    let lane = lane(&a, 1).await;
    bound(&a, &lane, "kept").await;
    let snapshot = model.snapshot();
    bound(&a, &lane, "lost").await;
    model.restore(snapshot);

    let lease = acquire(&a, &lane).await;
    let first = a.commit(&[LaneCommit::new(&lease)]).await;
    assert!(matches!(first, Err(StoreError::Regressed(_))), "{first:?}");
    assert_eq!(commit(&a, &lane, |_| {}).await, CommitVerdict::Regressed);

    let seen = view(&a, &lane).await;
    assert!(seen.lane.regressed);
    let protection = Protection { code: ProtectCode::StoreRegressed, detail: text("a commit is gone") };
    commit_done(&a, &lane, |commit| {
        commit.protect(&seen.cursor, protection.clone()).unwrap();
    })
    .await;
    assert!(!view(&a, &lane).await.lane.regressed);
}

#[tokio::test]
async fn snapshot_does_not_change_with_the_model() {
    let (model, _) = model();
    let a = node(&model, "a");
    let lane = lane(&a, 1).await;
    let snapshot = model.snapshot();
    bound(&a, &lane, "r").await;
    model.restore(snapshot);
    assert!(view(&a, &lane).await.queue.is_empty());
    // A node without writes since the snapshot has lost nothing.
    let b = node(&model, "b");
    a.release(&[acquire(&a, &lane).await]).await.unwrap();
    bound(&b, &lane, "r").await;
}
