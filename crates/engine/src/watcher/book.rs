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
    /// To be looked up by hash, or compared with the canonical chain.
    requests: HashMap<B256, Option<BlockRef>>,
}

impl WatchBook {
    pub(crate) fn watch(&self, inbox: &Arc<LaneInbox>, watched: &[Watched]) {
        let mut inner = self.inner();
        let mut asked = false;
        for Watched { hash, known, look_up } in watched {
            inner.lanes.insert(*hash, Arc::clone(inbox));
            if *look_up || known.is_some() {
                inner.requests.insert(*hash, *known);
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
        let Inner { lanes, requests } = &mut *inner;
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

    pub(super) fn requests(&self, limit: usize) -> Vec<(B256, Option<BlockRef>)> {
        self.inner().requests.iter().take(limit).map(|(hash, known)| (*hash, *known)).collect()
    }

    pub(super) fn ask(&self, hash: B256, known: Option<BlockRef>) {
        let mut inner = self.inner();
        if inner.lanes.contains_key(&hash) {
            inner.requests.insert(hash, known);
        }
    }

    /// The request is answered, unless it was asked anew meanwhile.
    pub(super) fn answered(&self, hash: B256, known: Option<BlockRef>) {
        let mut inner = self.inner();
        if inner.requests.get(&hash) == Some(&known) {
            inner.requests.remove(&hash);
        }
    }

    /// Every hash has to be looked up: there was a hole in what was read.
    pub(super) fn ask_all(&self) {
        let mut inner = self.inner();
        let Inner { lanes, requests } = &mut *inner;
        for hash in lanes.keys() {
            requests.entry(*hash).or_insert(None);
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
