//! What is counted. Labels are bounded: chains and endpoints are configured, methods and results are lists of ours.

use gapless_chain::{Classified, Reason, UnknownTexts};
use gapless_domain::ChainId;

/// A log line shows so much of a stranger's text.
const SHOWN_CHARS: usize = 200;

/// One request to one endpoint; `result` is `ok` or the name of a verdict.
pub(crate) fn request(chain: &ChainId, endpoint: &str, method: &'static str, result: &'static str) {
    metrics::counter!("gapless_rpc_requests_total", "chain" => chain.to_string(), "endpoint" => endpoint.to_owned(),
        "method" => method, "result" => result)
    .increment(1);
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
