//! The cost of a long queue for a peek and a sweep.

use std::time::Instant;

use gapless_store::{NewIntent, Store};
use uuid::Uuid;

use crate::fixture::{Fixture, connect, intent};
use crate::measure::{ResultTable, median};

pub(crate) const ROWS: usize = 100_000;
const LOOKS: usize = 50;

/// A fresh database with the whole backlog in one lane, and a few other lanes with little work.
pub(crate) async fn measure(_: &Fixture, report: &mut ResultTable) {
    let fixture = Fixture::new().await;
    fill(&fixture, 100).await;
    let (peek_short, sweep_short) = look(&fixture).await;
    fill(&fixture, ROWS).await;
    connect(&fixture.url).await.batch_execute("VACUUM ANALYZE").await.unwrap();
    let (peek_long, sweep_long) = look(&fixture).await;
    let against = "the same with 100 queued";
    report.ratio("peek at 16 with 100,000 queued", peek_long, "µs", against, peek_long / peek_short, Some("≈ 1"));
    report.ratio("sweep with 100,000 queued", sweep_long, "µs", against, sweep_long / sweep_short, Some("≈ 1"));
}

async fn fill(fixture: &Fixture, rows: usize) {
    let lane = &fixture.lanes[0];
    for start in (0..rows).step_by(1000) {
        let batch: Vec<NewIntent> = (start..rows.min(start + 1000))
            .map(|_| NewIntent { id: gapless_domain::TxId::from_uuid(Uuid::now_v7()), intent: intent(lane) })
            .collect();
        fixture.store.accept(&batch).await.unwrap();
    }
}

async fn look(fixture: &Fixture) -> (f64, f64) {
    let (mut peeks, mut sweeps) = (Vec::new(), Vec::new());
    for _ in 0..LOOKS {
        let began = Instant::now();
        let front = fixture.store.peek_queues(&[(fixture.lanes[0].clone(), 16)], &[]).await.unwrap();
        assert_eq!(front[0].len(), 16);
        peeks.push(began.elapsed().as_secs_f64() * 1e6);
        let began = Instant::now();
        assert_eq!(fixture.store.lanes_with_work(None, 100).await.unwrap().len(), 1);
        sweeps.push(began.elapsed().as_secs_f64() * 1e6);
    }
    (median(peeks), median(sweeps))
}
