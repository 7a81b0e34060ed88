//! The HTTP client, with one method for each route.
//!
//! The client repeats no request by itself. Every request is safe to repeat (a request id is accepted once), and the
//! caller knows how long it may take.

mod nonces;
mod operate;
mod query;
mod queued;
mod with_nonce;

use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::batch::{BatchRequest, BatchResult};
use crate::chain::ChainView;
use crate::command::{CancelView, CommandView, ReplaceRequest, ResubmitRequest, TxCommandView};
use crate::health::HealthView;
use crate::page::Page;
use crate::problem::Problem;
use crate::request::TxRequest;
use crate::submitter::{SubmitterExpand, SubmitterView};
use crate::tx::{TxAccepted, TxView};
pub use query::{AuditQuery, ListQuery, PageQuery, TxQuery};
use query::{expand_text, segment, wait_text};
pub use with_nonce::{NonceContext, NonceFate, NonceOptions, WithNonceError};

/// Limit of a response body.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time-out of a request that does not wait; a long poll adds its waiting time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server refused the request.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// No answer. Whether the server executed the request is unknown.
    #[error("no answer from the server: {0}")]
    Transport(#[source] reqwest::Error),
    #[error("`{0}` is not the http address of a server")]
    Address(String),
    /// The answer is not from Gapless, or from another version.
    #[error("the answer (status {status}) is not from Gapless: {why}")]
    Foreign { status: u16, why: String },
}

impl ClientError {
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            ClientError::Problem(problem) => Some(problem),
            _ => None,
        }
    }
}

impl ClientError {
    /// True if the server refused and did nothing. Every other error leaves the result open.
    pub fn is_refusal(&self) -> bool {
        self.problem()
            .is_some_and(|problem| matches!(problem.status, 400..=499) && !matches!(problem.status, 408 | 425 | 429))
    }
}

impl From<reqwest::Error> for ClientError {
    fn from(error: reqwest::Error) -> Self {
        ClientError::Transport(error)
    }
}

impl Client {
    /// Creates a client of the server at `address`, such as `http://127.0.0.1:8080`.
    pub fn new(address: &str) -> Result<Self, ClientError> {
        let wrong = || ClientError::Address(address.to_owned());
        let base: Url = address.parse().map_err(|_| wrong())?;
        if base.cannot_be_a_base() || !(base.scheme() == "http" || (cfg!(feature = "tls") && base.scheme() == "https"))
        {
            return Err(wrong());
        }
        #[cfg(feature = "tls")]
        // Fails only if a provider was chosen before, and then that provider is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).build()?;
        Ok(Client { http, base })
    }

    /// Sends an intent. The flag is true if it is new, and false if it was accepted before.
    pub async fn create_tx(&self, request: &TxRequest) -> Result<(TxAccepted, bool), ClientError> {
        let response = send(self.request(Method::POST, &["api", "v1", "tx"]).body(json(request)?)).await?;
        let is_new = response.status().as_u16() == 202;
        Ok((read(response).await?, is_new))
    }

    pub async fn create_batch(&self, requests: &[TxRequest]) -> Result<BatchResult, ClientError> {
        let raw =
            requests.iter().map(serde_json::value::to_raw_value).collect::<Result<Vec<_>, _>>().map_err(unwritable)?;
        let body = json(&BatchRequest { transactions: raw })?;
        read(send(self.request(Method::POST, &["api", "v1", "tx", "batch"]).body(body)).await?).await
    }

    pub async fn tx(&self, tx_id: &str, query: &TxQuery) -> Result<TxView, ClientError> {
        self.get(&["api", "v1", "tx", tx_id], &query.pairs(), query.wait).await
    }

    /// Cancels a transaction: at once in the queue, later by a race that the chain decides. With `wait`, the answer
    /// comes when the lane has begun that race.
    pub async fn cancel_tx(&self, tx_id: &str, wait: Option<Duration>) -> Result<CancelView, ClientError> {
        self.post(&["api", "v1", "tx", tx_id, "cancel"], None::<&()>, wait).await
    }

    /// Replaces the payload: at once in the queue, later by another transaction at the same nonce; the chain decides
    /// which one counts. With `wait`, the answer comes when the lane has signed it, and a refusal is a problem
    /// (`refused`).
    pub async fn replace_tx(
        &self,
        tx_id: &str,
        request: &ReplaceRequest,
        wait: Option<Duration>,
    ) -> Result<TxCommandView, ClientError> {
        self.post(&["api", "v1", "tx", tx_id, "replace"], Some(request), wait).await
    }

    /// Sends a transaction again now, at this price or by the config. With `wait`, a refusal is a problem (`refused`).
    pub async fn resubmit_tx(
        &self,
        tx_id: &str,
        request: &ResubmitRequest,
        wait: Option<Duration>,
    ) -> Result<TxCommandView, ClientError> {
        self.post(&["api", "v1", "tx", tx_id, "resubmit"], Some(request), wait).await
    }

    pub async fn tx_by_request(
        &self,
        submitter: &str,
        request_id: &str,
        query: &TxQuery,
    ) -> Result<TxView, ClientError> {
        let mut pairs = query.pairs();
        pairs.push(("submitter", submitter.to_owned()));
        pairs.push(("requestId", request_id.to_owned()));
        self.get(&["api", "v1", "tx", "by-request"], &pairs, query.wait).await
    }

    pub async fn list_tx(&self, query: &ListQuery) -> Result<Page<TxView>, ClientError> {
        self.get(&["api", "v1", "tx"], &query.pairs(), None).await
    }

    pub async fn submitters(&self, query: &PageQuery) -> Result<Page<SubmitterView>, ClientError> {
        self.get(&["api", "v1", "submitters"], &query.pairs(), None).await
    }

    /// One submitter, by CAIP-10 id or alias.
    pub async fn submitter(&self, name: &str, expand: &[SubmitterExpand]) -> Result<SubmitterView, ClientError> {
        self.submitter_from(name, expand, None).await
    }

    /// One submitter with a later page of slots: from `nextSlot` of the page before.
    pub async fn submitter_from(
        &self,
        name: &str,
        expand: &[SubmitterExpand],
        from_slot: Option<u64>,
    ) -> Result<SubmitterView, ClientError> {
        let mut pairs = expand_text(expand.iter().map(|word| word.as_str()));
        pairs.extend(from_slot.map(|nonce| ("fromSlot", nonce.to_string())));
        self.get(&["api", "v1", "submitters", name], &pairs, None).await
    }

    pub async fn command(&self, command_id: &str) -> Result<CommandView, ClientError> {
        self.get(&["api", "v1", "commands", command_id], &[], None).await
    }

    pub async fn chains(&self) -> Result<Vec<ChainView>, ClientError> {
        self.get(&["api", "v1", "chains"], &[], None).await
    }

    /// One chain, by its CAIP-2 id.
    pub async fn chain(&self, chain: &str) -> Result<ChainView, ClientError> {
        self.get(&["api", "v1", "chains", chain], &[], None).await
    }

    pub async fn healthz(&self) -> Result<HealthView, ClientError> {
        self.get(&["healthz"], &[], None).await
    }

    pub async fn readyz(&self) -> Result<HealthView, ClientError> {
        self.get(&["readyz"], &[], None).await
    }

    /// The metrics as Prometheus text.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        self.text(&["metrics"]).await
    }

    /// The OpenAPI document as text.
    pub async fn openapi(&self) -> Result<String, ClientError> {
        self.text(&["openapi.json"]).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: Option<&impl Serialize>,
        wait: Option<Duration>,
    ) -> Result<T, ClientError> {
        let request = request_with(self.request(Method::POST, path), &wait_text(wait), wait);
        let request = match body {
            Some(body) => request.body(json(body)?),
            None => request,
        };
        read(send(request).await?).await
    }

    async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        pairs: &[(&'static str, String)],
        wait: Option<Duration>,
    ) -> Result<T, ClientError> {
        read(send(request_with(self.request(Method::GET, path), pairs, wait)).await?).await
    }

    async fn text(&self, path: &[&str]) -> Result<String, ClientError> {
        let response = refuse_problem(send(self.request(Method::GET, path)).await?).await?;
        let status = response.status().as_u16();
        let bytes = body(response).await?;
        String::from_utf8(bytes).map_err(|error| ClientError::Foreign { status, why: error.to_string() })
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.base.clone();
        let mut whole = url.path().trim_end_matches('/').to_owned();
        for part in path {
            whole.push('/');
            whole.push_str(&segment(part));
        }
        url.set_path(&whole);
        self.http.request(method, url).timeout(ANSWER_TIMEOUT)
    }
}

fn request_with(request: RequestBuilder, pairs: &[(&'static str, String)], wait: Option<Duration>) -> RequestBuilder {
    let request = if pairs.is_empty() { request } else { request.query(pairs) };
    request.timeout(ANSWER_TIMEOUT.saturating_add(wait.unwrap_or_default()))
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>, ClientError> {
    serde_json::to_vec(value).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> ClientError {
    ClientError::Foreign { status: 0, why: error.to_string() }
}

async fn send(request: RequestBuilder) -> Result<Response, ClientError> {
    Ok(request.header("content-type", "application/json").send().await?)
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, ClientError> {
    let response = refuse_problem(response).await?;
    let status = response.status().as_u16();
    let bytes = body(response).await?;
    serde_json::from_slice(&bytes).map_err(|error| ClientError::Foreign { status, why: error.to_string() })
}

async fn refuse_problem(response: Response) -> Result<Response, ClientError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let bytes = body(response).await?;
    let mut problem: Problem = serde_json::from_slice(&bytes)
        .map_err(|error| ClientError::Foreign { status: status.as_u16(), why: error.to_string() })?;
    problem.retry_after = problem.retry_after.or(retry_after);
    Err(ClientError::Problem(Box::new(problem)))
}

async fn body(mut response: Response) -> Result<Vec<u8>, ClientError> {
    let status = response.status().as_u16();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(ClientError::Foreign { status, why: "the answer is too large".to_owned() });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
