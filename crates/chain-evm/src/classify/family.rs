//! Client families and their tables.

use gapless_domain::names;

use super::table::{self, Table};

names! {
    /// The origin of an answer: a client, a chain whose clients share their texts, or (from `alchemy` on) a provider
    /// that passes on the texts of a client behind it.
    Family {
        Geth = "geth",
        Reth = "reth",
        Nethermind = "nethermind",
        Besu = "besu",
        Erigon = "erigon",
        Anvil = "anvil",
        Hardhat = "hardhat",
        Ganache = "ganache",
        Arbitrum = "arbitrum",
        Optimism = "optimism",
        Base = "base",
        Zksync = "zksync",
        PolygonBor = "polygon-bor",
        PolygonZkevm = "polygon-zkevm",
        Scroll = "scroll",
        Linea = "linea",
        Mantle = "mantle",
        Metis = "metis",
        Celo = "celo",
        Kaia = "kaia",
        Sei = "sei",
        Ethermint = "ethermint",
        Hedera = "hedera",
        Avalanche = "avalanche",
        Bsc = "bsc",
        Gnosis = "gnosis",
        OpenEthereum = "openethereum",
        Frontier = "frontier",
        Monad = "monad",
        Filecoin = "filecoin",
        Harmony = "harmony",
        Megaeth = "megaeth",
        Alchemy = "alchemy",
        Infura = "infura",
        Quicknode = "quicknode",
        Ankr = "ankr",
        Drpc = "drpc",
        Chainstack = "chainstack",
        OneRpc = "1rpc",
        Cloudflare = "cloudflare",
        Gateway = "gateway",
        Transport = "transport",
        ClientWrapped = "client-wrapped",
        Generic = "generic",
    }
}

impl Family {
    /// The tables of a family, its own first. A family has the table of another one only if it is a fork of it, embeds
    /// it, or copied its texts on purpose. `None` means that any client may be behind it.
    pub(crate) fn tables(self) -> Option<&'static [&'static Table]> {
        use table::*;
        Some(match self {
            Family::Geth => &[GETH],
            // Reth and anvil run revm and use the texts of geth by design. The EDR of hardhat runs revm too.
            Family::Reth => &[RETH, REVM, GETH],
            Family::Anvil => &[ANVIL, REVM, GETH],
            Family::Hardhat => &[HARDHAT, REVM, GETH],
            Family::Ganache => &[GANACHE, GETH],
            // Since 1.32 the texts of nethermind are "geth-canonical". Erigon is a fork of geth.
            Family::Nethermind => &[NETHERMIND, GETH],
            Family::Gnosis => &[GNOSIS, NETHERMIND, OPENETHEREUM, GETH],
            Family::Besu => &[BESU],
            Family::Linea => &[LINEA, BESU, GETH],
            Family::Erigon => &[ERIGON, GETH],
            // Forks of geth.
            Family::Arbitrum => &[ARBITRUM, GETH],
            Family::PolygonBor => &[GETH],
            Family::Bsc => &[BSC, GETH],
            Family::Scroll => &[SCROLL, GETH],
            Family::Metis => &[METIS, GETH],
            Family::Kaia => &[KAIA, GETH],
            Family::Avalanche => &[AVALANCHE, GETH],
            Family::Harmony => &[HARMONY, GETH],
            // Op-geth and op-reth behind proxyd, and the chains built on them.
            Family::Optimism | Family::Base => &[OPTIMISM, RETH, REVM, GETH],
            Family::Mantle => &[MANTLE, OPTIMISM, GETH],
            Family::Celo => &[CELO, OPTIMISM, GETH],
            Family::Megaeth => &[MEGAETH, RETH, REVM, GETH],
            // Built with packages of geth.
            Family::PolygonZkevm => &[POLYGON_ZKEVM, GETH],
            Family::Sei => &[SEI, COSMOS, GETH],
            Family::Ethermint => &[COSMOS, GETH],
            // Clients of their own that copy the texts of geth for wallets.
            Family::Zksync => &[ZKSYNC, GETH],
            Family::Frontier => &[FRONTIER, GETH],
            Family::Monad => &[MONAD, GETH],
            // Clients with their own texts. The relay of Hedera copied its error list from besu.
            Family::Hedera => &[HEDERA, BESU],
            Family::OpenEthereum => &[OPENETHEREUM],
            Family::Filecoin => &[FILECOIN],
            Family::Alchemy
            | Family::Infura
            | Family::Quicknode
            | Family::Ankr
            | Family::Drpc
            | Family::Chainstack
            | Family::OneRpc
            | Family::Cloudflare
            | Family::Gateway
            | Family::Transport
            | Family::ClientWrapped
            | Family::Generic => return None,
        })
    }
}
