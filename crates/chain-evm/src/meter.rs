//! What is counted. Labels are bounded: chains and endpoints are configured, methods and results are lists of ours.

use std::time::Duration;

use gapless_chain::{Classified, EndpointHealth, EndpointStatus, Reason, UnknownTexts};
use gapless_domain::ChainId;

/// A log line shows so much of a stranger's text.
const SHOWN_CHARS: usize = 200;

/// One request to one endpoint; `result` is `ok` or the name of a verdict.
pub(crate) fn request(chain: &ChainId, endpoint: &str, method: &'static str, result: &'static str) {
    metrics::counter!("gapless_rpc_requests_total", "chain" => chain.to_string(), "endpoint" => endpoint.to_owned(),
        "method" => method, "result" => result)
    .increment(1);
}

/// How long an endpoint took for one request, answered or not.
pub(crate) fn took(chain: &ChainId, endpoint: &str, took: Duration) {
    metrics::histogram!("gapless_rpc_seconds", "chain" => chain.to_string(), "endpoint" => endpoint.to_owned())
        .record(took.as_secs_f64());
}

/// How an endpoint stands: 1 if it is asked and believed; its head, and how far that is behind.
pub(crate) fn standing(chain: &ChainId, status: &EndpointStatus) {
    let gauge =
        |name: &'static str| metrics::gauge!(name, "chain" => chain.to_string(), "endpoint" => status.name.clone());
    gauge("gapless_endpoint_healthy").set(f64::from(u8::from(status.is_healthy())));
    // Blocks and lags are far below what an f64 holds exactly.
    #[expect(clippy::cast_precision_loss, reason = "a gauge is an f64")]
    let number = |number: u64| number as f64;
    if let Some(head) = status.head {
        gauge("gapless_endpoint_head").set(number(head));
    }
    if let Some(lag) = status.lag {
        gauge("gapless_endpoint_lag_blocks").set(number(lag));
    }
}

/// An endpoint stands otherwise than before. Who is away, or of another chain, was reported where that was found out.
pub(crate) fn stands_otherwise(chain: &ChainId, status: &EndpointStatus) {
    let EndpointStatus { name, head, lag, .. } = status;
    let standing = status.standing.as_str();
    match status.standing {
        EndpointHealth::Good => tracing::info!(%chain, endpoint = name, head, "an endpoint is good again"),
        EndpointHealth::Lagging | EndpointHealth::RateLimited => {
            tracing::warn!(%chain, endpoint = name, standing, head, lag, "an endpoint is left out");
        }
        _ => tracing::debug!(%chain, endpoint = name, standing, head, lag, "an endpoint stands otherwise"),
    }
}

/// An endpoint goes to and fro between two forks.
pub(crate) fn flipping(chain: &ChainId, endpoint: &str, number: u64) {
    count("gapless_endpoint_flipping_total", chain, endpoint);
    tracing::warn!(%chain, endpoint, number, "an endpoint goes to and fro between two forks and is left out for a while");
}

/// A node answered a send with another hash than ours (S08).
pub(crate) fn hash_mismatch(chain: &ChainId, endpoint: &str, ours: &str, theirs: &str) {
    count("gapless_rpc_hash_mismatch_total", chain, endpoint);
    tracing::warn!(%chain, endpoint, ours, theirs = shown(theirs), "a node returned another hash than ours");
}

/// One endpoint took what another calls invalid on every node (S10).
pub(crate) fn contradiction(chain: &ChainId, endpoint: &str, hash: &str, text: &str) {
    count("gapless_rpc_contradiction_total", chain, endpoint);
    tracing::warn!(%chain, endpoint, hash, text = shown(text), "a node rejects for good what another one accepted");
}

/// A text that nobody has a pattern for (C06).
pub(crate) fn unknown_text(chain: &ChainId, endpoint: &str, method: &'static str, classified: &Classified) {
    if matches!(classified.reason, Reason::Unrecognized | Reason::Ambiguous) {
        count("gapless_rpc_unknown_text_total", chain, endpoint);
        let shape = UnknownTexts::shape(classified.text.as_str());
        tracing::warn!(%chain, endpoint, method, text = shown(&shape), "nobody knows this text of a node");
    }
}

fn count(name: &'static str, chain: &ChainId, endpoint: &str) {
    metrics::counter!(name, "chain" => chain.to_string(), "endpoint" => endpoint.to_owned()).increment(1);
}

pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}
