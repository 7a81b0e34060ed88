//! The room that owns time: which clock the chain goes by, and the blocks that come by themselves.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::chain::DevChain;
use crate::error::ChainError;

/// Which clock gives blocks their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The machine's.
    #[default]
    Wall,
    /// Nobody's: the chain's time moves only when it is told to, so that a run can be repeated hash by hash.
    Manual,
}

impl Clock {
    /// Tells the chain what time it is, if that is this clock's business.
    #[expect(clippy::disallowed_methods, reason = "blocks of a dev chain are stamped with the machine's time")]
    pub(crate) fn tell(self, chain: &DevChain) {
        if self == Self::Wall {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            chain.set_time(since.as_secs());
        }
    }
}

/// When blocks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mining {
    /// Every so often.
    Interval(Duration),
    /// At once for every transaction that is accepted.
    PerTransaction,
    /// Only when somebody asks for one (`evm_mine`).
    OnDemand,
}

/// Changes when blocks are made, while they are being made. Clones are handles onto the same switch.
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

    /// A block every so often, beside whatever else makes blocks; `None` ends it.
    pub fn set_interval(&self, interval: Option<Duration>) {
        self.interval.send_replace(interval.filter(|interval| !interval.is_zero()));
    }
}

/// Makes blocks on an interval. It does nothing until somebody drives [`BlockProducer::run`].
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
        clock.tell(&chain);
        switch.set(mining);
        Self { chain, clock, interval, switch }
    }

    pub fn switch(&self) -> MiningSwitch {
        self.switch.clone()
    }

    /// Makes blocks until `shutdown` is over, or until the chain takes no more.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), ChainError> {
        tokio::pin!(shutdown);
        loop {
            let interval = *self.interval.borrow_and_update();
            tokio::select! {
                // In this order: whoever has ended the interval sees no block of it any more.
                biased;
                () = &mut shutdown => return Ok(()),
                // The switch lives as long as we do, so this is always a change.
                _ = self.interval.changed() => {}
                () = pause(interval) => {
                    self.clock.tell(&self.chain);
                    self.chain.mine_now()?;
                }
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "blocks on an interval are what this room is for")]
async fn pause(interval: Option<Duration>) {
    match interval {
        Some(interval) => tokio::time::sleep(interval).await,
        None => std::future::pending().await,
    }
}
