//! The client family of an endpoint, by its version text and its chain.

use super::family::Family;

/// Dev nodes have their own error texts, whatever chain they simulate.
const DEV_NODES: &[(&str, Family)] = &[
    ("anvil", Family::Anvil),
    ("hardhat", Family::Hardhat),
    ("ganache", Family::Ganache),
    ("ethereumjs testrpc", Family::Ganache),
];

/// Chains whose clients share their error texts, although many call themselves Geth.
const CHAINS: &[(&[u64], Family)] = &[
    (&[10, 11_155_420], Family::Optimism),
    (&[8453, 84_532], Family::Base),
    (&[42_161, 42_170, 421_614], Family::Arbitrum),
    (&[324, 300], Family::Zksync),
    (&[137, 80_002], Family::PolygonBor),
    (&[1101, 2442], Family::PolygonZkevm),
    (&[534_352, 534_351], Family::Scroll),
    (&[59_144, 59_141], Family::Linea),
    (&[5000, 5003], Family::Mantle),
    (&[1088, 59_902], Family::Metis),
    (&[42_220, 44_787], Family::Celo),
    (&[8217, 1001], Family::Kaia),
    (&[1329, 1328], Family::Sei),
    (&[9001, 9000], Family::Ethermint),
    (&[295, 296, 297], Family::Hedera),
    (&[43_114, 43_113], Family::Avalanche),
    (&[56, 97], Family::Bsc),
    (&[100, 10_200], Family::Gnosis),
    (&[1284, 1285, 1287], Family::Frontier),
    (&[143, 10_143], Family::Monad),
    (&[314, 314_159], Family::Filecoin),
    (&[1_666_600_000, 1_666_700_000], Family::Harmony),
    (&[4326, 6342, 6343], Family::Megaeth),
];

/// Prefixes of `web3_clientVersion`, in lower case.
const CLIENTS: &[(&str, Family)] = &[
    ("op-geth", Family::Optimism),
    ("op-reth", Family::Optimism),
    ("base-", Family::Base),
    ("geth", Family::Geth),
    ("reth", Family::Reth),
    ("nethermind", Family::Nethermind),
    ("besu", Family::Besu),
    ("erigon", Family::Erigon),
    ("nitro", Family::Arbitrum),
    ("arb", Family::Arbitrum),
    ("zksync", Family::Zksync),
    ("bor", Family::PolygonBor),
    ("linea", Family::Linea),
    ("celo", Family::Celo),
    ("klaytn", Family::Kaia),
    ("kaia", Family::Kaia),
    ("evmos", Family::Ethermint),
    ("ethermint", Family::Ethermint),
    ("sei", Family::Sei),
    ("relay/", Family::Hedera),
    ("openethereum", Family::OpenEthereum),
    ("parity", Family::OpenEthereum),
    ("frontier", Family::Frontier),
    ("moonbeam", Family::Frontier),
    ("monad", Family::Monad),
    ("lotus", Family::Filecoin),
    ("harmony", Family::Harmony),
    ("megaeth", Family::Megaeth),
];

/// The family, or `None` if it is unknown. The classifier then uses the tables of all families.
pub(crate) fn family_of(chain: u64, client_version: Option<&str>) -> Option<Family> {
    let version = client_version.unwrap_or_default().trim().to_ascii_lowercase();
    let named =
        |list: &[(&str, Family)]| list.iter().find(|(name, _)| version.starts_with(name)).map(|(_, family)| *family);
    let chains = || CHAINS.iter().find(|(ids, _)| ids.contains(&chain)).map(|(_, family)| *family);
    named(DEV_NODES).or_else(chains).or_else(|| named(CLIENTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_follows_the_client_unless_the_chain_decides() {
        for (chain, version, family) in [
            (1, Some("Geth/v1.15.0-stable/linux-amd64/go1.23"), Some(Family::Geth)),
            (1, Some("reth/v1.9.0-84785f0/x86_64"), Some(Family::Reth)),
            (1, Some("Nethermind/v1.32.0+abc/linux-x64"), Some(Family::Nethermind)),
            (1, Some("besu/v25.1/linux"), Some(Family::Besu)),
            (56, Some("Geth/v1.5.12-stable"), Some(Family::Bsc)),
            (10, None, Some(Family::Optimism)),
            (10, Some("anvil/v1.5.0"), Some(Family::Anvil)),
            (31337, Some("HardhatNetwork/2.22"), Some(Family::Hardhat)),
            (412_346, Some("nitro/v3.2"), Some(Family::Arbitrum)),
            (1, Some("unknown/v1"), None),
            (1, None, None),
        ] {
            assert_eq!(family_of(chain, version), family, "{chain} {version:?}");
        }
    }
}
