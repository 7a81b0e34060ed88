//! What watching a chain costs a block, by how many transactions are open (R01).
//!
//! A whole engine with the EVM adapter and SQLite, against the dev chain in a process of its own, so that only the engine's time is
//! counted. It is brought to so many open transactions; then a block without transactions comes every second, and nothing else
//! happens. The number of lanes is the same in all rows, and nothing is sent again while it is measured, so what differs is what
//! the open transactions cost. What goes by the clock and not by blocks is on in some rows only.
//!
//! - `chain_process`: the dev chain, and what it is told. `node`: the engine on it. `cpu`: this process's time. `table`: the result.

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
/// Blocks before the first that counts: what was put off until there was a head is done by then.
const WARM_UP_BLOCKS: usize = 3;

/// What the open transactions are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sent, and in no block.
    Sent,
    /// The same, and for so long that the watcher asks for them by hash, as many a head as it may.
    Stale,
    /// In a block, and not final.
    Mined,
    /// As those that are sent, with all that lanes and nodes do by the clock, as often as they do it.
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

/// So many blocks for each kind and number.
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
