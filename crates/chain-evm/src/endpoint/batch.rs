//! Splitting calls into batches.

use crate::rpc::{RpcCall, RpcFailure};

/// Nodes take about 5 MB in one request. A batch stays well below.
const MAX_BATCH_BYTES: usize = 2 << 20;

/// Splits calls into batches of at most `max` calls and [`MAX_BATCH_BYTES`].
pub(super) fn chunks(calls: &[RpcCall], max: usize) -> Vec<&[RpcCall]> {
    let size_of_call = |call: &RpcCall| {
        let texts = call.params.as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
        texts.map(str::len).sum::<usize>()
    };
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut bytes = 0;
    for (index, call) in calls.iter().enumerate() {
        let size = size_of_call(call);
        if index > start && (index - start >= max || bytes + size > MAX_BATCH_BYTES) {
            chunks.extend(calls.get(start..index));
            (start, bytes) = (index, 0);
        }
        bytes += size;
    }
    chunks.extend(calls.get(start..).filter(|rest| !rest.is_empty()));
    chunks
}

/// The batch size after a refusal: half if the node names a limit, single calls if it knows no batches.
pub(super) fn after_refusal(size: usize, failure: &RpcFailure) -> usize {
    let text = match failure {
        RpcFailure::Http { status: 413, .. } | RpcFailure::TooLarge => return (size / 2).max(1),
        RpcFailure::Http { body, .. } => body,
        RpcFailure::ErrorObject { text, .. } | RpcFailure::Unreachable { text } => text,
        RpcFailure::TimedOut | RpcFailure::Saturated | RpcFailure::NotSent => return size,
    };
    let text = text.to_ascii_lowercase();
    let names_a_limit = ["large", "limit", "exceed", "many", "maximum"].iter().any(|word| text.contains(word));
    if names_a_limit { (size / 2).max(1) } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn send(bytes: usize) -> RpcCall {
        RpcCall::new("eth_sendRawTransaction", json!(["x".repeat(bytes)]))
    }

    #[test]
    fn batches_are_bounded_by_count_and_bytes() {
        let lens = |calls: &[RpcCall], max| chunks(calls, max).iter().map(|chunk| chunk.len()).collect::<Vec<_>>();
        assert_eq!(lens(&vec![send(1); 7], 3), [3, 3, 1]);
        assert_eq!(lens(&[], 3), Vec::<usize>::new());
        assert_eq!(lens(&[send(MAX_BATCH_BYTES), send(1), send(MAX_BATCH_BYTES * 2), send(1)], 100), [1, 1, 1, 1]);
        assert_eq!(lens(&vec![send(MAX_BATCH_BYTES / 4); 9], 100), [4, 4, 1]);
    }

    #[test]
    fn refusal_shrinks_the_batch_size() {
        let answer = |text: &str| RpcFailure::ErrorObject { code: Some(-32600), text: text.to_owned(), data: None };
        assert_eq!(after_refusal(100, &answer("batch too large")), 50);
        assert_eq!(after_refusal(1, &answer("batch too large")), 1);
        assert_eq!(after_refusal(100, &answer("invalid request")), 1);
        assert_eq!(after_refusal(100, &RpcFailure::Http { status: 413, body: String::new(), retry_after: None }), 50);
    }
}
