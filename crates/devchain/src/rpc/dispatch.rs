//! Dispatch of requests: from the text of a request to the text of its answer.

use alloy_primitives::Bytes;
use serde_json::Value;

use super::args::Args;
use super::connection::{RpcConnection, RpcReply, RpcService, RpcTransport, SubscriberLagged};
use super::message::{
    self, Answer, Incoming, InvalidRequest, LIMIT_EXCEEDED_CODE, METHOD_NOT_FOUND_CODE, Request, answer, failure,
    read_params, success,
};
use super::server::{EndpointError, RpcLimits, RpcServer};
use super::subscription::Subscriptions;
use super::{control, read};
use crate::endpoint::{Admission, CallRefusal, Endpoint};
use crate::error::RpcError;
use crate::faults::SEND_METHOD;

/// A connection to one endpoint of the dev chain.
#[derive(Debug)]
pub(crate) struct DevConnection {
    server: RpcServer,
    endpoint: Endpoint,
    /// `None` over HTTP, which has no subscriptions.
    subscriptions: Option<Subscriptions>,
}

impl RpcService for RpcServer {
    type Connection = DevConnection;

    fn limits(&self) -> &RpcLimits {
        self.limits()
    }

    fn connect(&self, endpoint: &str, transport: RpcTransport) -> Result<DevConnection, EndpointError> {
        let subscriptions = (transport == RpcTransport::Socket).then(Subscriptions::default);
        Ok(DevConnection { server: self.clone(), endpoint: self.endpoint(endpoint)?, subscriptions })
    }
}

impl RpcConnection for DevConnection {
    fn is_dead(&self) -> bool {
        self.endpoint.faults().is_dead()
    }

    async fn answer(&mut self, text: &[u8]) -> RpcReply {
        let transport = self.subscriptions.as_mut().map_or(CallTransport::Http, CallTransport::Socket);
        handle(&self.server, &self.endpoint, text, transport)
    }

    async fn next_messages(&mut self) -> Result<Vec<String>, SubscriberLagged> {
        let Some(subscriptions) = &mut self.subscriptions else { return std::future::pending().await };
        loop {
            let event = subscriptions.next().await?;
            if let Some(event) = self.endpoint.visible_event(event) {
                return Ok(subscriptions.notifications(&event));
            }
        }
    }
}

/// The transport of a call. Only a WebSocket has subscriptions.
enum CallTransport<'a> {
    Http,
    Socket(&'a mut Subscriptions),
}

fn handle(server: &RpcServer, endpoint: &Endpoint, text: &[u8], mut transport: CallTransport<'_>) -> RpcReply {
    server.clock().apply_to(server.chain());
    match Incoming::parse(text, server.limits().batch_calls) {
        Err(error) => RpcReply::Text(error.to_text()),
        Ok(Incoming::Single(request)) => answer_request(server, endpoint, request, &mut transport),
        Ok(Incoming::Batch(requests)) => {
            let replies =
                requests.into_iter().map(|request| answer_request(server, endpoint, request, &mut transport)).collect();
            join_replies(replies)
        }
    }
}

/// Joins the answers of a batch. All calls of a batch are executed, one after the other. A fault of one call replaces
/// the whole answer.
fn join_replies(replies: Vec<RpcReply>) -> RpcReply {
    let mut texts = Vec::with_capacity(replies.len());
    for reply in replies {
        match reply {
            RpcReply::Text(text) => texts.push(text),
            RpcReply::Nothing => {}
            fault => return fault,
        }
    }
    if texts.is_empty() { RpcReply::Nothing } else { RpcReply::Text(format!("[{}]", texts.join(","))) }
}

fn answer_request(
    server: &RpcServer,
    endpoint: &Endpoint,
    request: Result<Request<'_>, InvalidRequest<'_>>,
    transport: &mut CallTransport<'_>,
) -> RpcReply {
    let Request { id, method, params } = match request {
        Ok(request) => request,
        Err(invalid) => return RpcReply::Text(message::invalid(&invalid)),
    };
    let result = read_params(params).map_err(CallRefusal::from);
    let result = result.and_then(|params| call(server, endpoint, &method, params, transport));
    let over_http = matches!(transport, CallTransport::Http);
    match (result, id) {
        (Err(CallRefusal::TimedOut), _) => RpcReply::TimedOut,
        (Err(CallRefusal::Disconnected), _) => RpcReply::Disconnect,
        (Err(CallRefusal::Http { status, retry_after_secs, body }), _) if over_http => {
            RpcReply::Http { status, retry_after_secs, body }
        }
        (_, None) => RpcReply::Nothing,
        (Ok(result), Some(id)) => RpcReply::Text(success(id, &result)),
        (Err(CallRefusal::Rpc(error)), Some(id)) => RpcReply::Text(failure(id, &error)),
        // A WebSocket has no HTTP status. Nodes use this code instead.
        (Err(CallRefusal::Http { body, .. }), Some(id)) => {
            RpcReply::Text(failure(id, &RpcError::new(LIMIT_EXCEEDED_CODE, body)))
        }
    }
}

fn call(
    server: &RpcServer,
    endpoint: &Endpoint,
    method: &str,
    params: Value,
    transport: &mut CallTransport<'_>,
) -> Result<Answer, CallRefusal> {
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
        Admission::View(view) => view,
        Admission::Null => return Ok(answer(&Value::Null)?),
    };
    match (method, transport) {
        ("eth_subscribe", CallTransport::Http) => {
            Err(RpcError::new(METHOD_NOT_FOUND_CODE, "notifications not supported").into())
        }
        // Over HTTP no subscription exists, so the answer is "subscription not found".
        ("eth_unsubscribe", CallTransport::Http) => Ok(Subscriptions::default().close(params)?),
        ("eth_subscribe", CallTransport::Socket(subscriptions)) => Ok(subscriptions.open(server, endpoint, params)?),
        ("eth_unsubscribe", CallTransport::Socket(subscriptions)) => Ok(subscriptions.close(params)?),
        _ => Ok(read::read(&view, method, params)?),
    }
}
