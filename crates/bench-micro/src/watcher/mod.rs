//! The cost of watching a chain per block, by the number of open transactions (R01).
//!
//! A whole engine with the EVM adapter and SQLite runs against the dev chain in a process of its own, so that only the
//! engine's time counts. After the setup, an empty block comes every second. The number of lanes is equal in all rows,
//! and no transaction is sent again, so the rows differ only by the open transactions. Work by the clock is on in some
//! rows.
//!
//! - `chain_process`: the dev chain and its control. `node`: the engine. `cpu`: this process's time. `table`: the
//!   result.

mod chain_process;
mod cpu;
mod node;
mod table;

use std::time::Duration;

use chain_process::ChainProcess;
pub(crate) use chain_process::{CHAIN_ARGUMENT, serve};
use cpu::cpu_time;
use node::Node;
use table::{Row, Table};

const OPEN: [usize; 3] = [10, 1_000, 20_000];
const BLOCK_TIME: Duration = Duration::from_secs(1);
/// Number of first blocks that do not count: work that waited for a head is done by then.
const WARM_UP_BLOCKS: usize = 3;

/// The state of the open transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sent, and in no block.
    Sent,
    /// Sent so long ago that the watcher looks them up by hash, up to its limit per head.
    Stale,
    /// In a block, and not final.
    Mined,
    /// Sent and in no block, with all work that lanes and nodes do by the clock.
    ByTheClock,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Sent, Kind::Stale, Kind::Mined, Kind::ByTheClock];

    fn name(self) -> &'static str {
        match self {
            Kind::Sent => "sent",
            Kind::Stale => "sent long ago",
            Kind::Mined => "mined, not final",
            Kind::ByTheClock => "sent, with the clock",
        }
    }
}

/// Measures so many blocks for each kind and number.
pub(crate) async fn measure(blocks: usize) -> Table {
    let mut table = Table::default();
    for kind in Kind::ALL {
        for open in OPEN {
            eprintln!("{} open, {} …", open, kind.name());
            table.push(row(kind, open, blocks).await);
        }
    }
    table
}

async fn row(kind: Kind, open: usize, blocks: usize) -> Row {
    let mut chain = ChainProcess::start();
    let node = Node::start(&chain.url(), kind).await;
    let ids = node.accept(open).await;
    node.until_sent(&mut chain, open).await;
    if kind == Kind::Mined {
        node.until_mined(&mut chain, &ids).await;
    }
    for _ in 0..WARM_UP_BLOCKS {
        chain.mine_empty();
        tokio::time::sleep(BLOCK_TIME).await;
    }
    let (calls, cpu) = (chain.calls(), cpu_time());
    for _ in 0..blocks {
        chain.mine_empty();
        tokio::time::sleep(BLOCK_TIME).await;
    }
    let (cpu, calls_after) = (cpu_time() - cpu, chain.calls());
    let seen = node.head();
    let behind = chain.head().saturating_sub(seen);
    let still_open = node.still_open(&ids).await;
    node.end().await;
    let mut by_method = calls_after;
    for (method, count) in &mut by_method {
        *count -= calls.get(method).copied().unwrap_or_default();
    }
    Row { kind, open: still_open, blocks, by_method, cpu, behind }
}
