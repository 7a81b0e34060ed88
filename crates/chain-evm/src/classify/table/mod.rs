//! The tables that map texts to reasons, family by family.
//!
//! A row is a reason with its patterns. Rows are tried from top to bottom, the table of a family before the tables that
//! it shares ([`Family::tables`](super::Family)), so special rows are above general ones. A pattern is the fixed part
//! of a client's message, without numbers and details, so that a suffix does not matter (C02).

mod carrier;
mod cosmos;
mod devnets;
mod execution;
mod geth;
mod geth_forks;
mod loose;
mod mainnet_clients;
mod nethermind;
mod other_chains;
mod rollups;
mod rust_clients;

use gapless_chain::Reason;

/// A reason with its patterns.
pub(crate) type Row = (Reason, &'static [&'static str]);

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) rows: &'static [Row],
}

pub(crate) use carrier::{CARRIER, WRAPPERS};
pub(crate) use cosmos::{COSMOS, SEI};
pub(crate) use devnets::{ANVIL, GANACHE, HARDHAT};
pub(crate) use execution::{EXECUTION, REVERTS};
pub(crate) use geth::GETH;
pub(crate) use geth_forks::{ARBITRUM, AVALANCHE, BSC, CELO, HARMONY, KAIA, MANTLE, METIS, OPTIMISM, SCROLL};
pub(crate) use loose::LOOSE;
pub(crate) use mainnet_clients::{BESU, ERIGON, GNOSIS, LINEA, OPENETHEREUM};
pub(crate) use nethermind::NETHERMIND;
pub(crate) use other_chains::{FILECOIN, FRONTIER, HEDERA, MONAD};
pub(crate) use rollups::{POLYGON_ZKEVM, ZKSYNC};
pub(crate) use rust_clients::{MEGAETH, RETH, REVM};
