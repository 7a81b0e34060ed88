//! The requests of callers, their answers, and the answers that the database lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use crate::callers::LaneLoad;
use crate::support::AcceptedRequest;

#[derive(Debug, Default)]
pub(crate) struct AnswerLog(Mutex<BTreeMap<String, CallerRequest>>);

/// One request of a caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallerRequest {
    pub(crate) submitter: String,
    /// The valid answer: `None` before the first answer, and after a declared loss.
    pub(crate) accepted: Option<AcceptedRequest>,
    /// The number of lost answers.
    pub(crate) lost: u32,
    /// An operator has found the transaction on chain, while the ledger has no intent. The caller does not repeat the
    /// request.
    pub(crate) is_found_on_chain: bool,
}

impl fmt::Display for CallerRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = self.accepted.as_ref().map_or("none", |accepted| &accepted.tx_id);
        let CallerRequest { lost, is_found_on_chain, .. } = self;
        write!(out, "valid answer: {answer}; lost answers: {lost}; found on chain by an operator: {is_found_on_chain}")
    }
}

impl AnswerLog {
    pub(crate) fn record_request(&self, lane: &LaneLoad, request_id: &str) {
        let mut entries = self.entries();
        let entry = entries.entry(request_id.to_owned()).or_default();
        entry.submitter = lane.submitter();
    }

    /// Records an answer. `Err` is the different transaction id of an earlier answer.
    pub(crate) fn record_answer(&self, accepted: &AcceptedRequest) -> Result<(), String> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&accepted.request_id).unwrap();
        match &entry.accepted {
            None => entry.accepted = Some(accepted.clone()),
            Some(before) if before.tx_id != accepted.tx_id => return Err(before.tx_id.clone()),
            Some(_) => {}
        }
        Ok(())
    }

    /// Declares all answers lost whose requests the database does not have, and returns the request ids.
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

    /// Records that the transaction of a request is on chain. Returns false if there is no such request.
    pub(crate) fn record_found_on_chain(&self, request_id: &str) -> bool {
        let mut entries = self.entries();
        let entry = entries.get_mut(request_id);
        entry.map(|entry| entry.is_found_on_chain = true).is_some()
    }

    pub(crate) fn is_found_on_chain(&self, request_id: &str) -> bool {
        self.entries().get(request_id).is_some_and(|entry| entry.is_found_on_chain)
    }

    pub(crate) fn read(&self) -> BTreeMap<String, CallerRequest> {
        self.entries().clone()
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, CallerRequest>> {
        self.0.lock().unwrap()
    }
}
