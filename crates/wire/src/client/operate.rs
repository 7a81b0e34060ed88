//! The calls of operators: to lanes, chains and the database.

use std::time::Duration;

use super::query::AuditQuery;
use super::{Client, ClientError};
use crate::audit::AuditView;
use crate::chain::{AcceptChainRequest, ChainAccepted};
use crate::command::{CancelPendingView, CommandView, ResyncRequest};
use crate::page::Page;
use crate::store::{DeclareRequest, StoreDeclared};

impl Client {
    /// Binds nothing new until [`Client::resume`]. With `wait`, the answer comes when the lane has taken notice.
    pub async fn pause(&self, name: &str, wait: Option<Duration>) -> Result<CommandView, ClientError> {
        self.tell(name, "pause", wait).await
    }

    pub async fn resume(&self, name: &str, wait: Option<Duration>) -> Result<CommandView, ClientError> {
        self.tell(name, "resume", wait).await
    }

    /// Leaves PROTECT, if what led into it is over. With `wait`, a refusal is a problem (`refused`).
    pub async fn unprotect(&self, name: &str, wait: Option<Duration>) -> Result<CommandView, ClientError> {
        self.tell(name, "unprotect", wait).await
    }

    /// Reconciles the lane with its chain, or only says what that would do. With `wait`, a refusal is a problem (`refused`).
    pub async fn resync(
        &self,
        name: &str,
        request: &ResyncRequest,
        wait: Option<Duration>,
    ) -> Result<CommandView, ClientError> {
        self.post(&["api", "v1", "submitters", name, "resync"], Some(request), wait).await
    }

    /// Cancels all that a submitter has under way: what is queued at once, the rest by races that the chain decides.
    pub async fn cancel_pending(&self, name: &str, wait: Option<Duration>) -> Result<CancelPendingView, ClientError> {
        self.post(&["api", "v1", "submitters", name, "cancel-pending"], None::<&()>, wait).await
    }

    /// Accepts that a chain is another one than before, or went back behind what was final.
    pub async fn accept_chain(&self, chain: &str, reason: &str) -> Result<ChainAccepted, ClientError> {
        let request = AcceptChainRequest { reason: reason.to_owned() };
        self.post(&["api", "v1", "chains", chain, "accept"], Some(&request), None).await
    }

    /// Declares that the database was restored or has lost commits. Every lane goes into PROTECT before it writes
    /// anything else.
    pub async fn declare_lost(&self, reason: &str) -> Result<StoreDeclared, ClientError> {
        let request = DeclareRequest { reason: reason.to_owned() };
        self.post(&["api", "v1", "store", "declare-lost"], Some(&request), None).await
    }

    /// Declares that every loss of commits so far has been looked into, so that new submitters work.
    pub async fn declare_reconciled(&self, reason: &str) -> Result<StoreDeclared, ClientError> {
        let request = DeclareRequest { reason: reason.to_owned() };
        self.post(&["api", "v1", "store", "declare-reconciled"], Some(&request), None).await
    }

    /// Who changed what no ordinary work changes, newest first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Page<AuditView>, ClientError> {
        self.get(&["api", "v1", "audit"], &query.pairs(), None).await
    }

    async fn tell(&self, name: &str, verb: &str, wait: Option<Duration>) -> Result<CommandView, ClientError> {
        self.post(&["api", "v1", "submitters", name, verb], None::<&()>, wait).await
    }
}
