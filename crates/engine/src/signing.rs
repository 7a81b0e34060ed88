//! Signs the plans of a lane: one call for a batch, and a verdict for each plan.
//!
//! A signer that signs nothing may work on another node. So a lane is handed over when its signer has signed nothing
//! for `signing.handover_first`, whether its calls fail at once or are never answered. If no other node takes the lane,
//! or the signer of the other node signs nothing either, the lane comes back and stays twice as long, up to
//! `signing.handover_longest`. So the lane moves ever less often, and a node sends and confirms its signed transactions
//! meanwhile. Within a run the lane itself pauses between its requests.
//!
//! A batch that is not answered in time is signed in shorter batches (see [`BatchSize`]). This node remembers their
//! length for its next run of the lane.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_domain::{
    Backoff, BatchSize, Lease, NodeText, Permit, SignFailure, SignRequest, SignedTx, Tick, TimedOut, TxPlan,
};
use gapless_signer::{Signer, SignerError, SigningLimits, Timer, TxEncoder, sign_plans};

use crate::driver::Driver;

/// The time of the engine, for the bounds of signers.
#[derive(Debug)]
pub(crate) struct DriverTimer(pub(crate) Arc<dyn Driver>);

impl Timer for DriverTimer {
    fn now(&self) -> Tick {
        self.0.now()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(time)
    }
}

/// The signer of one lane, and the encoding of its chain.
#[derive(Clone, Debug)]
pub(crate) struct LaneSigner {
    encoder: Arc<dyn TxEncoder>,
    /// Behind the bounds of this node.
    signer: Arc<dyn Signer>,
    driver: Arc<dyn Driver>,
    /// Shared by all runs of the lane on this node.
    record: Arc<Mutex<SignerRecord>>,
}

/// The answers to the requests of one batch.
#[derive(Debug)]
pub(crate) struct SignedBatch {
    pub(crate) answers: Vec<Result<SignedTx, SignFailure>>,
    /// The signer has signed nothing for so long that the lane is handed over.
    pub(crate) hands_over: bool,
}

/// The experience of this node with the signer of one lane.
#[derive(Debug)]
struct SignerRecord {
    size: BatchSize,
    is_failing: bool,
    /// The times from the first failure of a run to the handover of the lane.
    holds: Backoff,
    /// A failure of this run at this time or later hands the lane over.
    handover_at: Option<Tick>,
}

/// The result of one batch, as far as it concerns the signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchResult {
    /// The signer signed or refused a transaction.
    Works,
    /// Other lanes use all calls to the service, or the batch was too long.
    TryAgain,
    Fails,
}

impl LaneSigner {
    /// `signer` is behind the bounds of this node.
    pub(crate) fn new(
        encoder: Arc<dyn TxEncoder>,
        signer: Arc<dyn Signer>,
        driver: Arc<dyn Driver>,
        limits: SigningLimits,
    ) -> Self {
        let record = SignerRecord {
            size: BatchSize::default(),
            is_failing: false,
            holds: Backoff::new(limits.handover_first, limits.handover_longest),
            handover_at: None,
        };
        LaneSigner { encoder, signer, driver, record: Arc::new(Mutex::new(record)) }
    }

    /// Begins a run of the lane: the time to its handover is counted anew.
    pub(crate) fn begin_run(&self) {
        self.record().handover_at = None;
    }

    /// The most transactions that the signer is known to sign in time, if there is a limit.
    pub(crate) fn batch_max(&self) -> Option<usize> {
        self.record().size.limit()
    }

    pub(crate) async fn sign(&self, permit: &Permit, requests: Vec<SignRequest>) -> SignedBatch {
        let plans: Vec<TxPlan> = requests.into_iter().map(|request| request.plan).collect();
        let began = self.driver.now();
        let answers = sign_plans(permit, self.encoder.as_ref(), self.signer.as_ref(), &plans).await;
        let now = self.driver.now();
        let mut record = self.record();
        let hands_over = match record.note(&answers) {
            BatchResult::Works => {
                record.recover();
                false
            }
            BatchResult::TryAgain => false,
            BatchResult::Fails => record.fail(began, now, jitter(permit.lease(), now)),
        };
        drop(record);
        SignedBatch { answers: answers.into_iter().map(|answer| answer.map_err(failure)).collect(), hands_over }
    }

    fn record(&self) -> MutexGuard<'_, SignerRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SignerRecord {
    /// Learns from a batch how long the next one may be.
    fn note(&mut self, answers: &[Result<SignedTx, SignerError>]) -> BatchResult {
        let any = |is: fn(&Result<SignedTx, SignerError>) -> bool| answers.iter().any(is);
        let is_signed = any(|answer| matches!(answer, Ok(_) | Err(SignerError::Refused(_))));
        let is_busy = any(|answer| matches!(answer, Err(SignerError::Busy(_))));
        let is_late = any(|answer| matches!(answer, Err(SignerError::Timeout)));
        let is_too_long = is_late && self.size.timed_out(answers.len()) == TimedOut::TooLong;
        if is_late
            && answers.len() > 1
            && let Some(batch_max) = self.size.limit()
        {
            tracing::info!(
                transactions = answers.len(),
                batch_max,
                "signer gave no answer in time; batches are shortened"
            );
        }
        if is_signed {
            if !is_late && !is_busy {
                self.size.succeeded(answers.len());
            }
            BatchResult::Works
        } else if is_busy || is_too_long {
            BatchResult::TryAgain
        } else {
            BatchResult::Fails
        }
    }

    fn recover(&mut self) {
        if self.is_failing {
            tracing::info!("signer signs again");
            metrics::gauge!("gapless_signer_failing_lanes").decrement(1.0);
        }
        self.is_failing = false;
        self.handover_at = None;
        self.holds.reset();
    }

    /// Notes a batch that was begun at `began` and of which nothing is signed. True if the lane is to be handed over.
    fn fail(&mut self, began: Tick, now: Tick, random: u64) -> bool {
        if !self.is_failing {
            tracing::warn!("signer signs nothing; it is asked again with growing pauses");
            metrics::gauge!("gapless_signer_failing_lanes").increment(1.0);
        }
        self.is_failing = true;
        let holds = &mut self.holds;
        let at = *self.handover_at.get_or_insert_with(|| began.saturating_add(holds.next(random)));
        if now < at {
            return false;
        }
        tracing::warn!("signer signs nothing here; lane is handed over, and tried here again if it stays free");
        self.handover_at = None;
        true
    }
}

/// A number for the jitter of a time, other on each node, for each lane and at each time. A simulated run repeats it.
fn jitter(lease: &Lease, now: Tick) -> u64 {
    let mut hasher = DefaultHasher::new();
    lease.submitter().hash(&mut hasher);
    lease.owner().as_str().hash(&mut hasher);
    now.elapsed().hash(&mut hasher);
    hasher.finish()
}

/// Only a refusal is about the transaction. After any other failure the transaction is signed later or on another node.
fn failure(error: SignerError) -> SignFailure {
    let text = NodeText::new(&error.to_string());
    match error {
        SignerError::Refused(_) => SignFailure::Refused(text),
        SignerError::Unavailable(_) | SignerError::Busy(_) | SignerError::Timeout | SignerError::Mismatch(_) => {
            SignFailure::Unavailable(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Tick {
        Tick::since_start(SECOND * u32::try_from(seconds).unwrap())
    }

    fn record() -> SignerRecord {
        let holds = Backoff::new(5 * SECOND, 60 * SECOND);
        SignerRecord { size: BatchSize::default(), is_failing: false, holds, handover_at: None }
    }

    fn batch(count: usize, error: &SignerError) -> Vec<Result<SignedTx, SignerError>> {
        vec![Err(error.clone()); count]
    }

    fn signed() -> Result<SignedTx, SignerError> {
        Ok(SignedTx { hash: gapless_domain::B256::ZERO, raw: gapless_domain::Bytes::new() })
    }

    /// The value of the only gauge.
    #[derive(Debug, Default)]
    struct OneGauge(Arc<AtomicU64>);

    impl Recorder for OneGauge {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            assert_eq!(key.name(), "gapless_signer_failing_lanes");
            Gauge::from_arc(Arc::clone(&self.0))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn time_before_a_handover_doubles_until_a_signature() {
        let mut record = record();
        let (mut now, mut held) = (0, Vec::new());
        for _ in 0..6 {
            let began = now;
            while !record.fail(at(began), at(now), 0) {
                now += 1;
            }
            held.push(now - began);
        }
        assert_eq!(held, [5, 10, 20, 40, 60, 60]);
        record.recover();
        assert!(!record.fail(at(now), at(now + 4), 0) && record.fail(at(now + 4), at(now + 5), 0));
    }

    #[test]
    fn batch_that_was_not_asked_or_too_long_is_no_failure() {
        let mut record = record();
        let down = SignerError::Unavailable("down".to_owned());
        for error in [SignerError::Timeout, down.clone(), SignerError::Mismatch("sender")] {
            assert_eq!(record.note(&batch(8, &error)), BatchResult::Fails, "{error}");
        }
        assert_eq!(record.note(&batch(8, &SignerError::Busy(1))), BatchResult::TryAgain);
        let refused = SignerError::Refused("by a rule".to_owned());
        for answer in [signed(), Err(refused)] {
            let batch = [batch(3, &down), vec![answer]].concat();
            assert_eq!(record.note(&batch), BatchResult::Works);
        }
        assert_eq!(record.note(&batch(8, &SignerError::Timeout)), BatchResult::TryAgain, "4 were answered in time");
        assert_eq!(record.note(&batch(4, &SignerError::Timeout)), BatchResult::Fails);
        assert_eq!(record.size.limit(), Some(2));
    }

    #[test]
    fn busy_service_leaves_the_length_of_batches() {
        let mut record = record();
        let busy = batch(8, &SignerError::Busy(1));
        assert_eq!(record.note(&busy), BatchResult::TryAgain);
        assert_eq!(record.size.limit(), None);
        record.note(&batch(8, &SignerError::Timeout));
        assert_eq!(record.note(&busy), BatchResult::TryAgain);
        assert_eq!(record.note(&[busy, vec![signed()]].concat()), BatchResult::Works);
        assert_eq!(record.size.limit(), Some(4), "a batch that was signed in part is no success of its length");
    }

    #[test]
    fn failing_lane_is_counted_until_it_signs() {
        let gauge = OneGauge::default();
        let value = || f64::from_bits(gauge.0.load(Ordering::SeqCst));
        metrics::with_local_recorder(&gauge, || {
            let mut records = [record(), record()];
            records.iter_mut().for_each(|record| while !record.fail(at(0), at(9), 0) {});
            assert!(!records[0].fail(at(12), at(13), 0), "the lane is back, and held for longer");
            assert!((value() - 2.0).abs() < f64::EPSILON);
            records.iter_mut().for_each(SignerRecord::recover);
            records.iter_mut().for_each(SignerRecord::recover);
            assert!(value().abs() < f64::EPSILON);
        });
    }
}
