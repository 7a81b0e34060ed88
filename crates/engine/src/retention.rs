//! Retention: a loop that moves ended intents out of the working tables and deletes old rows, in small batches.
//!
//! The store decides which rows may go; this loop only paces it. One node at a time holds the claim, so that several
//! nodes do not do the work of one. A batch that fails is logged and counted, and comes again with the next round.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::Timestamp;
use gapless_store::{RetentionKind, Store, StoreError};

use crate::driver::Driver;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long each kind of row is kept, and how fast retention works. `None` is for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionOptions {
    /// Ended intents in the working tables.
    pub after: Option<Duration>,
    /// Events of ended intents, and of lanes.
    pub events_after: Option<Duration>,
    /// Attempts of ended intents.
    pub attempts_after: Option<Duration>,
    /// Finished commands.
    pub commands_after: Option<Duration>,
    /// Rows of dead processes.
    pub nodes_after: Option<Duration>,
    /// Audit entries.
    pub audit_after: Option<Duration>,
    /// From the end of one round to the beginning of the next.
    pub interval: Duration,
    /// Rows, or intents with all that belongs to them, in one transaction.
    pub batch: u32,
    /// Between two batches of a round.
    pub pause: Duration,
}

impl Default for RetentionOptions {
    fn default() -> Self {
        RetentionOptions {
            after: Some(30 * DAY),
            events_after: Some(90 * DAY),
            attempts_after: Some(90 * DAY),
            commands_after: Some(30 * DAY),
            nodes_after: Some(7 * DAY),
            audit_after: None,
            interval: Duration::from_secs(60),
            batch: 500,
            pause: Duration::from_millis(100),
        }
    }
}

impl RetentionOptions {
    /// Every row is kept for ever.
    pub fn never() -> Self {
        RetentionOptions {
            after: None,
            events_after: None,
            attempts_after: None,
            commands_after: None,
            nodes_after: None,
            audit_after: None,
            ..RetentionOptions::default()
        }
    }

    fn age_of(&self, kind: RetentionKind) -> Option<Duration> {
        match kind {
            RetentionKind::Intents => self.after,
            RetentionKind::Events | RetentionKind::LaneEvents => self.events_after,
            RetentionKind::Attempts => self.attempts_after,
            RetentionKind::Commands => self.commands_after,
            RetentionKind::Nodes => self.nodes_after,
            RetentionKind::Audit => self.audit_after,
        }
    }

    /// The kinds that do not stay for ever, with their ages.
    fn limited(&self) -> Vec<(RetentionKind, Duration)> {
        RetentionKind::ALL.iter().filter_map(|kind| Some((*kind, self.age_of(*kind)?))).collect()
    }

    pub(crate) fn is_never(&self) -> bool {
        self.limited().is_empty()
    }
}

#[derive(Debug)]
pub(crate) struct RetentionLoop {
    store: Arc<dyn Store>,
    driver: Arc<dyn Driver>,
    options: RetentionOptions,
}

impl RetentionLoop {
    pub(crate) fn new(store: Arc<dyn Store>, driver: Arc<dyn Driver>, options: RetentionOptions) -> Self {
        RetentionLoop { store, driver, options }
    }

    /// Never ends.
    pub(crate) async fn run(self) {
        loop {
            self.sleep(self.options.interval).await;
            self.round().await;
        }
    }

    /// One batch of every kind, and more batches of the kinds that have more, until none has or the claim is lost.
    async fn round(&self) {
        let mut kinds = self.options.limited();
        let mut counts: BTreeMap<RetentionKind, u64> = BTreeMap::new();
        while let Some(at) = self.claim().await {
            let mut unfinished = Vec::new();
            for (kind, age) in kinds {
                let count = self.batch(kind, age).await;
                *counts.entry(kind).or_default() += u64::from(count);
                if count >= self.options.batch {
                    unfinished.push((kind, age));
                }
            }
            if unfinished.is_empty() {
                metrics::gauge!("gapless_retention_last_run_timestamp_seconds").set(at.as_micros() as f64 / 1e6);
                break;
            }
            kinds = unfinished;
            self.sleep(self.options.pause).await;
        }
        let count = |kind| counts.get(&kind).copied().unwrap_or(0);
        if counts.values().any(|count| *count > 0) {
            tracing::info!(
                intents = count(RetentionKind::Intents),
                events = count(RetentionKind::Events),
                lane_events = count(RetentionKind::LaneEvents),
                attempts = count(RetentionKind::Attempts),
                commands = count(RetentionKind::Commands),
                nodes = count(RetentionKind::Nodes),
                audit = count(RetentionKind::Audit),
                "retention applied"
            );
        }
    }

    async fn claim(&self) -> Option<Timestamp> {
        match self.store.claim_retention().await {
            Ok(claimed) => claimed,
            Err(error) => {
                failed("claim", &error);
                None
            }
        }
    }

    async fn batch(&self, kind: RetentionKind, age: Duration) -> u32 {
        match self.store.apply_retention(kind, age, self.options.batch).await {
            Ok(count) => {
                metrics::counter!("gapless_retention_rows_total", "kind" => kind.as_str()).increment(count.into());
                count
            }
            Err(error) => {
                failed(kind.as_str(), &error);
                0
            }
        }
    }

    async fn sleep(&self, span: Duration) {
        self.driver.sleep_until(self.driver.now().saturating_add(span)).await;
    }
}

fn failed(kind: &'static str, error: &StoreError) {
    metrics::counter!("gapless_retention_errors_total", "kind" => kind).increment(1);
    tracing::warn!(kind, %error, "retention failed; the next round tries again");
}
