//! What callers have asked for and were told; and what they had to hear of afterwards, when the database had lost it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use crate::callers::LaneLoad;
use crate::support::Accepted;

#[derive(Debug, Default)]
pub(crate) struct Register(Mutex<BTreeMap<String, Entry>>);

/// One request, by its id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) submitter: String,
    /// The answer that holds. There is none before the first, and none after its loss was declared.
    pub(crate) accepted: Option<Accepted>,
    /// How often an answer that was given did not hold.
    pub(crate) lost: u32,
    /// An operator has found its transaction on chain, where the ledger knows of no intent: its caller does not ask any more.
    pub(crate) happened: bool,
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.accepted.as_ref().map_or("nothing that holds", |accepted| &accepted.tx_id);
        write!(
            out,
            "its caller was told {told}; answers lost {}, found on chain by an operator: {}",
            self.lost, self.happened
        )
    }
}

impl Register {
    pub(crate) fn asks(&self, lane: &LaneLoad, request_id: &str) {
        let mut entries = self.entries();
        let entry = entries.entry(request_id.to_owned()).or_default();
        entry.submitter = lane.submitter();
    }

    /// Which other intent the same request was said to be, if there is one.
    pub(crate) fn told(&self, accepted: &Accepted) -> Result<(), String> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&accepted.request_id).unwrap();
        match &entry.accepted {
            None => entry.accepted = Some(accepted.clone()),
            Some(before) if before.tx_id != accepted.tx_id => return Err(before.tx_id.clone()),
            Some(_) => {}
        }
        Ok(())
    }

    /// What a database no longer has, of what was answered. These answers are void, and everybody knows it.
    pub(crate) fn declare_lost(&self, submitter: &str, kept: &BTreeSet<String>) -> Vec<String> {
        let mut lost = Vec::new();
        for (request_id, entry) in self.entries().iter_mut().filter(|(_, entry)| entry.submitter == submitter) {
            if entry.accepted.is_some() && !kept.contains(request_id) {
                entry.accepted = None;
                entry.lost += 1;
                lost.push(request_id.clone());
            }
        }
        lost
    }

    /// False if nobody has ever asked for it.
    pub(crate) fn has_been_found(&self, request_id: &str) -> bool {
        let mut entries = self.entries();
        let entry = entries.get_mut(request_id);
        entry.map(|entry| entry.happened = true).is_some()
    }

    pub(crate) fn happened(&self, request_id: &str) -> bool {
        self.entries().get(request_id).is_some_and(|entry| entry.happened)
    }

    pub(crate) fn read(&self) -> BTreeMap<String, Entry> {
        self.entries().clone()
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap()
    }
}
