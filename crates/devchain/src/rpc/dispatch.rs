//! Dispatch of requests: from the text of a request to the text of its answer.

use alloy_primitives::Bytes;
use serde_json::Value;

use super::args::Args;
use super::line::{FellBehind, Line, Reply, Road, Served};
use super::message::{
    self, Answer, Incoming, Invalid, LIMIT_EXCEEDED_CODE, METHOD_NOT_FOUND_CODE, Request, answer, failure, read_params,
    success,
};
use super::server::{EndpointError, RpcLimits, RpcServer};
use super::subscription::Subscriptions;
use super::{control, read};
use crate::endpoint::{Admitted, Endpoint, Refusal};
use crate::error::RpcError;
use crate::faults::SEND_METHOD;

/// A connection to one endpoint of the dev chain.
#[derive(Debug)]
pub(crate) struct DevLine {
    server: RpcServer,
    endpoint: Endpoint,
    /// `None` over HTTP, which has no subscriptions.
    subscriptions: Option<Subscriptions>,
}

impl Served for RpcServer {
    type Line = DevLine;

    fn limits(&self) -> &RpcLimits {
        self.limits()
    }

    fn line(&self, endpoint: &str, road: Road) -> Result<DevLine, EndpointError> {
        let subscriptions = (road == Road::Socket).then(Subscriptions::default);
        Ok(DevLine { server: self.clone(), endpoint: self.endpoint(endpoint)?, subscriptions })
    }
}

impl Line for DevLine {
    fn is_dead(&self) -> bool {
        self.endpoint.faults().is_dead()
    }

    async fn answer(&mut self, text: &[u8]) -> Reply {
        let reach = self.subscriptions.as_mut().map_or(Reach::Http, Reach::Socket);
        handle(&self.server, &self.endpoint, text, reach)
    }

    async fn news(&mut self) -> Result<Vec<String>, FellBehind> {
        let Some(subscriptions) = &mut self.subscriptions else { return std::future::pending().await };
        loop {
            let event = subscriptions.next().await?;
            if let Some(event) = self.endpoint.seen(event) {
                return Ok(subscriptions.notifications(&event));
            }
        }
    }
}

/// The transport of a call. Only a WebSocket has subscriptions.
enum Reach<'a> {
    Http,
    Socket(&'a mut Subscriptions),
}

fn handle(server: &RpcServer, endpoint: &Endpoint, text: &[u8], mut reach: Reach<'_>) -> Reply {
    server.clock().tell(server.chain());
    match Incoming::parse(text, server.limits().batch_calls) {
        Err(error) => Reply::Text(error.to_text()),
        Ok(Incoming::Single(request)) => one(server, endpoint, request, &mut reach),
        Ok(Incoming::Batch(requests)) => {
            let replies = requests.into_iter().map(|request| one(server, endpoint, request, &mut reach)).collect();
            gather(replies)
        }
    }
}

/// Joins the answers of a batch. All calls of a batch are executed, one after the other. A fault of one call replaces
/// the whole answer.
fn gather(replies: Vec<Reply>) -> Reply {
    let mut texts = Vec::with_capacity(replies.len());
    for reply in replies {
        match reply {
            Reply::Text(text) => texts.push(text),
            Reply::Nothing => {}
            fault => return fault,
        }
    }
    if texts.is_empty() { Reply::Nothing } else { Reply::Text(format!("[{}]", texts.join(","))) }
}

fn one(
    server: &RpcServer,
    endpoint: &Endpoint,
    request: Result<Request<'_>, Invalid<'_>>,
    reach: &mut Reach<'_>,
) -> Reply {
    let Request { id, method, params } = match request {
        Ok(request) => request,
        Err(invalid) => return Reply::Text(message::invalid(&invalid)),
    };
    let result = read_params(params).map_err(Refusal::from);
    let result = result.and_then(|params| call(server, endpoint, &method, params, reach));
    let over_http = matches!(reach, Reach::Http);
    match (result, id) {
        (Err(Refusal::TimedOut), _) => Reply::Silence,
        (Err(Refusal::Disconnected), _) => Reply::Disconnect,
        (Err(Refusal::Http { status, retry_after_secs, body }), _) if over_http => {
            Reply::Http { status, retry_after_secs, body }
        }
        (_, None) => Reply::Nothing,
        (Ok(result), Some(id)) => Reply::Text(success(id, &result)),
        (Err(Refusal::Rpc(error)), Some(id)) => Reply::Text(failure(id, &error)),
        // A WebSocket has no HTTP status. Nodes use this code instead.
        (Err(Refusal::Http { body, .. }), Some(id)) => {
            Reply::Text(failure(id, &RpcError::new(LIMIT_EXCEEDED_CODE, body)))
        }
    }
}

fn call(
    server: &RpcServer,
    endpoint: &Endpoint,
    method: &str,
    params: Value,
    reach: &mut Reach<'_>,
) -> Result<Answer, Refusal> {
    // Faults do not apply to control methods, which are not part of a real node.
    if control::is_control(method) {
        return Ok(control::control(server, method, params)?);
    }
    if method == SEND_METHOD {
        let mut args = Args::new(params, 1)?;
        let raw: Bytes = args.required()?;
        return Ok(answer(&endpoint.send_raw(&raw)?)?);
    }
    let view = match endpoint.admit(method)? {
        Admitted::View(view) => view,
        Admitted::Null => return Ok(answer(&Value::Null)?),
    };
    match (method, reach) {
        ("eth_subscribe", Reach::Http) => {
            Err(RpcError::new(METHOD_NOT_FOUND_CODE, "notifications not supported").into())
        }
        // Over HTTP no subscription exists, so the answer is "subscription not found".
        ("eth_unsubscribe", Reach::Http) => Ok(Subscriptions::default().close(params)?),
        ("eth_subscribe", Reach::Socket(subscriptions)) => Ok(subscriptions.open(server, endpoint, params)?),
        ("eth_unsubscribe", Reach::Socket(subscriptions)) => Ok(subscriptions.close(params)?),
        _ => Ok(read::read(&view, method, params)?),
    }
}
