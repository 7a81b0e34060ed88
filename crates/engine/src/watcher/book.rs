//! Who waits for which hash.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gapless_domain::{B256, BlockRef, Sighting, Tick, Watched};
use tokio::sync::Notify;

use crate::lane_inbox::LaneInbox;

/// The open hashes of all lanes of one chain on this node.
#[derive(Debug, Default)]
pub(crate) struct WatchBook {
    inner: Mutex<Inner>,
    asked: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    hashes: HashMap<B256, Entry>,
    requests: HashMap<B256, Request>,
    /// How many answers were tried for.
    tries: u64,
    /// Put down since the watcher last looked.
    fresh: Vec<B256>,
    /// When to ask for those that no block has explained until then, the earliest first. Some of them are gone since.
    stale: VecDeque<(Tick, B256)>,
}

#[derive(Debug)]
struct Entry {
    lane: Arc<LaneInbox>,
    /// A canonical block has it.
    explained: bool,
}

/// To be looked up by hash, or compared with the canonical chain.
#[derive(Clone, Copy, Debug)]
struct Request {
    known: Option<BlockRef>,
    /// When it was last tried, counted in tries; 0 if never. Those that wait longest come first, so that those that cannot
    /// be answered keep nobody waiting (R02).
    tried: u64,
}

impl Request {
    fn new(known: Option<BlockRef>) -> Self {
        Request { known, tried: 0 }
    }
}

impl WatchBook {
    pub(crate) fn watch(&self, inbox: &Arc<LaneInbox>, watched: &[Watched]) {
        let mut inner = self.inner();
        let mut asked = false;
        for Watched { hash, known, look_up } in watched {
            let entry = Entry { lane: Arc::clone(inbox), explained: false };
            if inner.hashes.insert(*hash, entry).is_none() {
                inner.fresh.push(*hash);
            }
            if *look_up || known.is_some() {
                inner.requests.insert(*hash, Request::new(*known));
                asked = true;
            }
        }
        drop(inner);
        if asked {
            self.asked.notify_one();
        }
    }

    pub(crate) fn unwatch(&self, hashes: &[B256]) {
        let mut inner = self.inner();
        for hash in hashes {
            inner.hashes.remove(hash);
            inner.requests.remove(hash);
        }
    }

    /// The lane is no longer run here.
    pub(crate) fn forget(&self, inbox: &Arc<LaneInbox>) {
        let mut inner = self.inner();
        inner.hashes.retain(|_, entry| !Arc::ptr_eq(&entry.lane, inbox));
        let Inner { hashes, requests, .. } = &mut *inner;
        requests.retain(|hash, _| hashes.contains_key(hash));
    }

    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    pub(crate) fn len(&self) -> usize {
        self.inner().hashes.len()
    }

    pub(super) fn contains(&self, hash: B256) -> bool {
        self.inner().hashes.contains_key(&hash)
    }

    /// Those that wait longest.
    pub(super) fn requests(&self, limit: usize) -> Vec<(B256, Option<BlockRef>)> {
        let mut all: Vec<(B256, Request)> = self.inner().requests.iter().map(|(hash, asked)| (*hash, *asked)).collect();
        if limit < all.len() {
            all.select_nth_unstable_by_key(limit, |(_, asked)| asked.tried);
        }
        all.into_iter().take(limit).map(|(hash, asked)| (hash, asked.known)).collect()
    }

    /// An answer is being looked for.
    pub(super) fn tried(&self, hashes: &[B256]) {
        let mut inner = self.inner();
        let Inner { requests, tries, .. } = &mut *inner;
        for hash in hashes {
            if let Some(asked) = requests.get_mut(hash) {
                *tries += 1;
                asked.tried = *tries;
            }
        }
    }

    /// If nobody has tried to answer some, the next round need not be waited for.
    pub(super) fn go_on(&self) {
        if self.inner().requests.values().any(|asked| asked.tried == 0) {
            self.asked.notify_one();
        }
    }

    pub(super) fn ask(&self, hash: B256, known: Option<BlockRef>) {
        let mut inner = self.inner();
        if inner.hashes.contains_key(&hash) {
            inner.requests.insert(hash, Request::new(known));
        }
    }

    /// The request is answered, unless it was asked anew meanwhile.
    pub(super) fn answered(&self, hash: B256, known: Option<BlockRef>) {
        let mut inner = self.inner();
        if inner.requests.get(&hash).is_some_and(|asked| asked.known == known) {
            inner.requests.remove(&hash);
        }
    }

    /// Every hash has to be looked up: there was a hole in what was read.
    pub(super) fn ask_all(&self) {
        let mut inner = self.inner();
        let Inner { hashes, requests, .. } = &mut *inner;
        for hash in hashes.keys() {
            requests.entry(*hash).or_insert_with(|| Request::new(None));
        }
    }

    /// Asks for hashes that nothing has explained for so long, at most so many, the oldest first; and again after the same
    /// time. So what it costs does not grow with what is open (R01).
    pub(super) fn ask_for_stale(&self, now: Tick, after: Duration, limit: usize) {
        let mut inner = self.inner();
        let Inner { hashes, requests, fresh, stale, .. } = &mut *inner;
        let due = now.saturating_add(after);
        stale.extend(fresh.drain(..).map(|hash| (due, hash)));
        let mut asked = 0;
        while asked < limit
            && let Some((_, hash)) = stale.pop_front_if(|(at, _)| *at <= now)
        {
            let Some(entry) = hashes.get(&hash) else { continue };
            if !entry.explained {
                requests.entry(hash).or_insert_with(|| Request::new(None));
                asked += 1;
            }
            stale.push_back((due, hash));
        }
    }

    pub(super) fn tell(&self, hash: B256, sighting: Sighting) {
        let mut inner = self.inner();
        let Some(entry) = inner.hashes.get_mut(&hash) else { return };
        match &sighting {
            Sighting::Mined(_) | Sighting::StillMined { .. } | Sighting::Final { .. } => entry.explained = true,
            Sighting::Unmined { .. } => entry.explained = false,
            Sighting::NotFound { .. } => {}
        }
        let inbox = Arc::clone(&entry.lane);
        drop(inner);
        inbox.see(sighting);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::default().saturating_add(Duration::from_secs(seconds))
    }

    fn watch(book: &WatchBook, hashes: impl IntoIterator<Item = u8>) {
        let watched: Vec<Watched> = hashes
            .into_iter()
            .map(|byte| Watched { hash: B256::repeat_byte(byte), known: None, look_up: false })
            .collect();
        book.watch(&Arc::default(), &watched);
    }

    fn asked(book: &WatchBook) -> usize {
        book.requests(usize::MAX).len()
    }

    #[test]
    fn what_nothing_explains_is_asked_for_after_a_while_and_again() {
        let book = WatchBook::default();
        let minute = Duration::from_secs(60);
        watch(&book, 1..=3);
        book.ask_for_stale(at(0), minute, 100);
        book.ask_for_stale(at(59), minute, 100);
        assert_eq!(asked(&book), 0);
        book.tell(
            B256::repeat_byte(1),
            Sighting::StillMined { hash: B256::repeat_byte(1), block: BlockRef { number: 1, hash: B256::ZERO } },
        );
        book.unwatch(&[B256::repeat_byte(2)]);
        book.ask_for_stale(at(60), minute, 100);
        assert_eq!(book.requests(9), vec![(B256::repeat_byte(3), None)]);
        book.answered(B256::repeat_byte(3), None);
        book.ask_for_stale(at(119), minute, 100);
        assert_eq!(asked(&book), 0);
        book.ask_for_stale(at(120), minute, 100);
        assert_eq!(asked(&book), 1);
    }

    /// proves R01
    #[test]
    fn however_many_are_stale_a_bounded_number_is_asked_for_in_turn() {
        let book = WatchBook::default();
        watch(&book, 0..=99);
        book.ask_for_stale(at(0), Duration::from_secs(60), 10);
        let mut seen = std::collections::HashSet::new();
        for round in 0..10 {
            book.ask_for_stale(at(60 + round), Duration::from_secs(600), 10);
            let hashes: Vec<B256> = book.requests(usize::MAX).into_iter().map(|(hash, _)| hash).collect();
            assert_eq!(hashes.len(), 10);
            hashes.iter().for_each(|hash| book.answered(*hash, None));
            seen.extend(hashes);
        }
        assert_eq!(seen.len(), 100);
    }
}
