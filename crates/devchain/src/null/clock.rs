//! The room that owns time: when a block is made, and how long an answer waits.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::NullChain;

/// Empty blocks that follow the last one with transactions as quickly as it came, so that depth is reached without waiting.
const TRAILING_BLOCKS: u32 = 3;
/// After those, this is how often there is one.
const HEARTBEAT: Duration = Duration::from_secs(1);

#[expect(clippy::disallowed_methods, reason = "blocks and arrivals are stamped with the machine's time")]
pub(super) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// When something is due that has to wait so long from now on.
#[expect(clippy::disallowed_methods, reason = "how long answers wait is counted here")]
pub(super) fn due_after(wait: Duration) -> Instant {
    Instant::now() + wait
}

/// Waits until then; forever, if that is never.
#[expect(clippy::disallowed_methods, reason = "waiting is what this room is for")]
pub(super) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// A block as soon as there is something to mine, and never two within the block time.
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
        // Nobody may be listening.
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
            // A wake-up from before may still be there: then nothing is found, and the wait goes on.
            () = chain.shared.work.notified() => {}
            () = until(Some(heartbeat)) => return,
        }
    }
}
