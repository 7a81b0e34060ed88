//! The register of watched hashes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_domain::{B256, BlockRef, Sighting, Tick, WatchRequest};
use tokio::sync::Notify;

use crate::lane_inbox::LaneInbox;

/// The open hashes of all lanes of one chain on this node.
#[derive(Debug, Default)]
pub(crate) struct WatchBook {
    inner: Mutex<Inner>,
    look_up_needed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    hashes: HashMap<B256, Entry>,
    requests: HashMap<B256, Request>,
    /// Counter of tries, for `Request::tried`.
    tries: u64,
    /// Hashes that were added since the watcher's last round.
    unscheduled: Vec<B256>,
    /// Times at which a hash that is in no block is looked up, the earliest first. An entry whose time is not the
    /// hash's `due` is outdated.
    stale: VecDeque<(Tick, B256)>,
    /// Hashes by inbox id.
    by_inbox: HashMap<usize, HashSet<B256>>,
    /// Sightings that are held back, by lane; `None` while sightings are delivered at once.
    held: Option<HeldSightings>,
}

/// Sightings that lanes receive together, in the order in which the lanes appeared.
#[derive(Debug, Default)]
struct HeldSightings {
    lanes: Vec<(Arc<LaneInbox>, Vec<Sighting>)>,
    /// Positions in `lanes`, by inbox id.
    positions: HashMap<usize, usize>,
}

#[derive(Debug)]
struct Entry {
    lane: Arc<LaneInbox>,
    /// A canonical block holds the hash.
    is_mined: bool,
    due: Option<Tick>,
}

/// A request to look a hash up, or to compare its known block with the canonical chain.
#[derive(Clone, Copy, Debug)]
struct Request {
    known: Option<BlockRef>,
    /// The counter at the last try; 0 if never tried. The lowest come first, so that requests that cannot be answered
    /// delay no other request (R02).
    tried: u64,
}

impl Request {
    fn new(known: Option<BlockRef>) -> Self {
        Request { known, tried: 0 }
    }
}

impl WatchBook {
    pub(crate) fn watch(&self, inbox: &Arc<LaneInbox>, watched: &[WatchRequest]) {
        let mut inner = self.inner();
        let mut has_request = false;
        for WatchRequest { hash, known_block: known, look_up } in watched {
            inner.remove(*hash);
            inner.hashes.insert(*hash, Entry { lane: Arc::clone(inbox), is_mined: false, due: None });
            inner.by_inbox.entry(inbox_id(inbox)).or_default().insert(*hash);
            inner.unscheduled.push(*hash);
            if *look_up || known.is_some() {
                inner.requests.insert(*hash, Request::new(*known));
                has_request = true;
            }
        }
        drop(inner);
        if has_request {
            self.look_up_needed.notify_one();
        }
    }

    pub(crate) fn unwatch(&self, hashes: &[B256]) {
        let mut inner = self.inner();
        hashes.iter().for_each(|hash| inner.remove(*hash));
    }

    /// Removes all hashes of a lane that no longer runs here.
    pub(crate) fn forget(&self, inbox: &Arc<LaneInbox>) {
        let mut inner = self.inner();
        let hashes = inner.by_inbox.remove(&inbox_id(inbox)).unwrap_or_default();
        hashes.into_iter().for_each(|hash| inner.remove(hash));
    }

    pub(super) async fn requested(&self) {
        self.look_up_needed.notified().await;
    }

    pub(crate) fn len(&self) -> usize {
        self.inner().hashes.len()
    }

    pub(super) fn contains(&self, hash: B256) -> bool {
        self.inner().hashes.contains_key(&hash)
    }

    /// The longest-waiting requests.
    pub(super) fn requests(&self, limit: usize) -> Vec<(B256, Option<BlockRef>)> {
        let mut all: Vec<(B256, Request)> =
            self.inner().requests.iter().map(|(hash, request)| (*hash, *request)).collect();
        all.sort_unstable_by_key(|(hash, request)| (request.tried, *hash));
        all.into_iter().take(limit).map(|(hash, request)| (hash, request.known)).collect()
    }

    /// Records a try.
    pub(super) fn mark_tried(&self, hashes: &[B256]) {
        let mut inner = self.inner();
        let Inner { requests, tries, .. } = &mut *inner;
        for hash in hashes {
            if let Some(request) = requests.get_mut(hash) {
                *tries += 1;
                request.tried = *tries;
            }
        }
    }

    /// Wakes the watcher for its next round if there are requests that were never tried.
    pub(super) fn wake_for_untried(&self) {
        if self.inner().requests.values().any(|request| request.tried == 0) {
            self.look_up_needed.notify_one();
        }
    }

    pub(super) fn request(&self, hash: B256, known: Option<BlockRef>) {
        let mut inner = self.inner();
        if inner.hashes.contains_key(&hash) {
            inner.requests.insert(hash, Request::new(known));
        }
    }

    /// Removes an answered request, unless it was made again meanwhile.
    pub(super) fn remove_answered(&self, hash: B256, known: Option<BlockRef>) {
        let mut inner = self.inner();
        if inner.requests.get(&hash).is_some_and(|request| request.known == known && request.tried != 0) {
            inner.requests.remove(&hash);
        }
    }

    /// Requests a look-up of every hash that is in no known block: some blocks were not read.
    pub(super) fn request_unmined(&self) {
        let mut inner = self.inner();
        let Inner { hashes, requests, .. } = &mut *inner;
        for (hash, _) in hashes.iter().filter(|(_, entry)| !entry.is_mined) {
            requests.entry(*hash).or_insert_with(|| Request::new(None));
        }
    }

    /// Requests look-ups of hashes that were in no block for the time `after`, at most `limit`, the oldest first; and
    /// again after the same time. So the cost does not grow with the number of open hashes (R01).
    pub(super) fn request_stale(&self, now: Tick, after: Duration, limit: usize) {
        let mut inner = self.inner();
        let Inner { hashes, requests, unscheduled, stale, .. } = &mut *inner;
        let due = now.saturating_add(after);
        for hash in unscheduled.drain(..) {
            if let Some(entry) = hashes.get_mut(&hash).filter(|entry| entry.due.is_none()) {
                entry.due = Some(due);
                stale.push_back((due, hash));
            }
        }
        let mut requested = 0;
        for _ in 0..stale.len() {
            if requested >= limit {
                return;
            }
            let Some((at, hash)) = stale.pop_front_if(|(at, _)| *at <= now) else { return };
            let Some(entry) = hashes.get_mut(&hash).filter(|entry| entry.due == Some(at)) else { continue };
            if !entry.is_mined {
                requests.entry(hash).or_insert_with(|| Request::new(None));
                requested += 1;
            }
            entry.due = Some(due);
            stale.push_back((due, hash));
        }
    }

    pub(super) fn deliver(&self, hash: B256, sighting: Sighting) {
        let mut inner = self.inner();
        let Some(entry) = inner.hashes.get_mut(&hash) else { return };
        match &sighting {
            Sighting::Mined(_) | Sighting::StillMined { .. } | Sighting::Final { .. } => entry.is_mined = true,
            Sighting::Unmined { .. } => entry.is_mined = false,
            Sighting::NotFound { .. } => {}
        }
        let inbox = Arc::clone(&entry.lane);
        match &mut inner.held {
            Some(held) => held.push(inbox, sighting),
            None => {
                drop(inner);
                inbox.add_sightings(vec![sighting]);
            }
        }
    }

    /// Holds back sightings until [`WatchBook::deliver_held`]. A lane then receives in one message all that a block
    /// says about its hashes, finality included, and writes it in one commit.
    pub(super) fn hold(&self) {
        self.inner().held.get_or_insert_default();
    }

    /// Delivers the sightings that were held back. Sightings are no longer held.
    pub(super) fn deliver_held(&self) {
        let held = self.inner().held.take();
        for (inbox, sightings) in held.into_iter().flat_map(|held| held.lanes) {
            inbox.add_sightings(sightings);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldSightings {
    fn push(&mut self, inbox: Arc<LaneInbox>, sighting: Sighting) {
        let position = *self.positions.entry(inbox_id(&inbox)).or_insert(self.lanes.len());
        match self.lanes.get_mut(position) {
            Some((_, sightings)) => sightings.push(sighting),
            None => self.lanes.push((inbox, vec![sighting])),
        }
    }
}

impl Inner {
    fn remove(&mut self, hash: B256) {
        self.requests.remove(&hash);
        let Some(entry) = self.hashes.remove(&hash) else { return };
        if let Some(hashes) = self.by_inbox.get_mut(&inbox_id(&entry.lane)) {
            hashes.remove(&hash);
            if hashes.is_empty() {
                self.by_inbox.remove(&inbox_id(&entry.lane));
            }
        }
    }
}

/// The address of the inbox; unique while the inbox is alive.
fn inbox_id(inbox: &Arc<LaneInbox>) -> usize {
    Arc::as_ptr(inbox).addr()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;

    use gapless_domain::Fact;

    use super::*;
    use crate::lane_inbox::InboxMessage;

    fn at(seconds: u64) -> Tick {
        Tick::default().saturating_add(Duration::from_secs(seconds))
    }

    fn watch(book: &WatchBook, hashes: impl IntoIterator<Item = u8>) {
        let watched: Vec<WatchRequest> = hashes
            .into_iter()
            .map(|byte| WatchRequest { hash: B256::repeat_byte(byte), known_block: None, look_up: false })
            .collect();
        book.watch(&Arc::default(), &watched);
    }

    fn requested(book: &WatchBook) -> usize {
        book.requests(usize::MAX).len()
    }

    #[test]
    fn unmined_hash_is_requested_periodically() {
        let book = WatchBook::default();
        let minute = Duration::from_secs(60);
        watch(&book, 1..=3);
        book.request_stale(at(0), minute, 100);
        book.request_stale(at(59), minute, 100);
        assert_eq!(requested(&book), 0);
        book.deliver(
            B256::repeat_byte(1),
            Sighting::StillMined { hash: B256::repeat_byte(1), block: BlockRef { number: 1, hash: B256::ZERO } },
        );
        book.unwatch(&[B256::repeat_byte(2)]);
        book.request_stale(at(60), minute, 100);
        assert_eq!(book.requests(9), vec![(B256::repeat_byte(3), None)]);
        book.mark_tried(&[B256::repeat_byte(3)]);
        book.remove_answered(B256::repeat_byte(3), None);
        book.request_stale(at(119), minute, 100);
        assert_eq!(requested(&book), 0);
        book.request_stale(at(120), minute, 100);
        assert_eq!(requested(&book), 1);
    }

    #[tokio::test]
    async fn held_sightings_reach_a_lane_in_one_message() {
        let (book, inbox) = (WatchBook::default(), Arc::default());
        let hashes = [B256::repeat_byte(1), B256::repeat_byte(2)];
        book.watch(&inbox, &hashes.map(|hash| WatchRequest { hash, known_block: None, look_up: false }));
        let not_found = hashes.map(|hash| Sighting::NotFound { hash });
        book.hold();
        book.deliver(hashes[0], not_found[0].clone());
        book.deliver(hashes[1], not_found[1].clone());
        assert!(std::future::poll_fn(|cx| Poll::Ready(pin!(inbox.next()).poll(cx).is_pending())).await);
        book.deliver_held();
        book.deliver(hashes[0], not_found[0].clone());
        let InboxMessage::Fact(fact) = inbox.next().await else { panic!() };
        let [first, second] = not_found;
        assert_eq!(fact, Fact::Sightings(vec![first.clone(), second, first]));
    }

    #[test]
    fn forgotten_lanes_leave_no_entries() {
        let book = WatchBook::default();
        let watched = [WatchRequest { hash: B256::repeat_byte(1), known_block: None, look_up: true }];
        for round in 0..1000 {
            let inbox = Arc::default();
            book.watch(&inbox, &watched);
            book.request_stale(at(round), Duration::from_secs(60), 100);
            book.forget(&inbox);
        }
        watch(&book, 1..=1);
        (1000..1200).for_each(|second| book.request_stale(at(second), Duration::from_secs(60), 100));
        let inner = book.inner();
        assert_eq!((inner.stale.len(), inner.unscheduled.len(), inner.by_inbox.len()), (1, 0, 1));
    }

    #[test]
    fn zero_stale_timeout_does_not_loop_forever() {
        let book = WatchBook::default();
        watch(&book, 1..=9);
        (0..3).for_each(|second| book.request_stale(at(second), Duration::ZERO, 100));
        assert_eq!(requested(&book), 9);
    }

    /// The answer is older than the second request.
    #[test]
    fn old_answer_does_not_remove_new_request() {
        let book = WatchBook::default();
        let (inbox, hash) = (Arc::default(), B256::repeat_byte(1));
        let watched = [WatchRequest { hash, known_block: None, look_up: true }];
        book.watch(&inbox, &watched);
        book.mark_tried(&[hash]);
        book.watch(&inbox, &watched);
        book.remove_answered(hash, None);
        assert_eq!(requested(&book), 1);
    }

    /// proves R02
    #[test]
    fn tried_requests_come_after_untried_ones() {
        let book = WatchBook::default();
        let watched: Vec<WatchRequest> = (1..=20)
            .map(|byte| WatchRequest { hash: B256::repeat_byte(byte), known_block: None, look_up: true })
            .collect();
        book.watch(&Arc::default(), &watched);
        let mut seen = HashSet::new();
        for _ in 0..20 {
            let (first, _) = book.requests(1)[0];
            book.mark_tried(&[first]);
            seen.insert(first);
        }
        assert_eq!(seen.len(), 20);
    }

    /// proves R01
    #[test]
    fn stale_requests_are_bounded_and_take_turns() {
        let book = WatchBook::default();
        watch(&book, 0..=99);
        book.request_stale(at(0), Duration::from_secs(60), 10);
        let mut seen = HashSet::new();
        for round in 0..10 {
            book.request_stale(at(60 + round), Duration::from_secs(600), 10);
            let hashes: Vec<B256> = book.requests(usize::MAX).into_iter().map(|(hash, _)| hash).collect();
            assert_eq!(hashes.len(), 10);
            book.mark_tried(&hashes);
            hashes.iter().for_each(|hash| book.remove_answered(*hash, None));
            seen.extend(hashes);
        }
        assert_eq!(seen.len(), 100);
    }
}
