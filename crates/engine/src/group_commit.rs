//! Group commit: while one flush runs, the next batch collects. No item waits for a batch to fill.
//!
//! A lone item is flushed at once, alone; under load a batch holds everything that arrived during the flush before.
//! Both follow from one rule: a worker takes all waiting items, flushes them, and comes back for more.

use std::collections::VecDeque;
use std::future::Future;

use tokio::sync::{Mutex, mpsc, oneshot};

/// Limits of one flush and of the waiting items.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Items in one flush.
    pub items: usize,
    /// Bytes in one flush, by the items' own weight. A single item is always allowed.
    pub bytes: usize,
    /// Items that may wait. At this limit a caller waits before its item is taken.
    pub waiting: usize,
    /// Concurrent flushes.
    pub flushes: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        BatchLimits { items: 1000, bytes: 4 << 20, waiting: 4096, flushes: 2 }
    }
}

/// The weight of an item in a batch.
pub(crate) trait Weight {
    fn items(&self) -> usize;
    fn bytes(&self) -> usize;
}

/// The callers' end.
#[derive(Debug)]
pub(crate) struct BatchQueue<Op, Out> {
    sender: mpsc::Sender<Job<Op, Out>>,
}

impl<Op, Out> Clone for BatchQueue<Op, Out> {
    fn clone(&self) -> Self {
        BatchQueue { sender: self.sender.clone() }
    }
}

/// The flushing end. Its loop ends when every queue handle is dropped and every waiting item is flushed.
#[derive(Debug)]
pub(crate) struct BatchLoop<Op, Out> {
    waiting: Mutex<Waiting<Op, Out>>,
    limits: BatchLimits,
}

#[derive(Debug)]
struct Waiting<Op, Out> {
    receiver: mpsc::Receiver<Job<Op, Out>>,
    /// Items that were received but did not fit into a batch yet.
    leftover: VecDeque<Job<Op, Out>>,
}

/// An item and the channel for its answer.
#[derive(Debug)]
pub(crate) struct Job<Op, Out> {
    pub(crate) op: Op,
    pub(crate) reply: Reply<Out>,
}

/// The channel for the answer to an item.
#[derive(Debug)]
pub(crate) struct Reply<Out>(oneshot::Sender<Out>);

impl<Out> Reply<Out> {
    /// Answers the caller, if it still waits.
    pub(crate) fn answer(self, out: Out) {
        let _ = self.0.send(out);
    }
}

/// The error after the flushing loop has ended: the process is shutting down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the process is shutting down")]
pub(crate) struct Closed;

pub(crate) fn group_commit<Op: Weight, Out>(limits: BatchLimits) -> (BatchQueue<Op, Out>, BatchLoop<Op, Out>) {
    let (sender, receiver) = mpsc::channel(limits.waiting.max(1));
    let waiting = Mutex::new(Waiting { receiver, leftover: VecDeque::new() });
    (BatchQueue { sender }, BatchLoop { waiting, limits })
}

impl<Op, Out> BatchQueue<Op, Out> {
    /// Waits for the answer. The item is flushed even if the caller stops waiting.
    pub(crate) async fn submit(&self, op: Op) -> Result<Out, Closed> {
        let (reply, answer) = oneshot::channel();
        self.sender.send(Job { op, reply: Reply(reply) }).await.map_err(|_| Closed)?;
        answer.await.map_err(|_| Closed)
    }
}

impl<Op, Out> Job<Op, Out> {
    /// Has the caller stopped waiting for the answer?
    pub(crate) fn is_abandoned(&self) -> bool {
        self.reply.0.is_closed()
    }

    /// Answers the caller, if it still waits.
    pub(crate) fn answer(self, out: Out) {
        self.reply.answer(out);
    }
}

impl<Op: Weight, Out> BatchLoop<Op, Out> {
    /// Flushes until every queue handle is dropped, with `limits.flushes` workers. Jobs that `flush` returns begin the
    /// next batch of the same worker; other workers may be asleep over an empty channel.
    pub(crate) async fn run<F, Fut>(&self, flush: F)
    where
        F: Fn(Vec<Job<Op, Out>>) -> Fut,
        Fut: Future<Output = Vec<Job<Op, Out>>>,
    {
        let mut workers: Vec<_> =
            (0..self.limits.flushes.max(1)).map(|_| Some(Box::pin(self.run_one(&flush)))).collect();
        std::future::poll_fn(|context| {
            for worker in &mut workers {
                if worker.as_mut().is_some_and(|running| running.as_mut().poll(context).is_ready()) {
                    *worker = None;
                }
            }
            if workers.iter().all(Option::is_none) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }

    async fn run_one<F, Fut>(&self, flush: &F)
    where
        F: Fn(Vec<Job<Op, Out>>) -> Fut,
        Fut: Future<Output = Vec<Job<Op, Out>>>,
    {
        let mut returned = Vec::new();
        loop {
            let batch = if returned.is_empty() { self.next_batch().await } else { Some(self.join_in(returned)) };
            match batch {
                Some(batch) => returned = flush(batch).await,
                None => return,
            }
        }
    }

    /// All waiting items, within the limits; waits only if there are none.
    async fn next_batch(&self) -> Option<Vec<Job<Op, Out>>> {
        let mut waiting = self.waiting.lock().await;
        if waiting.leftover.is_empty() {
            let first = waiting.receiver.recv().await?;
            waiting.leftover.push_back(first);
        }
        Some(waiting.take(&self.limits))
    }

    /// The returned jobs, plus waiting items. A worker that holds the lock waits for a first item, so there are none
    /// then.
    fn join_in(&self, mut returned: Vec<Job<Op, Out>>) -> Vec<Job<Op, Out>> {
        if returned.len() < self.limits.items
            && let Ok(mut waiting) = self.waiting.try_lock()
        {
            returned.extend(waiting.take(&self.limits));
        }
        returned
    }
}

impl<Op: Weight, Out> Waiting<Op, Out> {
    fn take(&mut self, limits: &BatchLimits) -> Vec<Job<Op, Out>> {
        while self.leftover.len() < limits.items {
            match self.receiver.try_recv() {
                Ok(job) => self.leftover.push_back(job),
                Err(_) => break,
            }
        }
        let (mut items, mut bytes, mut taken) = (0_usize, 0_usize, 0_usize);
        for job in &self.leftover {
            items = items.saturating_add(job.op.items());
            bytes = bytes.saturating_add(job.op.bytes());
            if taken > 0 && (items > limits.items || bytes > limits.bytes) {
                break;
            }
            taken += 1;
        }
        self.leftover.drain(..taken).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;

    struct Number(usize);

    impl Weight for Number {
        fn items(&self) -> usize {
            1
        }

        fn bytes(&self) -> usize {
            self.0
        }
    }

    fn limits() -> BatchLimits {
        BatchLimits { items: 100, bytes: 1000, waiting: 100, flushes: 1 }
    }

    #[tokio::test]
    async fn next_batch_collects_during_a_flush() {
        let (queue, batches) = group_commit::<Number, usize>(limits());
        let gate = Arc::new(Semaphore::new(0));
        let sizes = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (held, flushed) = (Arc::clone(&gate), Arc::clone(&sizes));
        let flush = move |batch: Vec<Job<Number, usize>>| {
            let (held, flushed) = (Arc::clone(&held), Arc::clone(&flushed));
            async move {
                flushed.lock().unwrap().push(batch.len());
                held.acquire().await.unwrap().forget();
                for job in batch {
                    let value = job.op.0;
                    job.answer(value);
                }
                Vec::new()
            }
        };
        let callers = async move {
            let first = queue.submit(Number(0));
            let rest = async {
                // By now the first item is being flushed, alone.
                let many: Vec<_> = (1..=9).map(|n| Box::pin(queue.submit(Number(n)))).collect();
                let release = async { gate.add_permits(2) };
                let (answers, ()) = tokio::join!(biased; join_all(many), release);
                answers
            };
            tokio::join!(biased; first, rest)
        };
        let ((first, rest), ()) = tokio::join!(callers, batches.run(flush));
        assert_eq!(first, Ok(0));
        assert_eq!(rest, (1..=9).map(Ok).collect::<Vec<_>>());
        assert_eq!(sizes.lock().unwrap().iter().sum::<usize>(), 10);
        assert!(sizes.lock().unwrap().len() <= 2, "{sizes:?}");
    }

    #[tokio::test]
    async fn batch_respects_item_and_byte_limits() {
        let (queue, batches) = group_commit::<Number, ()>(BatchLimits { items: 3, bytes: 50, ..limits() });
        let largest = AtomicUsize::new(0);
        let heaviest = AtomicUsize::new(0);
        let flush = async |batch: Vec<Job<Number, ()>>| {
            largest.fetch_max(batch.len(), Ordering::SeqCst);
            if batch.len() > 1 {
                heaviest.fetch_max(batch.iter().map(|job| job.op.0).sum(), Ordering::SeqCst);
            }
            batch.into_iter().for_each(|job| job.answer(()));
            Vec::new()
        };
        let callers = async move {
            // The last item is heavier than any batch may be, and goes alone.
            let many: Vec<_> = [1, 1, 1, 1, 1, 30, 30, 30, 70].map(|n| Box::pin(queue.submit(Number(n)))).into();
            join_all(many).await
        };
        let (answers, ()) = tokio::join!(callers, batches.run(flush));
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(largest.load(Ordering::SeqCst), 3);
        assert!(heaviest.load(Ordering::SeqCst) <= 50);
    }

    #[tokio::test]
    async fn job_of_dropped_caller_is_abandoned() {
        let (queue, batches) = group_commit::<Number, usize>(limits());
        let callers = async move {
            let mut dropped = Box::pin(queue.submit(Number(1)));
            assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(dropped.as_mut().poll(cx).is_pending())).await);
            drop(dropped);
            queue.submit(Number(2)).await
        };
        let seen = std::sync::Mutex::new(Vec::new());
        let flush = async |batch: Vec<Job<Number, usize>>| {
            for job in batch {
                seen.lock().unwrap().push((job.op.0, job.is_abandoned()));
                job.answer(0);
            }
            Vec::new()
        };
        let (answer, ()) = tokio::join!(biased; callers, batches.run(flush));
        assert_eq!(answer, Ok(0));
        assert_eq!(seen.into_inner().unwrap(), [(1, true), (2, false)]);
    }

    /// Holds even if another worker has the lock and sleeps.
    #[tokio::test]
    async fn returned_jobs_are_flushed_again_first() {
        let (queue, batches) = group_commit::<Number, usize>(BatchLimits { flushes: 3, ..limits() });
        let round = AtomicUsize::new(0);
        let flush = async |batch: Vec<Job<Number, usize>>| {
            let round = round.fetch_add(1, Ordering::SeqCst);
            if round == 0 {
                return batch;
            }
            batch.into_iter().for_each(|job| job.answer(round));
            Vec::new()
        };
        let caller = async move { queue.submit(Number(1)).await };
        let (answer, ()) = tokio::join!(caller, batches.run(flush));
        assert_eq!(answer, Ok(1));
    }

    async fn join_all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
        let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
        std::future::poll_fn(|context| {
            for (future, out) in futures.iter_mut().zip(&mut done) {
                if out.is_none()
                    && let std::task::Poll::Ready(value) = std::pin::Pin::new(future).poll(context)
                {
                    *out = Some(value);
                }
            }
            if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        done.into_iter().flatten().collect()
    }
}
