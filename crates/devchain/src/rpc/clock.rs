//! Time of the dev chain: its clock and interval mining. Only this module reads the clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::chain::DevChain;
use crate::error::ChainError;

/// The source of block times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    Wall,
    /// The chain's time moves only by control calls, so that a run can be repeated hash by hash.
    Manual,
}

impl Clock {
    /// Sets the chain's time, if this clock is the machine's.
    #[expect(clippy::disallowed_methods, reason = "blocks of a dev chain are stamped with the machine's time")]
    pub(crate) fn apply_to(self, chain: &DevChain) {
        if self == Self::Wall {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            chain.set_time(since.as_secs());
        }
    }
}

/// When blocks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mining {
    /// At a fixed interval.
    Interval(Duration),
    /// Immediately for every accepted transaction.
    PerTransaction,
    /// Only on request (`evm_mine`).
    OnDemand,
}

/// Changes the mining mode at run time. Clones are handles to the same switch.
#[derive(Clone, Debug)]
pub struct MiningSwitch {
    interval: watch::Sender<Option<Duration>>,
    chain: DevChain,
}

impl MiningSwitch {
    pub fn set(&self, mining: Mining) {
        self.chain.set_automine(mining == Mining::PerTransaction);
        match mining {
            Mining::Interval(interval) => self.set_interval(Some(interval)),
            Mining::PerTransaction | Mining::OnDemand => self.set_interval(None),
        }
    }

    /// Sets the interval of blocks, in addition to other modes. `None` ends interval mining.
    pub fn set_interval(&self, interval: Option<Duration>) {
        self.interval.send_replace(interval.filter(|interval| !interval.is_zero()));
    }
}

/// Makes blocks at an interval. The caller must drive [`BlockProducer::run`].
#[derive(Debug)]
pub struct BlockProducer {
    chain: DevChain,
    clock: Clock,
    interval: watch::Receiver<Option<Duration>>,
    switch: MiningSwitch,
}

impl BlockProducer {
    pub fn new(chain: DevChain, mining: Mining, clock: Clock) -> Self {
        let (sender, interval) = watch::channel(None);
        let switch = MiningSwitch { interval: sender, chain: chain.clone() };
        clock.apply_to(&chain);
        switch.set(mining);
        Self { chain, clock, interval, switch }
    }

    pub fn switch(&self) -> MiningSwitch {
        self.switch.clone()
    }

    /// Makes blocks until `shutdown` completes, or until the chain accepts no more.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), ChainError> {
        tokio::pin!(shutdown);
        loop {
            let interval = *self.interval.borrow_and_update();
            tokio::select! {
                // In this order: after the end of the interval, no further block of it appears.
                biased;
                () = &mut shutdown => return Ok(()),
                // The producer holds a sender, so the result is always a change.
                _ = self.interval.changed() => {}
                () = pause(interval) => {
                    self.clock.apply_to(&self.chain);
                    self.chain.mine_now()?;
                }
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "interval mining waits here")]
async fn pause(interval: Option<Duration>) {
    match interval {
        Some(interval) => tokio::time::sleep(interval).await,
        None => std::future::pending().await,
    }
}
