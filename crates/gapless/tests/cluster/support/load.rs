//! Callers, and what they were told.

use std::sync::RwLock;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use gapless_wire::{CallPayload, Client, ClientError, TxAccepted, TxRequest};

use super::{LONG, Node};

/// What a caller got for its request, and when: before `asked` it did not exist, after `answered` it is durable.
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    pub(crate) tx_id: String,
    pub(crate) request_id: String,
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
}

/// One wei for somebody, without an estimate: what counts is that it happens exactly once.
pub(crate) fn transfer(submitter: &str, request_id: &str, to: &str) -> TxRequest {
    let payload = CallPayload { to: Some(to.to_owned()), value: Some("1".to_owned()), ..CallPayload::default() };
    TxRequest::new(submitter, request_id, payload)
}

/// Hands in one intent as a careful caller does: asks again, at each node in turn, until it has an answer that counts.
pub(crate) async fn create(clients: &[&Client], first: usize, request: &TxRequest) -> Accepted {
    ask_in_turn(request, first, async |turn| Some(clients[turn % clients.len()].create_tx(request).await)).await
}

/// Where nodes can be asked, for callers who stay while nodes come and go, under another address each time.
#[derive(Debug)]
pub(crate) struct Doors(RwLock<Vec<Client>>);

impl Doors {
    /// How long a caller stands before one of them.
    const PATIENCE: Duration = Duration::from_secs(2);

    pub(crate) fn of(nodes: &[Node]) -> Self {
        Doors(RwLock::new(nodes.iter().map(|node| node.client.clone()).collect()))
    }

    pub(crate) fn replace(&self, at: usize, node: &Node) {
        self.0.write().unwrap()[at] = node.client.clone();
    }

    pub(crate) fn add(&self, node: &Node) {
        self.0.write().unwrap().push(node.client.clone());
    }

    pub(crate) fn client(&self, turn: usize) -> Client {
        let clients = self.0.read().unwrap();
        clients[turn % clients.len()].clone()
    }

    /// Hands in one intent, as [`create`] does; and whoever says nothing for long is not waited for.
    pub(crate) async fn create(&self, first: usize, request: &TxRequest) -> Accepted {
        let ask = async |turn| tokio::time::timeout(Self::PATIENCE, self.client(turn).create_tx(request)).await.ok();
        ask_in_turn(request, first, ask).await
    }
}

/// `ask` gives no answer for a node that says nothing.
async fn ask_in_turn(
    request: &TxRequest,
    first: usize,
    ask: impl AsyncFn(usize) -> Option<Result<(TxAccepted, bool), ClientError>>,
) -> Accepted {
    let asked = Instant::now();
    for turn in first.. {
        match ask(turn).await {
            Some(Ok((accepted, _))) => {
                let request_id = accepted.request_id;
                return Accepted { tx_id: accepted.tx_id, request_id, asked, answered: Instant::now() };
            }
            Some(Err(error)) if !may_be_asked_again(&error) || asked.elapsed() >= LONG => {
                panic!("{:?} was not accepted: {error}", request.request_id)
            }
            None if asked.elapsed() >= LONG => panic!("nobody has answered {:?}", request.request_id),
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    unreachable!("turns never end")
}

/// Not that it was refused, only that there is no answer now.
pub(crate) fn may_be_asked_again(error: &ClientError) -> bool {
    match error {
        ClientError::Transport(_) => true,
        ClientError::Problem(problem) => problem.status == 503 || problem.status == 429,
        ClientError::Address(_) | ClientError::Foreign { .. } => false,
    }
}

/// Hands in many, so many at once, over all nodes. Request ids are `PREFIX-0` and so on.
pub(crate) async fn create_all(
    nodes: &[Node],
    submitter: &str,
    prefix: &str,
    to: &str,
    count: usize,
    at_once: usize,
) -> Vec<Accepted> {
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
