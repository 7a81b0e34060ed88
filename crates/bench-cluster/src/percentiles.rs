//! Percentiles of latencies.

use std::time::Duration;

/// Median, 95th and 99th percentile. There is no value without samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Percentiles {
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Percentiles {
    pub(crate) fn of(times: &[Duration]) -> Option<Self> {
        let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |permille| nearest_rank(&sorted, permille);
        Some(Percentiles { p50_ms: at(500)?, p95_ms: at(950)?, p99_ms: at(990)? })
    }
}

/// The smallest value that is at least as large as the given share (in thousandths) of all values.
fn nearest_rank(sorted: &[f64], permille: usize) -> Option<f64> {
    let rank = (sorted.len() * permille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(values: impl IntoIterator<Item = u64>) -> Option<Percentiles> {
        Percentiles::of(&values.into_iter().map(Duration::from_millis).collect::<Vec<_>>())
    }

    #[test]
    fn percentiles_are_measured_values() {
        let all = ms((1..=100).rev()).unwrap();
        assert_eq!(all, Percentiles { p50_ms: 50.0, p95_ms: 95.0, p99_ms: 99.0 });
        let few = ms([7, 5, 6]).unwrap();
        assert_eq!(few, Percentiles { p50_ms: 6.0, p95_ms: 7.0, p99_ms: 7.0 });
        assert_eq!(ms([4]).unwrap(), Percentiles { p50_ms: 4.0, p95_ms: 4.0, p99_ms: 4.0 });
        assert_eq!(ms([]), None);
    }
}
