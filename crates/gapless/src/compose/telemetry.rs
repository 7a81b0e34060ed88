//! Logs and metrics of the process.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use gapless_engine::Driver;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Format, Json, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use super::ComposeError;
use crate::config::{LogConfig, LogFormat};

/// Starts logging to standard error; standard output is for results.
pub(crate) fn start_logging(config: &LogConfig) -> Result<(), ComposeError> {
    let filter: Targets = config.filter.parse().map_err(|_| ComposeError::Logging("log.filter".to_owned()))?;
    let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let layer = match config.format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.fmt_fields(JsonFields::new()).event_format(FlatJson::new()).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter));
    subscriber.try_init().map_err(|error| ComposeError::Logging(error.to_string()))
}

/// JSON lines with the fields of the span beside the fields of the event. The engine puts `submitter`, `node_id` and
/// `fencing_token` into one span for each run of a lane, and log readers find them at the top level of each line.
struct FlatJson(Format<Json>);

impl FlatJson {
    fn new() -> Self {
        FlatJson(fmt::format().json().flatten_event(true).with_current_span(true).with_span_list(false))
    }
}

impl<S, N> FormatEvent<S, N> for FlatJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> std::fmt::Result {
        let mut line = String::new();
        self.0.format_event(ctx, Writer::new(&mut line), event)?;
        match flatten_span(&line) {
            Some(flat) => writeln!(writer, "{flat}"),
            None => writer.write_str(&line),
        }
    }
}

/// The line with the fields of its span at the top level, where a field of the event takes precedence; `None` for a
/// line without a span.
fn flatten_span(line: &str) -> Option<Value> {
    let mut fields: Map<String, Value> = serde_json::from_str(line).ok()?;
    let Some(Value::Object(span)) = fields.remove("span") else { return None };
    for (key, value) in span.into_iter().filter(|(key, _)| key != "name") {
        fields.entry(key).or_insert(value);
    }
    Some(Value::Object(fields))
}

/// The metrics of this process, which `/metrics` serves.
#[derive(Clone, Debug)]
pub(crate) struct Metrics(PrometheusHandle);

/// The histogram buckets in seconds.
const BUCKETS: [f64; 14] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];
/// The interval at which histogram samples are aggregated, so that they do not pile up if `/metrics` is not read.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

impl Metrics {
    pub(crate) fn start() -> Result<Self, ComposeError> {
        let wrong = |error: metrics_exporter_prometheus::BuildError| ComposeError::Metrics(error.to_string());
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS).map_err(wrong)?;
        builder.install_recorder().map(Metrics).map_err(wrong)
    }

    pub(crate) fn text(&self) -> String {
        self.0.render()
    }

    /// Aggregates the histograms at an interval, and never ends.
    pub(crate) async fn keep_up(&self, driver: Arc<dyn Driver>) {
        loop {
            driver.sleep_until(driver.now().saturating_add(UPKEEP_INTERVAL)).await;
            self.0.run_upkeep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_fields_move_to_the_top_level() {
        let line = r#"{"level":"INFO","tx_id":"1","span":{"name":"lane","submitter":"a","tx_id":"2"}}"#;
        let flat = serde_json::json!({ "level": "INFO", "tx_id": "1", "submitter": "a" });
        assert_eq!(flatten_span(line), Some(flat));
        assert_eq!(flatten_span(r#"{"level":"INFO"}"#), None, "no span");
    }
}
