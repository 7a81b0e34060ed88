//! The registered submitters and their aliases.
//!
//! The list is cached for [`ApiLimits::alias_age`](crate::ApiLimits), so that many requests by alias cause few reads.
//! A longer cache would be wrong: an alias can be given to another submitter, and money would leave the wrong account.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use gapless_domain::{Address, SubmitterId, Tick};
use gapless_engine::Clock;
use gapless_store::{Store, StoreError};
use gapless_wire::SubmitterRef;
use tokio::sync::Mutex;

#[derive(Debug)]
pub(crate) struct Directory {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    age: Duration,
    /// Held while the list is read, so that concurrent misses read it once.
    kept: Mutex<Option<(Tick, Arc<Listing>)>>,
}

#[derive(Debug, Default)]
pub(crate) struct Listing {
    by_alias: HashMap<String, SubmitterId>,
    by_id: BTreeMap<SubmitterId, Option<String>>,
    addresses: HashSet<Address>,
}

impl Directory {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, age: Duration) -> Self {
        Directory { store, clock, age, kept: Mutex::new(None) }
    }

    pub(crate) async fn listing(&self) -> Result<Arc<Listing>, StoreError> {
        let mut kept = self.kept.lock().await;
        let now = self.clock.now();
        if let Some((read_at, listing)) = kept.as_ref()
            && now.saturating_since(*read_at) < self.age
        {
            return Ok(Arc::clone(listing));
        }
        let mut listing = Listing::default();
        for submitter in self.store.submitters().await? {
            listing.by_alias.extend(submitter.alias.clone().map(|alias| (alias, submitter.id.clone())));
            listing.addresses.extend(submitter.id.evm_address());
            listing.by_id.insert(submitter.id, submitter.alias);
        }
        let listing = Arc::new(listing);
        *kept = Some((now, Arc::clone(&listing)));
        Ok(listing)
    }

    /// Resolves a reference. An id is returned unchanged, whether the submitter exists or not.
    pub(crate) async fn resolve(&self, name: SubmitterRef) -> Result<Option<SubmitterId>, StoreError> {
        match name {
            SubmitterRef::Id(id) => Ok(Some(id)),
            SubmitterRef::Alias(alias) => Ok(self.listing().await?.by_alias.get(&alias).cloned()),
        }
    }
}

impl Listing {
    /// True if the address belongs to a submitter on any chain.
    pub(crate) fn manages(&self, address: Address) -> bool {
        self.addresses.contains(&address)
    }

    /// Up to `limit` submitters after `after`, in order.
    pub(crate) fn page(&self, after: Option<&SubmitterId>, limit: usize) -> Vec<SubmitterId> {
        let begin = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let range = self.by_id.range::<SubmitterId, _>((begin, std::ops::Bound::Unbounded));
        range.take(limit).map(|(id, _)| id.clone()).collect()
    }
}
