//! Operators' commands to lanes, chains and the database.

use std::time::Duration;

use super::query::AuditQuery;
use super::{Client, ClientError};
use crate::audit::AuditView;
use crate::chain::{AcceptChainRequest, ChainAccepted};
use crate::command::{CancelPendingView, CommandView, ResyncRequest};
use crate::page::Page;
use crate::store::{DeclareRequest, StoreDeclared};

impl Client {
    /// Gives a submitter's lane a command without arguments, by the last part of its route (`pause`). With `wait`, the
    /// answer comes when the lane has executed it, and a refusal is a problem (`refused`).
    pub async fn command_lane(
        &self,
        name: &str,
        command: &str,
        wait: Option<Duration>,
    ) -> Result<CommandView, ClientError> {
        self.post(&["api", "v1", "submitters", name, command], None::<&()>, wait).await
    }

    /// Pauses a submitter: no new nonce is bound until [`Client::resume`]. With `wait`, the answer comes when the lane
    /// has executed it.
    pub async fn pause(&self, name: &str, wait: Option<Duration>) -> Result<CommandView, ClientError> {
        self.command_lane(name, "pause", wait).await
    }

    pub async fn resume(&self, name: &str, wait: Option<Duration>) -> Result<CommandView, ClientError> {
        self.command_lane(name, "resume", wait).await
    }

    /// Leaves PROTECT, if its cause is gone. With `wait`, a refusal is a problem (`refused`).
    pub async fn unprotect(&self, name: &str, wait: Option<Duration>) -> Result<CommandView, ClientError> {
        self.command_lane(name, "unprotect", wait).await
    }

    /// Reconciles the lane with its chain, or lists what that would do. With `wait`, a refusal is a problem
    /// (`refused`).
    pub async fn resync(
        &self,
        name: &str,
        request: &ResyncRequest,
        wait: Option<Duration>,
    ) -> Result<CommandView, ClientError> {
        self.post(&["api", "v1", "submitters", name, "resync"], Some(request), wait).await
    }

    /// Cancels all open transactions of a submitter: queued ones at once, the rest by races that the chain decides.
    pub async fn cancel_pending(&self, name: &str, wait: Option<Duration>) -> Result<CancelPendingView, ClientError> {
        self.post(&["api", "v1", "submitters", name, "cancel-pending"], None::<&()>, wait).await
    }

    /// Accepts a chain as it is now: another chain than before, or one that went back behind a final block.
    pub async fn accept_chain(&self, chain: &str, reason: &str) -> Result<ChainAccepted, ClientError> {
        let request = AcceptChainRequest { reason: reason.to_owned() };
        self.post(&["api", "v1", "chains", chain, "accept"], Some(&request), None).await
    }

    /// Declares that the database was restored or has lost commits. Every lane enters PROTECT before it writes
    /// anything else.
    pub async fn declare_lost(&self, reason: &str) -> Result<StoreDeclared, ClientError> {
        let request = DeclareRequest { reason: reason.to_owned() };
        self.post(&["api", "v1", "store", "declare-lost"], Some(&request), None).await
    }

    /// Declares that every loss of commits so far is reconciled, so that new submitters work.
    pub async fn declare_reconciled(&self, reason: &str) -> Result<StoreDeclared, ClientError> {
        let request = DeclareRequest { reason: reason.to_owned() };
        self.post(&["api", "v1", "store", "declare-reconciled"], Some(&request), None).await
    }

    /// The audit log, newest first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditView>, ClientError> {
        self.get(&["api", "v1", "audit"], &query.pairs(), None).await
    }
}
