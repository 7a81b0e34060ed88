//! The proxies between one node and its database and its chain. Each can be cut without the other.

use gapless_testbed::FaultProxy;

use super::node::NAMES;
use super::{NodeProcess, TestChain, TestDatabase, TestNodeConfig};

#[derive(Debug)]
pub(crate) struct NodeProxies {
    pub(crate) database: FaultProxy,
    pub(crate) chain: FaultProxy,
    /// The ports of the database and the chain.
    ports: (u16, u16),
}

impl NodeProxies {
    pub(crate) fn to(database: &TestDatabase, chain: &TestChain) -> Self {
        let ports = (database.port(), chain.port());
        let proxy = |port| FaultProxy::start(port).unwrap();
        NodeProxies { database: proxy(ports.0), chain: proxy(ports.1), ports }
    }

    /// The config with the URLs of these proxies.
    pub(crate) fn redirect(&self, config: &TestNodeConfig) -> TestNodeConfig {
        config.redirected(self.ports.0, self.database.port()).redirected(self.ports.1, self.chain.port())
    }

    pub(crate) fn heal(&self) {
        self.database.heal();
        self.chain.heal();
    }
}

/// Starts the nodes `a`, `b` and `c`, each with its own proxies.
pub(crate) async fn start_three_behind_proxies(
    config: &TestNodeConfig,
    database: &TestDatabase,
    chain: &TestChain,
) -> ([NodeProxies; 3], Vec<NodeProcess>) {
    let proxies = NAMES.map(|_| NodeProxies::to(database, chain));
    let starts = NAMES.into_iter().zip(&proxies).map(async |(name, proxies)| {
        let config = proxies.redirect(config);
        NodeProcess::start(name, &config).await
    });
    let nodes = futures_util::future::join_all(starts).await;
    (proxies, nodes)
}
