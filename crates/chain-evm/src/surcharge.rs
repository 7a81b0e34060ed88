//! What a rollup takes for a transaction beside its gas: asked for once a head and size, and shared by all lanes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::{B256, U256};
use gapless_chain::ChainError;
use tokio::sync::OnceCell;

use crate::endpoints::Endpoints;
use crate::read;

/// Sizes that are kept for one head. There are not many more classes than this; what finds no place is asked for each time.
const KEPT_MAX: usize = 256;
/// Sizes are rounded up to a multiple of this, or of a sixteenth of the next power of two if that is more: then it is at most an
/// eighth too much.
const LEAST_STEP: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct DataFees {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    head: B256,
    by_size: BTreeMap<usize, Arc<OnceCell<U256>>>,
}

impl DataFees {
    /// The most that a transaction of so many bytes, without its signature, costs beside its gas. Whoever is first asks; the others
    /// of its size wait for the answer.
    pub(crate) async fn of(&self, endpoints: &Endpoints, size: usize) -> Result<U256, ChainError> {
        let size = size_class(size);
        let cell = self.cell(endpoints.told(), size);
        let ask = || endpoints.read(|endpoint| async move { read::data_fee(&endpoint, size).await });
        cell.get_or_try_init(ask).await.copied()
    }

    /// Where the answer is kept as of this head. Where no head was told yet nobody would notice a new one: then it is kept nowhere.
    fn cell(&self, head: Option<B256>, size: usize) -> Arc<OnceCell<U256>> {
        let Some(head) = head else { return Arc::default() };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.head != head {
            *kept = Kept { head, by_size: BTreeMap::new() };
        }
        if kept.by_size.len() >= KEPT_MAX && !kept.by_size.contains_key(&size) {
            return Arc::default();
        }
        Arc::clone(kept.by_size.entry(size).or_default())
    }
}

fn size_class(size: usize) -> usize {
    let step = (size.checked_next_power_of_two().unwrap_or(size) / 16).max(LEAST_STEP);
    size.checked_next_multiple_of(step).unwrap_or(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn there_are_few_classes() {
        // More than any transaction has.
        let classes: std::collections::BTreeSet<usize> = (0..1 << 20).map(size_class).collect();
        assert!(classes.len() < KEPT_MAX, "{}", classes.len());
    }

    #[test]
    fn what_is_kept_is_of_one_head_and_bounded() {
        let fees = DataFees::default();
        let is_same = |a: &Arc<_>, b: &Arc<_>| Arc::ptr_eq(a, b);
        let (one, two) = (Some(B256::repeat_byte(1)), Some(B256::repeat_byte(2)));
        assert!(is_same(&fees.cell(one, 64), &fees.cell(one, 64)));
        assert!(!is_same(&fees.cell(one, 64), &fees.cell(one, 128)));
        let before = fees.cell(one, 64);
        assert!(!is_same(&before, &fees.cell(two, 64)));
        assert!(!is_same(&fees.cell(None, 64), &fees.cell(None, 64)));
        for size in 0..2 * KEPT_MAX {
            fees.cell(two, size);
        }
        assert_eq!(fees.kept.lock().unwrap().by_size.len(), KEPT_MAX);
    }

    proptest! {
        #[test]
        fn a_class_is_never_less_and_little_more(size in 0_usize..1 << 22) {
            let class = size_class(size);
            prop_assert!(class >= size && class <= size + (size / 8).max(LEAST_STEP));
            prop_assert!(size_class(size + 1) >= class);
            prop_assert_eq!(size_class(class), class);
        }
    }
}
