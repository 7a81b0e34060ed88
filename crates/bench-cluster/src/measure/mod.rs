//! One file for each kind of measurement.

mod accepts;
mod end_to_end;
mod idle;
mod latency;

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use uuid::Uuid;

use crate::database::Database;
use crate::percentiles::Percentiles;
use crate::shape::{Course, ShapeName};
use crate::{LoadError, Options, Report, Row};

/// A benchmark run and its progress output.
pub(crate) struct Bench<'a> {
    pub(crate) options: &'a Options,
    /// Prefix of the names of all its databases.
    pub(crate) database_prefix: String,
    say: &'a dyn Fn(&str),
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("options", self.options).finish_non_exhaustive()
    }
}

/// Runs the measurements and fills `report`. The report keeps the results so far if a later measurement fails. SIGINT
/// and SIGTERM end the run, and all processes and files are removed.
pub fn run(options: &Options, report: &mut Report, say: &dyn Fn(&str)) -> Result<(), LoadError> {
    options.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(LoadError::Runtime)?;
    let database_prefix = format!("gapless_bench_{}", Uuid::new_v4().simple());
    let bench = Bench { options, database_prefix, say };
    runtime.block_on(async {
        let hear = |kind| signal(kind).map_err(LoadError::Runtime);
        let (mut interrupt, mut terminate) = (hear(SignalKind::interrupt())?, hear(SignalKind::terminate())?);
        let ended = tokio::select! {
            ended = bench.measure(report) => ended,
            () = asked(&mut interrupt) => Err(LoadError::Stopped),
            () = asked(&mut terminate) => Err(LoadError::Stopped),
        };
        // All processes of the setup have ended by now, whatever the result.
        if let Some(server) = &options.store {
            let removed = Database::remove_all(server, &bench.database_prefix).await;
            return ended.and(removed);
        }
        ended
    })
}

async fn asked(signal: &mut Signal) {
    signal.recv().await;
}

impl Bench<'_> {
    /// A setup with other options.
    fn with<'b>(&'b self, options: &'b Options) -> Bench<'b> {
        Bench { options, database_prefix: self.database_prefix.clone(), say: self.say }
    }

    async fn measure(&self, report: &mut Report) -> Result<(), LoadError> {
        for shape in self.shapes() {
            self.say(&format!("{} …", shape.name()));
            report.rows.extend(self.one(shape).await?);
        }
        Ok(())
    }

    fn shapes(&self) -> Vec<ShapeName> {
        let Options { shapes, custom, store, .. } = self.options;
        let mut asked = shapes.clone();
        if custom.is_some() {
            asked.push(ShapeName::Custom);
        }
        if asked.is_empty() {
            let possible = |shape: &&ShapeName| **shape != ShapeName::Nodes || store.is_some();
            asked = ShapeName::ALL.iter().filter(possible).copied().collect();
        }
        asked
    }

    async fn one(&self, shape: ShapeName) -> Result<Vec<Row>, LoadError> {
        match shape {
            ShapeName::Accepts => accepts::measure(self).await,
            ShapeName::AcceptLatency => latency::accept(self).await,
            ShapeName::BroadcastLatency => latency::broadcast(self).await,
            ShapeName::ConfirmLatency => latency::confirm(self).await,
            ShapeName::Idle => idle::measure(self).await,
            ShapeName::Backlog => end_to_end::backlog(self).await,
            ShapeName::Open => end_to_end::open(self).await,
            ShapeName::Nodes => end_to_end::nodes(self).await,
            ShapeName::One
            | ShapeName::Ten
            | ShapeName::Fifty
            | ShapeName::Thousand
            | ShapeName::WideOne
            | ShapeName::WideTen
            | ShapeName::BusyTen
            | ShapeName::StrictOne
            | ShapeName::StrictFifty
            | ShapeName::Large
            | ShapeName::Custom => match Course::named(self.options, shape) {
                Some(course) => Ok(vec![end_to_end::measure(self, shape.name(), course).await?]),
                None => Ok(Vec::new()),
            },
        }
    }

    /// Shows a progress message.
    pub(crate) fn say(&self, text: &str) {
        (self.say)(text);
    }

    pub(crate) fn row(&self, shape: impl Into<String>) -> Row {
        let (chain, store) = (self.options.chain.name(), self.options.store_name());
        Row { shape: shape.into(), chain, store, figures: Vec::new() }
    }
}

/// The median.
fn p50(times: &[Duration]) -> Option<f64> {
    Percentiles::of(times).map(|times| times.p50_ms)
}

/// Time per item.
fn micros_each(time: Option<Duration>, count: u64) -> Option<f64> {
    time.map(|time| time.as_secs_f64() * 1e6 / count as f64)
}
