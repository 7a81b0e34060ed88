//! Fenced commits of many lanes, against a raw batch update of the same rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gapless_domain::{
    AttemptKind, B256, Bytes, Cursor, Fees, IntentRecord, LaneCommit, Lease, NewAttempt, Nonce, Progress, Transition,
};
use gapless_engine::{BatchLimits, LaneWriter, SystemClock};
use gapless_store::{Acquired, CommitVerdict, NewIntent, Store};
use uuid::Uuid;

use crate::fixture::{Fixture, connect, intent};
use crate::measure::{ROUNDS, ResultTable, median, per_second};
use crate::raw;

pub(crate) async fn measure(fixture: &Fixture, slice: Duration, report: &mut ResultTable) {
    let mut lanes = bind_one_each(fixture).await;
    let twins = insert_twins(fixture, lanes.len()).await;
    let client = connect(&fixture.url).await;
    let clock = Arc::new(SystemClock::start());
    let (writer, run) = LaneWriter::new(Arc::clone(&fixture.store) as _, clock, BatchLimits::default());
    let driver = tokio::spawn(run.run());
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let mut done = 0;
        let tasks: Vec<_> =
            lanes.drain(..).map(|lane| tokio::spawn(change(writer.clone(), lane, began + slice))).collect();
        for task in tasks {
            let (count, lane) = task.await.unwrap();
            done += count;
            lanes.push(lane);
        }
        ours.push(done as f64 / began.elapsed().as_secs_f64());
        bare.push(per_second(slice, |until| raw::update_batches(&client, &twins, until)).await);
    }
    drop(writer);
    driver.await.unwrap();
    let ratio = median(ours.iter().zip(&bare).map(|(ours, bare)| ours / bare).collect());
    report.plain("raw batch update of 64 rows, no lease, no version, no event", median(bare), "rows/s");
    report.ratio(
        "fenced lane commits, 64 lanes, one change and event each",
        median(ours),
        "/s",
        "raw batch update",
        ratio,
        None,
    );
}

/// Repeats the smallest commit of a lane: one state change and its event.
async fn change(writer: LaneWriter, mut lane: (Lease, IntentRecord), until: Instant) -> (u64, (Lease, IntentRecord)) {
    let mut done = 0;
    while Instant::now() < until {
        let waits = lane.1.state.bound().is_some_and(|bound| bound.progress == Progress::AwaitingFunds);
        let change = lane.1.change(if waits { Transition::Funded } else { Transition::AwaitFunds }).unwrap();
        let mut commit = LaneCommit::new(&lane.0);
        commit.change(change.clone());
        let written = writer.write(commit).await.unwrap();
        assert_eq!(written.verdict, CommitVerdict::Done);
        lane.1.apply(&change, written.at);
        done += 1;
    }
    (done, lane)
}

async fn bind_one_each(fixture: &Fixture) -> Vec<(Lease, IntentRecord)> {
    let store = &fixture.store;
    let intents: Vec<NewIntent> = fixture.lanes.iter().map(new_intent).collect();
    store.accept(&intents).await.unwrap();
    let ids: Vec<_> = intents.iter().map(|new| new.id).collect();
    let txs = store.get(&ids).await.unwrap();
    let leases = store.acquire(&fixture.lanes).await.unwrap();
    let mut lanes = Vec::new();
    for (n, (acquired, tx)) in leases.into_iter().zip(txs).enumerate() {
        let (Acquired::Held(lease), Some(mut tx)) = (acquired, tx) else { continue };
        let attempt = NewAttempt {
            nonce: Nonce::ZERO,
            ordinal: 0,
            kind: AttemptKind::Original,
            hash: B256::with_last_byte(n as u8),
            raw: Bytes::from(vec![0; 200]),
            fees: Fees::Eip1559 { max_fee: 1, max_priority_fee: 1 },
        };
        let mut commit = LaneCommit::new(&lease);
        commit.bind(&Cursor::starting_at(Nonce::ZERO), &tx, attempt).unwrap();
        let committed = store.commit(&[commit.clone()]).await.unwrap();
        assert_eq!(committed.verdicts, [CommitVerdict::Done]);
        tx.apply(&commit.changes()[0], committed.at);
        lanes.push((lease, tx));
    }
    assert_eq!(lanes.len(), fixture.lanes.len());
    lanes
}

/// Creates rows for the raw update, like those of the lanes.
async fn insert_twins(fixture: &Fixture, count: usize) -> Vec<Uuid> {
    let intents: Vec<NewIntent> = fixture.lanes.iter().cycle().take(count).map(new_intent).collect();
    fixture.store.accept(&intents).await.unwrap();
    let ids: Vec<Uuid> = intents.iter().map(|new| new.id.uuid()).collect();
    let bind = "UPDATE managed_tx SET state = 'ALLOCATED', sub_state = 'PENDING', nonce = 1, fencing_token = 1 \
                WHERE tx_id = ANY($1)";
    connect(&fixture.url).await.execute(bind, &[&ids]).await.unwrap();
    ids
}

fn new_intent(lane: &gapless_domain::SubmitterId) -> NewIntent {
    NewIntent { id: gapless_domain::TxId::from_uuid(Uuid::now_v7()), intent: intent(lane) }
}
