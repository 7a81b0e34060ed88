//! The state of one endpoint.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::B256;
use gapless_chain::Header;
use gapless_domain::{Backoff, BatchSize};
use tokio::time::Instant;

use super::forks::ShownBlocks;
use super::health::RequestHealth;
use super::now;
use crate::classify::Family;

/// An endpoint that flips between forks is not used for this long. The time doubles with each repetition.
const FIRST_PENALTY: Duration = Duration::from_secs(30);
const LONGEST_PENALTY: Duration = Duration::from_secs(30 * 60);
/// After this time without a flip the next penalty is the first one again.
const PENALTY_RESET: Duration = Duration::from_secs(60 * 60);

/// A healthy endpoint is checked again after this time: another node may answer behind its URL.
const CHECK_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The state of an endpoint, shared with the task of its WebSocket.
#[derive(Debug, Default)]
pub(crate) struct SharedState(Mutex<EndpointState>);

#[derive(Clone, Debug)]
pub(super) struct EndpointState {
    pub(super) connectivity: Connectivity,
    pub(super) health: RequestHealth,
    /// Completed checks.
    pub(super) checks: u64,
    /// The time of the last check that confirmed the chain id.
    checked_at: Option<Instant>,
    /// The beginning of a time without any answer: the endpoint was down or rate limited throughout.
    pub(super) silent_since: Option<Instant>,
    pub(super) head: Option<ReportedHead>,
    shown: ShownBlocks,
    penalty: Option<ForkPenalty>,
    pub(super) family: Option<Family>,
    pub(super) last_error: Option<String>,
    /// The batch size that the endpoint is known to take.
    pub(super) batch_max: usize,
    /// The number of estimates that the endpoint executes in time.
    pub(super) estimates: BatchSize,
    pub(super) capabilities: Capabilities,
    /// Until this time no traces are requested, because they timed out or met a limit.
    pub(super) traces_paused_until: Option<Instant>,
}

/// The result of the last check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connectivity {
    Unchecked,
    Up,
    Down,
    WrongChain,
}

/// The newest head that an endpoint reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportedHead {
    pub(crate) number: u64,
    pub(crate) hash: Option<B256>,
    /// The time of the newest report of this head.
    pub(crate) reported_at: Instant,
    /// The time of the first report of this head.
    pub(crate) changed_at: Instant,
    /// The endpoint returned the header. Otherwise it only reported the number.
    pub(crate) has_header: bool,
}

/// The time for which an endpoint that flips between forks is not used.
#[derive(Clone, Copy, Debug)]
struct ForkPenalty {
    until: Instant,
    backoff: Backoff,
}

/// The methods that an endpoint supports. A method that failed for lack of support is not called again until the next
/// check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capabilities {
    pub(crate) block_receipts: bool,
    /// Transaction counts at a block that is named by its hash (EIP-1898).
    pub(crate) count_by_hash: bool,
    /// `debug_traceTransaction`.
    pub(crate) trace: bool,
    /// `eth_getCode`.
    pub(crate) code: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities { block_receipts: true, count_by_hash: true, trace: true, code: true }
    }
}

impl Default for EndpointState {
    fn default() -> Self {
        EndpointState {
            connectivity: Connectivity::Unchecked,
            health: RequestHealth::default(),
            checks: 0,
            checked_at: None,
            silent_since: None,
            head: None,
            shown: ShownBlocks::default(),
            penalty: None,
            family: None,
            last_error: None,
            batch_max: usize::MAX,
            estimates: BatchSize::default(),
            capabilities: Capabilities::default(),
            traces_paused_until: None,
        }
    }
}

impl SharedState {
    pub(super) fn lock(&self) -> MutexGuard<'_, EndpointState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a head from a subscription. It counts only while the endpoint's chain id is confirmed.
    pub(crate) fn note_subscribed_head(&self, number: u64) {
        let mut state = self.lock();
        if state.connectivity == Connectivity::Up {
            state.note_head(number, None);
        }
    }
}

impl EndpointState {
    /// Notes a reported head. The number may decrease: after a reorg, or when another node answers behind the URL.
    pub(super) fn note_head(&mut self, number: u64, hash: Option<B256>) {
        let reported_at = now();
        let differs = |known: B256| hash.is_some_and(|hash| hash != known);
        let same = self.head.filter(|head| head.number == number && !head.hash.is_some_and(differs));
        self.head = Some(ReportedHead {
            number,
            hash: hash.or(same.and_then(|same| same.hash)),
            reported_at,
            changed_at: same.map_or(reported_at, |same| same.changed_at),
            has_header: hash.is_some() || same.is_some_and(|same| same.has_header),
        });
    }

    /// Notes a header that the endpoint returned. Returns true if the endpoint is found to flip between forks.
    pub(super) fn note_header(&mut self, header: &Header, random: u64) -> bool {
        if let Some(below) = header.block.number.checked_sub(1) {
            self.shown.note(below, header.parent_hash);
        }
        self.shown.note(header.block.number, header.block.hash);
        if !self.shown.is_flipping() {
            return false;
        }
        let now = now();
        let recent = self.penalty.filter(|penalty| now < penalty.until + PENALTY_RESET);
        let mut backoff = recent.map_or(Backoff::new(FIRST_PENALTY, LONGEST_PENALTY), |penalty| penalty.backoff);
        self.penalty = Some(ForkPenalty { until: now + backoff.next(random), backoff });
        self.shown = ShownBlocks::default();
        true
    }

    pub(super) fn is_flipping(&self) -> bool {
        self.penalty.is_some_and(|penalty| now() < penalty.until)
    }

    pub(super) fn is_check_due(&self) -> bool {
        self.checked_at.is_none_or(|at| at.elapsed() >= CHECK_INTERVAL)
    }

    /// Notes a check that confirmed the chain id. Capabilities are probed again; penalties stay.
    pub(super) fn pass_check(&mut self, family: Option<Family>, head: u64) {
        if self.connectivity != Connectivity::Up {
            self.connectivity = Connectivity::Up;
            self.health.close();
            self.silent_since = None;
            self.last_error = None;
        }
        self.checked_at = Some(now());
        self.family = family;
        self.capabilities = Capabilities::default();
        self.note_head(head, None);
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
    async fn penalties_for_flipping_grow_and_reset() {
        let mut state = EndpointState::default();
        let mut flip =
            || (0..7).filter(|turn| state.note_header(&header(9, if turn % 2 == 0 { 64 } else { 128 }), 0)).count();
        assert_eq!(flip(), 1);
        assert!(state.is_flipping());
        tokio::time::advance(FIRST_PENALTY).await;
        assert!(!state.is_flipping());
        let mut flip =
            || (0..7).filter(|turn| state.note_header(&header(9, if turn % 2 == 0 { 64 } else { 128 }), 0)).count();
        assert_eq!(flip(), 1);
        tokio::time::advance(FIRST_PENALTY).await;
        assert!(state.is_flipping(), "twice as long");
        tokio::time::advance(FIRST_PENALTY + PENALTY_RESET).await;
        let mut flip =
            || (0..7).filter(|turn| state.note_header(&header(9, if turn % 2 == 0 { 64 } else { 128 }), 0)).count();
        assert_eq!(flip(), 1);
        tokio::time::advance(FIRST_PENALTY).await;
        assert!(!state.is_flipping());
    }

    #[tokio::test(start_paused = true)]
    async fn head_changes_with_its_number_or_hash() {
        let mut state = EndpointState::default();
        let start = now();
        state.note_head(9, None);
        tokio::time::advance(Duration::from_secs(1)).await;
        state.note_head(9, Some(B256::repeat_byte(1)));
        state.note_head(9, None);
        let head = state.head.unwrap();
        assert_eq!((head.changed_at, head.hash, head.has_header), (start, Some(B256::repeat_byte(1)), true));
        assert_eq!(head.reported_at, start + Duration::from_secs(1));
        state.note_head(9, Some(B256::repeat_byte(2)));
        assert_eq!(state.head.unwrap().changed_at, start + Duration::from_secs(1), "another block at the same height");
    }
}
