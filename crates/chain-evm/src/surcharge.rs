//! The data fee of a rollup, read once for each head and size class and shared by all lanes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::{B256, U256};
use gapless_chain::ChainError;
use tokio::sync::OnceCell;

use crate::endpoints::Endpoints;
use crate::read;

/// Size classes in the cache of one head. There are few more; those beyond the limit are read each time.
const MAX_CACHED: usize = 256;
/// Sizes are rounded up to a multiple of this, or of a sixteenth of the next power of two if that is more. The result
/// is at most an eighth too large.
const MIN_STEP: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct DataFees {
    cache: Mutex<HeadFees>,
}

#[derive(Debug, Default)]
struct HeadFees {
    head: B256,
    by_size: BTreeMap<usize, Arc<OnceCell<U256>>>,
}

impl DataFees {
    /// The maximum data fee of a transaction of this size without its signature. The first caller reads it; callers
    /// with the same size class wait for its answer.
    pub(crate) async fn of(&self, endpoints: &Endpoints, size: usize) -> Result<U256, ChainError> {
        let size = size_class(size);
        let cell = self.cell(endpoints.last_head(), size);
        let ask = || endpoints.read(|endpoint| async move { read::data_fee(&endpoint, size).await });
        cell.get_or_try_init(ask).await.copied()
    }

    /// The cache cell for a head. Without a known head nothing is cached, because a new head would not be noticed.
    fn cell(&self, head: Option<B256>, size: usize) -> Arc<OnceCell<U256>> {
        let Some(head) = head else { return Arc::default() };
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.head != head {
            *cache = HeadFees { head, by_size: BTreeMap::new() };
        }
        if cache.by_size.len() >= MAX_CACHED && !cache.by_size.contains_key(&size) {
            return Arc::default();
        }
        Arc::clone(cache.by_size.entry(size).or_default())
    }
}

fn size_class(size: usize) -> usize {
    let step = (size.checked_next_power_of_two().unwrap_or(size) / 16).max(MIN_STEP);
    size.checked_next_multiple_of(step).unwrap_or(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn size_classes_fit_into_the_cache() {
        // No transaction is larger.
        let classes: std::collections::BTreeSet<usize> = (0..1 << 20).map(size_class).collect();
        assert!(classes.len() < MAX_CACHED, "{}", classes.len());
    }

    #[test]
    fn cache_is_of_one_head_and_bounded() {
        let fees = DataFees::default();
        let is_same = |a: &Arc<_>, b: &Arc<_>| Arc::ptr_eq(a, b);
        let (one, two) = (Some(B256::repeat_byte(1)), Some(B256::repeat_byte(2)));
        assert!(is_same(&fees.cell(one, 64), &fees.cell(one, 64)));
        assert!(!is_same(&fees.cell(one, 64), &fees.cell(one, 128)));
        let before = fees.cell(one, 64);
        assert!(!is_same(&before, &fees.cell(two, 64)));
        assert!(!is_same(&fees.cell(None, 64), &fees.cell(None, 64)));
        for size in 0..2 * MAX_CACHED {
            fees.cell(two, size);
        }
        assert_eq!(fees.cache.lock().unwrap().by_size.len(), MAX_CACHED);
    }

    proptest! {
        #[test]
        fn size_class_is_at_least_the_size_and_little_more(size in 0_usize..1 << 22) {
            let class = size_class(size);
            prop_assert!(class >= size && class <= size + (size / 8).max(MIN_STEP));
            prop_assert!(size_class(size + 1) >= class);
            prop_assert_eq!(size_class(class), class);
        }
    }
}
