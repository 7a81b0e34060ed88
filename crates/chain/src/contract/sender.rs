//! The sends of a chain, and the diagnosis of their fate.

use std::fmt;

use async_trait::async_trait;
use gapless_domain::{DiagnoseRequest, EndpointAnswer, MempoolSignal, SignedTx, SubmitterId};

use crate::classified::Classified;

/// Sends to one chain.
#[async_trait]
pub trait ChainSender: Send + Sync + fmt::Debug {
    /// Sends transactions to the endpoints, in the given order. A transaction has one combined answer: accepted if any
    /// endpoint accepted, else unknown if any gave no verdict, else the least final verdict (S10). The call itself
    /// never fails: failures are in the answers.
    async fn broadcast(&self, txs: &[SignedTx]) -> Vec<SendAnswer>;

    /// The mempool state of nonces of one account, on all endpoints. It is a hint and proves nothing (P9). A failure is
    /// [`MempoolSignal::Unknown`].
    async fn diagnose(&self, account: &SubmitterId, asked: &[DiagnoseRequest]) -> Vec<MempoolSignal>;
}

/// The answer to the send of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendAnswer {
    /// The combined answer of all endpoints.
    pub classified: Classified,
    /// The answer of each endpoint that answered.
    pub heard: Vec<EndpointAnswer>,
}

impl From<Classified> for SendAnswer {
    fn from(classified: Classified) -> Self {
        SendAnswer { classified, heard: Vec::new() }
    }
}
