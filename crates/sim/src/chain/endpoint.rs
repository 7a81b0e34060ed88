//! One endpoint: its client family, its pool, and its condition.

use std::time::Duration;

use super::block_tree::BlockId;
use super::pool::TxPool;
use super::texts::{ClientFamily, FAMILIES};
use crate::dice::Dice;

/// The longest time that a block takes to reach a healthy endpoint.
const LATEST_BLOCK: Duration = Duration::from_millis(400);
/// The numbers of transactions that a pool keeps of one account. The smallest is below what a lane may have in flight.
const LIMITS: [usize; 3] = [8, 24, 64];

/// The condition of an endpoint, and its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum EndpointCondition {
    Healthy,
    /// The endpoint follows the chain, this number of blocks behind.
    Lags {
        blocks: usize,
        until: Duration,
    },
    /// The endpoint stays at one block: an old one, or a private one.
    Stuck {
        on: BlockId,
        until: Duration,
    },
    /// The endpoint does not answer. With `gateway`, an HTTP gateway answers in its place.
    Down {
        gateway: bool,
        until: Duration,
    },
}

pub(super) fn name_of(endpoint: usize) -> String {
    format!("endpoint-{endpoint}")
}

#[derive(Debug)]
pub(super) struct ChainEndpoint {
    pub(super) family: ClientFamily,
    pub(super) pool: TxPool,
    /// The time that a block takes to reach the endpoint.
    pub(super) delay: Duration,
    condition: EndpointCondition,
}

impl ChainEndpoint {
    pub(super) fn new(accounts: usize, dice: &mut Dice) -> Self {
        let family = dice.pick(&FAMILIES).unwrap_or(ClientFamily::Geth);
        let limit = dice.pick(&LIMITS).unwrap_or(64);
        let takes_gaps = dice.permille(800);
        let delay = dice.duration(Duration::ZERO, LATEST_BLOCK);
        ChainEndpoint {
            family,
            pool: TxPool::new(accounts, limit, takes_gaps),
            delay,
            condition: EndpointCondition::Healthy,
        }
    }

    /// An endpoint of a test: blocks come at once, and its pool has no limits.
    pub(super) fn unlimited(accounts: usize) -> Self {
        let pool = TxPool::unlimited(accounts);
        ChainEndpoint { family: ClientFamily::Geth, pool, delay: Duration::ZERO, condition: EndpointCondition::Healthy }
    }

    pub(super) fn condition(&self, now: Duration) -> EndpointCondition {
        match self.condition {
            EndpointCondition::Lags { until, .. }
            | EndpointCondition::Stuck { until, .. }
            | EndpointCondition::Down { until, .. }
                if until <= now =>
            {
                EndpointCondition::Healthy
            }
            condition => condition,
        }
    }

    pub(super) fn is_healthy(&self, now: Duration) -> bool {
        matches!(self.condition(now), EndpointCondition::Healthy)
    }

    pub(super) fn put(&mut self, condition: EndpointCondition) {
        self.condition = condition;
    }
}
