//! Metrics and log lines of endpoints. Labels are bounded: chains and endpoints are configured, methods and results are
//! fixed lists.

use std::time::Duration;

use gapless_chain::{Classified, EndpointHealth, EndpointStatus, Reason};
use gapless_domain::ChainId;

use crate::classify::UnknownTexts;

/// The length to which foreign texts are cut in log lines.
const MAX_TEXT_CHARS: usize = 200;

/// Counts one call to one endpoint. `result` is `ok` or the name of a verdict.
pub(crate) fn request(chain: &ChainId, endpoint: &str, method: &'static str, result: &'static str) {
    metrics::counter!("gapless_rpc_requests_total", "chain" => chain.to_string(), "endpoint" => endpoint.to_owned(),
        "method" => method, "result" => result)
    .increment(1);
}

/// Records the duration of one request, answered or not.
pub(crate) fn request_duration(chain: &ChainId, endpoint: &str, took: Duration) {
    metrics::histogram!("gapless_rpc_seconds", "chain" => chain.to_string(), "endpoint" => endpoint.to_owned())
        .record(took.as_secs_f64());
}

/// Sets the gauges of an endpoint: health (1 is good), head and lag.
pub(crate) fn endpoint_status(chain: &ChainId, status: &EndpointStatus) {
    let gauge =
        |name: &'static str| metrics::gauge!(name, "chain" => chain.to_string(), "endpoint" => status.name.clone());
    gauge("gapless_endpoint_healthy").set(f64::from(u8::from(status.is_healthy())));
    // An f64 holds block numbers and lags exactly.
    #[expect(clippy::cast_precision_loss, reason = "a gauge is an f64")]
    let number = |number: u64| number as f64;
    if let Some(head) = status.head {
        gauge("gapless_endpoint_head").set(number(head));
    }
    if let Some(lag) = status.lag {
        gauge("gapless_endpoint_lag_blocks").set(number(lag));
    }
}

/// Logs a change of endpoint health. "Down" and "wrong chain" were logged where they were detected.
pub(crate) fn endpoint_status_changed(chain: &ChainId, status: &EndpointStatus) {
    let EndpointStatus { name, head, lag, .. } = status;
    let health = status.health.as_str();
    match status.health {
        EndpointHealth::Good => tracing::info!(%chain, endpoint = name, head, "endpoint good again"),
        EndpointHealth::Lagging | EndpointHealth::RateLimited => {
            tracing::warn!(%chain, endpoint = name, health, head, lag, "endpoint not used");
        }
        _ => tracing::debug!(%chain, endpoint = name, health, head, lag, "endpoint status changed"),
    }
}

/// An endpoint flips between two forks.
pub(crate) fn endpoint_flipping(chain: &ChainId, endpoint: &str, number: u64) {
    count("gapless_endpoint_flipping_total", chain, endpoint);
    tracing::warn!(%chain, endpoint, number, "endpoint not used for a while: it flips between two forks");
}

/// A node answered a send with another hash than ours (S08).
pub(crate) fn hash_mismatch(chain: &ChainId, endpoint: &str, ours: &str, theirs: &str) {
    count("gapless_rpc_hash_mismatch_total", chain, endpoint);
    tracing::warn!(%chain, endpoint, ours, theirs = shortened(theirs), "endpoint returned another transaction hash");
}

/// One endpoint accepted a transaction that another one calls permanently invalid (S10).
pub(crate) fn contradiction(chain: &ChainId, endpoint: &str, hash: &str, text: &str) {
    count("gapless_rpc_contradiction_total", chain, endpoint);
    let text = shortened(text);
    tracing::warn!(%chain, endpoint, hash, text, "endpoint rejected a transaction that another one accepted");
}

/// An error text that no pattern matches (C06).
pub(crate) fn unknown_text(chain: &ChainId, endpoint: &str, method: &'static str, classified: &Classified) {
    if matches!(classified.reason, Reason::Unrecognized | Reason::Ambiguous) {
        count("gapless_rpc_unknown_text_total", chain, endpoint);
        let shape = UnknownTexts::shape(classified.text.as_str());
        tracing::warn!(%chain, endpoint, method, text = shortened(&shape), "unknown error text from endpoint");
    }
}

fn count(name: &'static str, chain: &ChainId, endpoint: &str) {
    metrics::counter!(name, "chain" => chain.to_string(), "endpoint" => endpoint.to_owned()).increment(1);
}

pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).collect()
}
