//! How many questions go into one request.

use crate::rpc::{Call, Fault};

/// What nodes take in one request is about 5 MB; a batch stays well below.
const MAX_BATCH_BYTES: usize = 2 << 20;

/// As many calls as the node takes, and not too many bytes.
pub(super) fn chunks(calls: &[Call], max: usize) -> Vec<&[Call]> {
    let weight = |call: &Call| {
        let texts = call.params.as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
        texts.map(str::len).sum::<usize>()
    };
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut bytes = 0;
    for (place, call) in calls.iter().enumerate() {
        let weight = weight(call);
        if place > start && (place - start >= max || bytes + weight > MAX_BATCH_BYTES) {
            chunks.extend(calls.get(start..place));
            (start, bytes) = (place, 0);
        }
        bytes += weight;
    }
    chunks.extend(calls.get(start..).filter(|rest| !rest.is_empty()));
    chunks
}

/// A node that names a limit gets half as many; one that knows no batches gets single calls.
pub(super) fn after_refusal(size: usize, fault: &Fault) -> usize {
    let text = match fault {
        Fault::Http { status: 413, .. } | Fault::TooLarge => return (size / 2).max(1),
        Fault::Http { body, .. } => body,
        Fault::Answer { text, .. } | Fault::Unreachable { text } => text,
        Fault::TimedOut | Fault::NoPlace | Fault::NotAsked => return size,
    };
    let text = text.to_ascii_lowercase();
    let names_a_limit = ["large", "limit", "exceed", "many", "maximum"].iter().any(|word| text.contains(word));
    if names_a_limit { (size / 2).max(1) } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn send(bytes: usize) -> Call {
        Call::new("eth_sendRawTransaction", json!(["x".repeat(bytes)]))
    }

    #[test]
    fn batches_are_bounded_by_number_and_by_size() {
        let lens = |calls: &[Call], max| chunks(calls, max).iter().map(|chunk| chunk.len()).collect::<Vec<_>>();
        assert_eq!(lens(&vec![send(1); 7], 3), [3, 3, 1]);
        assert_eq!(lens(&[], 3), Vec::<usize>::new());
        assert_eq!(lens(&[send(MAX_BATCH_BYTES), send(1), send(MAX_BATCH_BYTES * 2), send(1)], 100), [1, 1, 1, 1]);
        assert_eq!(lens(&vec![send(MAX_BATCH_BYTES / 4); 9], 100), [4, 4, 1]);
    }

    #[test]
    fn a_refusal_tells_how_many_to_try_next() {
        let answer = |text: &str| Fault::Answer { code: Some(-32600), text: text.to_owned(), data: None };
        assert_eq!(after_refusal(100, &answer("batch too large")), 50);
        assert_eq!(after_refusal(1, &answer("batch too large")), 1);
        assert_eq!(after_refusal(100, &answer("invalid request")), 1);
        assert_eq!(after_refusal(100, &Fault::Http { status: 413, body: String::new(), retry_after: None }), 50);
    }
}
