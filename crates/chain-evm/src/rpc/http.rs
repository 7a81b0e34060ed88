//! HTTP/1.1 with keep-alive. Redirects are not followed: the target would receive the transactions and the credentials.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gapless_secret::{SecretUrl, UrlError};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

use super::frame::{decode, encode, refuses_batches};
use super::{Exchange, MAX_ERROR_BYTES, MAX_RESPONSE_BYTES, RpcCall, RpcFailure};

/// Servers and load balancers usually allow more, so the client closes an idle connection first.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// A longer `Retry-After` is cut to this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

pub(crate) struct HttpTransport {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    uri: Uri,
    authorization: Option<HeaderValue>,
}

impl HttpTransport {
    pub(crate) fn new(url: &SecretUrl, tls: &Arc<ClientConfig>, connect_timeout: Duration) -> Result<Self, UrlError> {
        let uri = url.expose_without_credentials().parse().map_err(|_| UrlError::Malformed)?;
        let authorization = match url.basic_authorization() {
            None => None,
            Some(text) => {
                let mut value = HeaderValue::from_str(&text).map_err(|_| UrlError::Malformed)?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect_timeout));
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(ClientConfig::clone(tls))
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(https);
        Ok(HttpTransport { client, uri, authorization })
    }

    pub(super) async fn exchange(&self, calls: &[RpcCall]) -> Exchange {
        match self.post(encode(calls)).await {
            Ok(body) => decode(&body, calls.len()),
            Err(failure) if calls.len() > 1 && refuses_batches(&failure) => Exchange::BatchRefused(failure),
            Err(failure) => Exchange::Failed(failure),
        }
    }

    async fn post(&self, body: Vec<u8>) -> Result<Bytes, RpcFailure> {
        let json = HeaderValue::from_static("application/json");
        let mut request = Request::post(self.uri.clone()).header(CONTENT_TYPE, json.clone()).header(ACCEPT, json);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(RpcFailure::unreachable)?;
        let response = self.client.request(request).await.map_err(|error| RpcFailure::unreachable(chain_of(&error)))?;
        if response.status().is_success() {
            return collect(response.into_body(), MAX_RESPONSE_BYTES).await;
        }
        let status = response.status().as_u16();
        let retry_after = retry_after(&response);
        let body = collect(response.into_body(), MAX_ERROR_BYTES).await.unwrap_or_default();
        Err(RpcFailure::Http { status, body: String::from_utf8_lossy(&body).into_owned(), retry_after })
    }
}

async fn collect<B>(body: B, limit: usize) -> Result<Bytes, RpcFailure>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, limit).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(RpcFailure::TooLarge),
        Err(error) => Err(RpcFailure::unreachable(chain_of(&*error))),
    }
}

/// `Retry-After` in seconds. The form with a date is ignored: it needs synchronized clocks.
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

/// The text of an error with its sources. hyper names the cause ("connection refused") only there.
fn chain_of(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URI holds secrets.
        f.debug_struct("HttpTransport").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn oversized_response_is_too_large_not_unreachable() {
        let body = || Full::new(Bytes::from_static(&[b' '; 100]));
        assert_eq!(collect(body(), 99).await, Err(RpcFailure::TooLarge));
        assert_eq!(collect(body(), 100).await.map(|body| body.len()), Ok(100));
    }
}
