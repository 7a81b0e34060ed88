//! Callers and their answers.

use std::sync::RwLock;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use gapless_wire::{CallPayload, Client, ClientError, TxAccepted, TxRequest};

use super::{LONG, NodeProcess};

/// An accepted request. Before `asked` the intent did not exist, and after `answered` it is durable.
#[derive(Clone, Debug)]
pub(crate) struct AcceptedRequest {
    pub(crate) tx_id: String,
    pub(crate) request_id: String,
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
}

/// A request for a transfer of one wei, so that the recipient's balance counts the transfers.
pub(crate) fn transfer(submitter: &str, request_id: &str, to: &str) -> TxRequest {
    let payload = CallPayload { to: Some(to.to_owned()), value: Some("1".to_owned()), ..CallPayload::default() };
    TxRequest::new(submitter, request_id, payload)
}

/// Creates one intent: repeats the request at each node in turn until there is an answer.
pub(crate) async fn create(clients: &[&Client], first: usize, request: &TxRequest) -> AcceptedRequest {
    send_to_nodes_in_turn(request, first, async |turn| Some(clients[turn % clients.len()].create_tx(request).await))
        .await
}

/// The clients of all nodes. A restarted node has another address, so its client is replaced.
#[derive(Debug)]
pub(crate) struct NodeClients(RwLock<Vec<Client>>);

impl NodeClients {
    /// The time limit for the answer of one node.
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

    pub(crate) fn of(nodes: &[NodeProcess]) -> Self {
        NodeClients(RwLock::new(nodes.iter().map(|node| node.client.clone()).collect()))
    }

    pub(crate) fn replace(&self, at: usize, node: &NodeProcess) {
        self.0.write().unwrap()[at] = node.client.clone();
    }

    pub(crate) fn add(&self, node: &NodeProcess) {
        self.0.write().unwrap().push(node.client.clone());
    }

    pub(crate) fn client(&self, turn: usize) -> Client {
        let clients = self.0.read().unwrap();
        clients[turn % clients.len()].clone()
    }

    /// Creates one intent like [`create`], with a time limit for each node.
    pub(crate) async fn create(&self, first: usize, request: &TxRequest) -> AcceptedRequest {
        let send =
            async |turn| tokio::time::timeout(Self::ANSWER_TIMEOUT, self.client(turn).create_tx(request)).await.ok();
        send_to_nodes_in_turn(request, first, send).await
    }
}

/// Calls `send` for each node in turn until there is an answer. `send` returns `None` if a node does not answer in
/// time.
async fn send_to_nodes_in_turn(
    request: &TxRequest,
    first: usize,
    send: impl AsyncFn(usize) -> Option<Result<(TxAccepted, bool), ClientError>>,
) -> AcceptedRequest {
    let asked = Instant::now();
    for turn in first.. {
        match send(turn).await {
            Some(Ok((accepted, _))) => {
                let request_id = accepted.request_id;
                return AcceptedRequest { tx_id: accepted.tx_id, request_id, asked, answered: Instant::now() };
            }
            Some(Err(error)) if !is_retryable(&error) || asked.elapsed() >= LONG => {
                panic!("{:?} was not accepted: {error}", request.request_id)
            }
            None if asked.elapsed() >= LONG => panic!("no node answered {:?}", request.request_id),
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    unreachable!("turns never end")
}

/// True if there is no answer yet, which is not a refusal.
pub(crate) fn is_retryable(error: &ClientError) -> bool {
    match error {
        ClientError::Transport(_) => true,
        ClientError::Problem(problem) => problem.status == 503 || problem.status == 429,
        ClientError::Address(_) | ClientError::Foreign { .. } => false,
    }
}

/// Creates `count` intents over all nodes, `at_once` at the same time, with the request ids `PREFIX-0` and so on.
pub(crate) async fn create_all(
    nodes: &[NodeProcess],
    submitter: &str,
    prefix: &str,
    to: &str,
    count: usize,
    at_once: usize,
) -> Vec<AcceptedRequest> {
    let clients: Vec<&Client> = nodes.iter().map(|node| &node.client).collect();
    let clients = clients.as_slice();
    stream::iter(0..count)
        .map(|n| async move {
            let request = transfer(submitter, &format!("{prefix}-{n}"), to);
            create(clients, n, &request).await
        })
        .buffer_unordered(at_once)
        .collect()
        .await
}
