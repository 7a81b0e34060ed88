//! Calls of an endpoint, counted by method. Tests and benchmarks measure the RPC cost of a client with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of methods with a counter of their own. CallCounter of further methods are counted together as "other".
pub const MAX_COUNTED_METHODS: usize = 128;
/// The counter of all methods beyond [`MAX_COUNTED_METHODS`].
const OTHER: &str = "other";

/// Call counters. Clones are handles to the same counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallCounter {
    by_method: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl CallCounter {
    pub(crate) fn count(&self, method: &str) {
        let mut by_method = self.lock();
        if let Some(count) = by_method.get_mut(method) {
            *count += 1;
            return;
        }
        let method = if by_method.len() < MAX_COUNTED_METHODS { method } else { OTHER };
        *by_method.entry(method.to_owned()).or_default() += 1;
    }

    pub(crate) fn by_method(&self) -> BTreeMap<String, u64> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.by_method.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_methods_share_one_counter() {
        let calls = CallCounter::default();
        for index in 0..2 * MAX_COUNTED_METHODS {
            calls.count(&format!("eth_{index}"));
        }
        let counted = calls.by_method();
        assert_eq!(counted.len(), MAX_COUNTED_METHODS + 1);
        assert_eq!(counted[OTHER], MAX_COUNTED_METHODS as u64);
        assert_eq!(counted["eth_0"], 1);
    }
}
