//! What is known of an endpoint, and changes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::B256;
use gapless_chain::{Family, Header};
use tokio::time::Instant;

use super::forks::Forks;
use super::health::Health;
use super::now;

/// How long an endpoint that flips between forks is not believed: the first time, and at the most. It doubles with each time.
const FIRST_PENALTY: Duration = Duration::from_secs(30);
const LAST_PENALTY: Duration = Duration::from_secs(30 * 60);
/// After so long without a flip the next penalty is a first one again.
const PENALTY_FORGOTTEN: Duration = Duration::from_secs(60 * 60);

/// One that is well is asked who it is again after this long: behind its URL there may be another node by now.
const CHECK_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// It is shared with the WebSocket's task, which hears of heads.
#[derive(Debug, Default)]
pub(crate) struct EndpointState(Mutex<Known>);

#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) standing: Standing,
    pub(super) health: Health,
    /// Checks that have ended.
    pub(super) checks: u64,
    /// When it last named the right chain.
    checked_at: Option<Instant>,
    /// Since when it has been away, or has wanted to be left alone, without an answer in between.
    pub(super) silent_since: Option<Instant>,
    pub(super) head: Option<HeadClaim>,
    forks: Forks,
    flipping: Option<Flipping>,
    pub(super) family: Option<Family>,
    pub(super) trouble: Option<String>,
    pub(super) batch_max: usize,
    pub(super) skills: Skills,
    /// Until then it is not asked for traces, which took it too long or were too much for it.
    pub(super) traces_rest_until: Option<Instant>,
}

/// Whether it is asked at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Unchecked,
    Good,
    Down,
    WrongChain,
}

/// The newest head that an endpoint told of, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadClaim {
    pub(crate) number: u64,
    pub(crate) hash: Option<B256>,
    pub(crate) heard_at: Instant,
    /// When it told of this one first.
    pub(crate) moved_at: Instant,
    /// The header itself came with it; else it is only a number.
    pub(crate) shown: bool,
}

#[derive(Clone, Copy, Debug)]
struct Flipping {
    until: Instant,
    times: u32,
}

/// What a node turned out not to be able to do is not asked of it again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skills {
    pub(crate) block_receipts: bool,
    /// Counts at a block named by its hash (EIP-1898).
    pub(crate) count_by_hash: bool,
    /// `debug_traceTransaction`.
    pub(crate) trace: bool,
    /// `eth_getCode`.
    pub(crate) code: bool,
}

impl Default for Skills {
    fn default() -> Self {
        Skills { block_receipts: true, count_by_hash: true, trace: true, code: true }
    }
}

impl Default for Known {
    fn default() -> Self {
        Known {
            standing: Standing::Unchecked,
            health: Health::default(),
            checks: 0,
            checked_at: None,
            silent_since: None,
            head: None,
            forks: Forks::default(),
            flipping: None,
            family: None,
            trouble: None,
            batch_max: usize::MAX,
            skills: Skills::default(),
            traces_rest_until: None,
        }
    }
}

impl EndpointState {
    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A head that nobody asked for counts only while its endpoint is known to be of this chain.
    pub(crate) fn hear_head(&self, number: u64) {
        let mut known = self.lock();
        if known.standing == Standing::Good {
            known.hear(number, None);
        }
    }
}

impl Known {
    /// Where it says that its head is. A node may go back: after a reorg, or when another one answers behind the same URL.
    pub(super) fn hear(&mut self, number: u64, hash: Option<B256>) {
        let heard_at = now();
        let differs = |known: B256| hash.is_some_and(|hash| hash != known);
        let same = self.head.filter(|head| head.number == number && !head.hash.is_some_and(differs));
        self.head = Some(HeadClaim {
            number,
            hash: hash.or(same.and_then(|same| same.hash)),
            heard_at,
            moved_at: same.map_or(heard_at, |same| same.moved_at),
            shown: hash.is_some() || same.is_some_and(|same| same.shown),
        });
    }

    /// Notes what it shows; true if it is found to flip between forks by this.
    pub(super) fn see(&mut self, header: &Header) -> bool {
        if let Some(below) = header.block.number.checked_sub(1) {
            self.forks.see(below, header.parent_hash);
        }
        self.forks.see(header.block.number, header.block.hash);
        if !self.forks.is_flipping() {
            return false;
        }
        let now = now();
        let before = self.flipping.filter(|before| now < before.until + PENALTY_FORGOTTEN).map_or(0, |flip| flip.times);
        let penalty = FIRST_PENALTY.saturating_mul(1 << before.min(10)).min(LAST_PENALTY);
        self.flipping = Some(Flipping { until: now + penalty, times: before.saturating_add(1) });
        self.forks = Forks::default();
        true
    }

    pub(super) fn is_flipping(&self) -> bool {
        self.flipping.is_some_and(|flipping| now() < flipping.until)
    }

    pub(super) fn is_check_due(&self) -> bool {
        self.checked_at.is_none_or(|at| at.elapsed() >= CHECK_INTERVAL)
    }

    /// It has named the right chain. What it can do is found out anew; what it did wrong is not forgotten.
    pub(super) fn is_of_this_chain(&mut self, family: Option<Family>, head: u64) {
        if self.standing != Standing::Good {
            self.standing = Standing::Good;
            self.health.close();
            self.silent_since = None;
            self.trouble = None;
        }
        self.checked_at = Some(now());
        self.family = family;
        self.skills = Skills::default();
        self.hear(head, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::BlockRef;

    fn header(number: u64, fork: u8) -> Header {
        let hash = |number: u64| B256::with_last_byte(fork ^ u8::try_from(number).unwrap());
        let block = BlockRef { number, hash: hash(number) };
        Header { block, parent_hash: hash(number - 1), timestamp: 0, base_fee: None }
    }

    #[tokio::test(start_paused = true)]
    async fn penalties_for_flipping_grow_and_are_forgotten() {
        let mut known = Known::default();
        let mut flip = || (0..7).filter(|turn| known.see(&header(9, if turn % 2 == 0 { 64 } else { 128 }))).count();
        assert_eq!(flip(), 1);
        assert!(known.is_flipping());
        tokio::time::advance(FIRST_PENALTY).await;
        assert!(!known.is_flipping());
        let mut flip = || (0..7).filter(|turn| known.see(&header(9, if turn % 2 == 0 { 64 } else { 128 }))).count();
        assert_eq!(flip(), 1);
        tokio::time::advance(FIRST_PENALTY).await;
        assert!(known.is_flipping(), "twice as long");
        tokio::time::advance(FIRST_PENALTY + PENALTY_FORGOTTEN).await;
        let mut flip = || (0..7).filter(|turn| known.see(&header(9, if turn % 2 == 0 { 64 } else { 128 }))).count();
        assert_eq!(flip(), 1);
        tokio::time::advance(FIRST_PENALTY).await;
        assert!(!known.is_flipping());
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_moves_when_its_number_or_its_hash_does() {
        let mut known = Known::default();
        let start = now();
        known.hear(9, None);
        tokio::time::advance(Duration::from_secs(1)).await;
        known.hear(9, Some(B256::repeat_byte(1)));
        known.hear(9, None);
        let head = known.head.unwrap();
        assert_eq!((head.moved_at, head.hash, head.shown), (start, Some(B256::repeat_byte(1)), true));
        assert_eq!(head.heard_at, start + Duration::from_secs(1));
        known.hear(9, Some(B256::repeat_byte(2)));
        assert_eq!(known.head.unwrap().moved_at, start + Duration::from_secs(1), "another block of that height");
    }
}
