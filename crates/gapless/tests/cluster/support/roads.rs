//! The roads of one node, to its database and to its chain: each can be cut without the other.

use gapless_testbed::FaultProxy;

use super::node::NAMES;
use super::{Chain, Database, Node, NodeConfig};

#[derive(Debug)]
pub(crate) struct Roads {
    pub(crate) database: FaultProxy,
    pub(crate) chain: FaultProxy,
    /// Where they lead to.
    ports: (u16, u16),
}

impl Roads {
    pub(crate) fn to(database: &Database, chain: &Chain) -> Self {
        let ports = (database.port(), chain.port());
        let road = |port| FaultProxy::start(port).unwrap();
        Roads { database: road(ports.0), chain: road(ports.1), ports }
    }

    /// The same config, for a node that has nothing but these roads.
    pub(crate) fn lead(&self, config: &NodeConfig) -> NodeConfig {
        config.redirected(self.ports.0, self.database.port()).redirected(self.ports.1, self.chain.port())
    }

    pub(crate) fn heal(&self) {
        self.database.heal();
        self.chain.heal();
    }
}

/// Nodes `a`, `b` and `c`, each with roads of its own.
pub(crate) async fn three_on_roads(config: &NodeConfig, database: &Database, chain: &Chain) -> ([Roads; 3], Vec<Node>) {
    let roads = NAMES.map(|_| Roads::to(database, chain));
    let starts = NAMES.into_iter().zip(&roads).map(async |(name, roads)| {
        let config = roads.lead(config);
        Node::start(name, &config).await
    });
    let nodes = futures_util::future::join_all(starts).await;
    (roads, nodes)
}
