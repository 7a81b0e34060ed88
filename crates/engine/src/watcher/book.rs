//! Who waits for which hash.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gapless_domain::{B256, BlockRef, Sighting, Watched};
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
    lanes: HashMap<B256, Arc<LaneInbox>>,
    requests: HashMap<B256, Request>,
    /// How many answers were tried for.
    tries: u64,
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
            inner.lanes.insert(*hash, Arc::clone(inbox));
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
            inner.lanes.remove(hash);
            inner.requests.remove(hash);
        }
    }

    /// The lane is no longer run here.
    pub(crate) fn forget(&self, inbox: &Arc<LaneInbox>) {
        let mut inner = self.inner();
        inner.lanes.retain(|_, lane| !Arc::ptr_eq(lane, inbox));
        let Inner { lanes, requests, .. } = &mut *inner;
        requests.retain(|hash, _| lanes.contains_key(hash));
    }

    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner().lanes.is_empty()
    }

    pub(super) fn contains(&self, hash: B256) -> bool {
        self.inner().lanes.contains_key(&hash)
    }

    /// Those that wait longest.
    pub(super) fn requests(&self, limit: usize) -> Vec<(B256, Option<BlockRef>)> {
        let mut all: Vec<(B256, Request)> = self.inner().requests.iter().map(|(hash, asked)| (*hash, *asked)).collect();
        all.sort_unstable_by_key(|(_, asked)| asked.tried);
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
        if inner.lanes.contains_key(&hash) {
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
        let Inner { lanes, requests, .. } = &mut *inner;
        for hash in lanes.keys() {
            requests.entry(*hash).or_insert_with(|| Request::new(None));
        }
    }

    pub(super) fn tell(&self, hash: B256, sighting: Sighting) {
        let inbox = self.inner().lanes.get(&hash).map(Arc::clone);
        if let Some(inbox) = inbox {
            inbox.see(sighting);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
