//! One endpoint: its client, its pool, and how it stands to the chain.

use std::time::Duration;

use gapless_chain::Family;

use super::ledger::BlockId;
use super::pool::Pool;
use super::texts::FAMILIES;
use crate::dice::Dice;

/// The longest that a block takes to a healthy endpoint.
const LATEST_BLOCK: Duration = Duration::from_millis(400);
/// What pools keep of one account; the smallest is less than what a lane may have in flight.
const LIMITS: [usize; 3] = [8, 24, 64];

/// How far an endpoint is from the truth, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stand {
    Healthy,
    /// It follows so many blocks behind.
    Lags {
        blocks: usize,
        until: Duration,
    },
    /// It stays where it is: on an old block, or on one that only it has.
    Stuck {
        on: BlockId,
        until: Duration,
    },
    /// Nobody answers; `gateway` if somebody says so in its place.
    Down {
        gateway: bool,
        until: Duration,
    },
}

/// What an endpoint is called.
pub(super) fn name_of(endpoint: usize) -> String {
    format!("endpoint-{endpoint}")
}

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) family: Family,
    pub(super) pool: Pool,
    /// How long a block takes to it.
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

    /// An endpoint of a test: blocks come at once, and its pool has no limits.
    pub(super) fn unlimited(accounts: usize) -> Self {
        let pool = Pool::unlimited(accounts);
        Endpoint { family: Family::Geth, pool, delay: Duration::ZERO, stand: Stand::Healthy }
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
