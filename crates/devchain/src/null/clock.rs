//! Time of the null chain: when blocks are made, and how long answers wait. Only this module reads the clock.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::NullChain;

/// Number of empty blocks that follow a block with transactions at the block time, so that transactions get deep
/// quickly.
const TRAILING_BLOCKS: u32 = 3;
/// Interval of empty blocks while the chain is idle.
const HEARTBEAT: Duration = Duration::from_secs(1);

#[expect(clippy::disallowed_methods, reason = "blocks and arrivals are stamped with the machine's time")]
pub(super) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The instant after a duration from now.
#[expect(clippy::disallowed_methods, reason = "the latency of answers is measured here")]
pub(super) fn due_after(wait: Duration) -> Instant {
    Instant::now() + wait
}

/// Waits until the instant. `None` waits forever.
#[expect(clippy::disallowed_methods, reason = "all waiting of the null chain is here")]
pub(super) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Makes a block as soon as transactions can be mined, with at least the block time between two blocks.
pub(super) async fn make_blocks(chain: &NullChain) {
    let block_time = chain.shared.options.block_time;
    let mut trailing = TRAILING_BLOCKS;
    loop {
        until(Some(due_after(block_time))).await;
        if trailing >= TRAILING_BLOCKS {
            work_or_heartbeat(chain).await;
        }
        let block = chain.core().mine(now_micros());
        trailing = if block.txs.is_empty() { trailing.saturating_add(1) } else { 0 };
        // The send fails if no subscriber exists.
        let _ = chain.shared.heads.send(Arc::clone(&block));
    }
}

async fn work_or_heartbeat(chain: &NullChain) {
    let heartbeat = due_after(HEARTBEAT);
    loop {
        if chain.core().has_work() {
            return;
        }
        tokio::select! {
            // The notification may be an old one. Then the pool has no work, and the loop waits again.
            () = chain.shared.work.notified() => {}
            () = until(Some(heartbeat)) => return,
        }
    }
}
