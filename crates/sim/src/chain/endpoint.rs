//! One endpoint: its client family, its pool, and its condition.

use std::time::Duration;

use gapless_chain::Family;

use super::ledger::BlockId;
use super::pool::Pool;
use super::texts::FAMILIES;
use crate::dice::Dice;

/// The longest time that a block takes to reach a healthy endpoint.
const LATEST_BLOCK: Duration = Duration::from_millis(400);
/// The numbers of transactions that a pool keeps of one account. The smallest is below what a lane may have in flight.
const LIMITS: [usize; 3] = [8, 24, 64];

/// The condition of an endpoint, and its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stand {
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
pub(super) struct Endpoint {
    pub(super) family: Family,
    pub(super) pool: Pool,
    /// The time that a block takes to reach the endpoint.
    pub(super) delay: Duration,
    stand: Stand,
}

impl Endpoint {
    pub(super) fn new(accounts: usize, dice: &mut Dice) -> Self {
        let family = dice.pick(&FAMILIES).unwrap_or(Family::Geth);
        let limit = dice.pick(&LIMITS).unwrap_or(64);
        let takes_gaps = dice.permille(800);
        let delay = dice.duration(Duration::ZERO, LATEST_BLOCK);
        Endpoint { family, pool: Pool::new(accounts, limit, takes_gaps), delay, stand: Stand::Healthy }
    }

    pub(super) fn stand(&self, now: Duration) -> Stand {
        match self.stand {
            Stand::Lags { until, .. } | Stand::Stuck { until, .. } | Stand::Down { until, .. } if until <= now => {
                Stand::Healthy
            }
            stand => stand,
        }
    }

    pub(super) fn is_healthy(&self, now: Duration) -> bool {
        matches!(self.stand(now), Stand::Healthy)
    }

    pub(super) fn put(&mut self, stand: Stand) {
        self.stand = stand;
    }
}
