//! The time-out of a signer, and the bound of calls to a service.
#![allow(clippy::disallowed_methods, reason = "a test owns its own time")]
#![allow(clippy::unwrap_used, reason = "the helpers of a test panic too")]

#[allow(dead_code, reason = "not every test file uses all of it")]
mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use gapless_signer::conformance::{input, verify};
use gapless_signer::{Signer, SignerError, SigningBounds, SigningInput, SigningLimits, Timer as _};
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use support::{TestService, TestTimer};

const SECOND: Duration = Duration::from_secs(1);

fn bounds(timer: &Arc<TestTimer>, limits: SigningLimits) -> SigningBounds {
    SigningBounds::new(limits, Arc::clone(timer) as _)
}

fn inputs(count: usize) -> Vec<SigningInput> {
    (0..count).map(|number| input(&format!("input {number}"))).collect()
}

#[tokio::test(start_paused = true)]
async fn hanging_signer_ends_at_the_timeout() {
    let (timer, service) = (TestTimer::start(), TestService::new("kms", None));
    let signer = bounds(&timer, SigningLimits::default()).bound(service);
    let answers = signer.sign_many(&inputs(3)).await;
    assert_eq!(answers, vec![Err(SignerError::Timeout); 3]);
    assert_eq!(timer.now().elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn late_answer_of_a_call_is_dropped() {
    let (timer, service) = (TestTimer::start(), TestService::new("kms", Some(7 * SECOND)));
    let signer = bounds(&timer, SigningLimits::default()).bound(Arc::clone(&service) as _);
    assert_eq!(signer.sign_many(&inputs(1)).await, [Err(SignerError::Timeout)]);
    *service.latency.lock().unwrap() = Some(SECOND);
    let next = [input("next")];
    let answers = signer.sign_many(&next).await;
    assert!(verify(signer.public_key(), &next[0], answers[0].as_ref().unwrap()), "the answer is of the second call");
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(service.answered.load(Ordering::SeqCst), 1, "the first call was dropped");
}

#[tokio::test(start_paused = true)]
async fn refused_input_leaves_other_inputs_signed() {
    let (timer, service) = (TestTimer::start(), TestService::new("kms", Some(SECOND)));
    service.refused.lock().unwrap().insert("input 1".to_owned());
    let signer = bounds(&timer, SigningLimits { batch_max: 2, ..SigningLimits::default() }).bound(service);
    let answers = signer.sign_many(&inputs(4)).await;
    let signed: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(signed, [true, false, true, true]);
    assert!(matches!(answers[1], Err(SignerError::Refused(_))));
}

#[tokio::test(start_paused = true)]
async fn calls_to_one_service_stay_within_the_bound() {
    let (timer, service) = (TestTimer::start(), TestService::new("kms", Some(SECOND)));
    let limits = SigningLimits { concurrency: 3, ..SigningLimits::default() };
    let bounds = bounds(&timer, limits);
    // Every lane has a signer of its own, and all of them use one service.
    let signers: Vec<_> = (0..9).map(|_| bounds.bound(Arc::clone(&service) as Arc<dyn Signer>)).collect();
    let one = inputs(1);
    let answers = join_all(signers.iter().map(|signer| signer.sign_many(&one))).await;
    assert!(answers.iter().flatten().all(Result::is_ok));
    assert_eq!(service.most_running.load(Ordering::SeqCst), 3);
    assert_eq!(timer.now().elapsed(), 3 * SECOND, "three rounds of three calls");
}

#[tokio::test(start_paused = true)]
async fn hanging_service_does_not_delay_another_service() {
    let timer = TestTimer::start();
    let bounds = bounds(&timer, SigningLimits { concurrency: 1, ..SigningLimits::default() });
    let hanging = bounds.bound(TestService::new("hangs", None));
    let good = bounds.bound(TestService::new("good", Some(SECOND)));
    let one = inputs(1);
    let answered = async {
        assert!(good.sign_many(&one).await[0].is_ok());
        timer.now().elapsed()
    };
    let (hung, answered) = tokio::join!(hanging.sign_many(&one), answered);
    assert_eq!((hung, answered), (vec![Err(SignerError::Timeout)], SECOND));
}

/// A lane behind a service that hangs must end like the lanes whose calls hang. A lane behind a service that only is
/// busy tries again.
#[tokio::test(start_paused = true)]
async fn waiting_call_tells_hanging_from_busy_service() {
    for (latency, expected) in [(None, "timeout"), (Some(3 * SECOND), "unavailable")] {
        let (timer, service) = (TestTimer::start(), TestService::new("kms", latency));
        let bounds = bounds(&timer, SigningLimits { concurrency: 1, ..SigningLimits::default() });
        let signers: Vec<_> = (0..3).map(|_| bounds.bound(Arc::clone(&service) as Arc<dyn Signer>)).collect();
        let one = inputs(1);
        let answers = join_all(signers.iter().map(|signer| signer.sign_many(&one))).await;
        assert_eq!(answers[2][0].as_ref().unwrap_err().reason(), expected);
        assert_eq!(timer.now().elapsed(), 5 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn wait_and_call_share_one_deadline() {
    // The second call waits for the first one, and would end at twice the duration of a call.
    for (latency, expected) in [(2 * SECOND, None), (3 * SECOND, Some(SignerError::Busy(1)))] {
        let (timer, service) = (TestTimer::start(), TestService::new("kms", Some(latency)));
        let bounds = bounds(&timer, SigningLimits { concurrency: 1, ..SigningLimits::default() });
        let signers: Vec<_> = (0..2).map(|_| bounds.bound(Arc::clone(&service) as Arc<dyn Signer>)).collect();
        let one = inputs(1);
        let answers = join_all(signers.iter().map(|signer| signer.sign_many(&one))).await;
        assert!(answers[0][0].is_ok());
        assert_eq!(answers[1][0].clone().err(), expected);
        assert_eq!(timer.now().elapsed(), (2 * latency).min(5 * SECOND), "one time-out in all");
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_call_after_a_short_wait_is_a_timeout() {
    let (timer, service) = (TestTimer::start(), TestService::new("kms", Some(SECOND)));
    let bounds = bounds(&timer, SigningLimits { concurrency: 1, ..SigningLimits::default() });
    let signers: Vec<_> = (0..2).map(|_| bounds.bound(Arc::clone(&service) as Arc<dyn Signer>)).collect();
    let one = inputs(1);
    let hangs_later = async {
        tokio::time::sleep(SECOND / 2).await;
        *service.latency.lock().unwrap() = None;
    };
    let (first, second, ()) = tokio::join!(signers[0].sign_many(&one), signers[1].sign_many(&one), hangs_later);
    assert!(first[0].is_ok());
    assert_eq!(second, [Err(SignerError::Timeout)], "the call had most of its time");
}

#[tokio::test(start_paused = true)]
async fn long_batch_is_split_into_calls_at_once() {
    let (timer, service) = (TestTimer::start(), TestService::new("kms", Some(SECOND)));
    let signer = bounds(&timer, SigningLimits::default()).bound(Arc::clone(&service) as _);
    let inputs = inputs(250);
    let answers = signer.sign_many(&inputs).await;
    assert_eq!(*service.calls.lock().unwrap(), [100, 100, 50]);
    assert_eq!(timer.now().elapsed(), SECOND);
    for (input, answer) in inputs.iter().zip(answers) {
        assert!(verify(signer.public_key(), input, &answer.unwrap()));
    }
}

/// Counts by the labels of a counter, and the values of histograms.
#[derive(Debug, Default)]
struct Recorded {
    counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    values: Arc<Values>,
}

#[derive(Debug, Default)]
struct Values(Mutex<Vec<f64>>);

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<&str> = key.labels().map(|label| label.value()).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Counter::from_arc(Arc::clone(self.counters.lock().unwrap().entry(name).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        assert_eq!(key.name(), "gapless_signer_seconds");
        Histogram::from_arc(Arc::clone(&self.values))
    }
}

#[tokio::test(start_paused = true)]
async fn failures_and_durations_are_measured() {
    let recorded = Recorded::default();
    let _recorder = metrics::set_default_local_recorder(&recorded);
    let (timer, service) = (TestTimer::start(), TestService::new("kms", Some(SECOND)));
    service.refused.lock().unwrap().insert("input 1".to_owned());
    let signer = bounds(&timer, SigningLimits::default()).bound(Arc::clone(&service) as _);
    signer.sign_many(&inputs(2)).await;
    *service.latency.lock().unwrap() = None;
    signer.sign_many(&inputs(3)).await;
    let count = |reason: &str| {
        let counters = recorded.counters.lock().unwrap();
        counters.get(&format!("gapless_signer_failures_total {reason}")).map_or(0, |count| count.load(Ordering::SeqCst))
    };
    assert_eq!((count("refused"), count("timeout"), count("unavailable")), (1, 3, 0));
    assert_eq!(*recorded.values.0.lock().unwrap(), [1.0, 5.0]);
}
