//! The webhook that decides about stuck intents.
//!
//! Every other answer than a decision, and no answer in time, means "wait": no intent is canceled, bumped or resent
//! because a server was not reachable. The URL may hold a secret, so logs have only its hidden form, and errors are
//! shown without it.

use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{Decision, StuckCase};
use gapless_engine::StuckPolicy;
use gapless_secret::SecretUrl;
use gapless_wire::{StuckAnswer, StuckCaseView};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use tokio::sync::Semaphore;

use super::ComposeError;

/// The largest answer that is read. A decision is one word in JSON.
const ANSWER_BYTES_MAX: usize = 4 << 10;
/// Calls of the webhook at the same time. Further cases wait for a place, and their lanes go on.
const CALLS_AT_ONCE: usize = 32;

#[derive(Debug)]
pub(super) struct StuckWebhook {
    http: Client,
    url: SecretUrl,
    places: Semaphore,
}

/// The reason why there is no decision. The text has no secrets.
#[derive(Debug, thiserror::Error)]
enum NoDecision {
    #[error("no answer: {0}")]
    Transport(reqwest::Error),
    #[error("no answer in time")]
    Timeout,
    #[error("the status is {0}, not 200")]
    Status(StatusCode),
    #[error("the answer is longer than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    #[error("the answer is not a JSON object with a decision")]
    Shape,
    #[error("the decision is none of wait, resend, bump, cancel and escalate")]
    Word,
    #[error("cannot write the case as JSON: {0}")]
    Case(serde_json::Error),
    #[error("the node is stopping")]
    Stopping,
}

impl StuckWebhook {
    pub(super) fn new(url: SecretUrl, timeout: Duration) -> Result<Self, ComposeError> {
        // The call fails only if a TLS provider is already installed, and then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // No redirects: only the server of the config may decide.
        let http = Client::builder().timeout(timeout).connect_timeout(timeout).redirect(Policy::none()).build();
        let http = http.map_err(|error| ComposeError::Webhook(error.without_url()))?;
        Ok(StuckWebhook { http, url, places: Semaphore::new(CALLS_AT_ONCE) })
    }

    async fn ask(&self, case: &StuckCase) -> Result<Decision, NoDecision> {
        let body = serde_json::to_vec(&StuckCaseView::from(case)).map_err(NoDecision::Case)?;
        let _place = self.places.acquire().await.map_err(|_| NoDecision::Stopping)?;
        let request = self.http.post(self.url.expose()).header(CONTENT_TYPE, "application/json").body(body);
        let response = request.send().await?;
        if response.status() != StatusCode::OK {
            return Err(NoDecision::Status(response.status()));
        }
        let answer: StuckAnswer = serde_json::from_slice(&read(response).await?).map_err(|_| NoDecision::Shape)?;
        answer.decision().ok_or(NoDecision::Word)
    }
}

#[async_trait]
impl StuckPolicy for StuckWebhook {
    async fn decide(&self, case: &StuckCase) -> Decision {
        let (submitter, tx_id, webhook) = (&case.submitter, case.tx_id, &self.url);
        match self.ask(case).await {
            Ok(decision) => {
                let word = decision.as_str();
                tracing::info!(%submitter, %tx_id, %webhook, decision = word, "stuck intent decided");
                decision
            }
            Err(error) => {
                metrics::counter!("gapless_stuck_webhook_failures_total", "why" => error.word()).increment(1);
                tracing::warn!(%submitter, %tx_id, %webhook, %error, "stuck webhook failed, so the intent waits");
                Decision::Wait
            }
        }
    }
}

impl NoDecision {
    /// The label of the metric.
    fn word(&self) -> &'static str {
        match self {
            NoDecision::Transport(_) => "transport",
            NoDecision::Timeout => "timeout",
            NoDecision::Status(_) => "status",
            NoDecision::TooLong => "too_long",
            NoDecision::Shape | NoDecision::Word => "answer",
            NoDecision::Case(_) => "case",
            NoDecision::Stopping => "stopping",
        }
    }
}

impl From<reqwest::Error> for NoDecision {
    fn from(error: reqwest::Error) -> Self {
        if error.is_timeout() { NoDecision::Timeout } else { NoDecision::Transport(error.without_url()) }
    }
}

async fn read(mut response: Response) -> Result<Vec<u8>, NoDecision> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(NoDecision::TooLong);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::body::{Body, Bytes};
    use axum::extract::State;
    use axum::http::Request;
    use axum::response::{IntoResponse, Redirect, Response};
    use gapless_domain::{
        AttemptKind, B256, Fees, Limits, MempoolSignal, Nonce, RequestId, StuckAttempt, StuckReason, Timestamp,
    };
    use tokio::net::TcpListener;

    use super::*;

    fn case() -> StuckCase {
        StuckCase {
            submitter: "eip155:31337:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap(),
            tx_id: "0190a6e0-0000-7000-8000-000000000007".parse().unwrap(),
            request_id: RequestId::new("order-42", &Limits::default()).unwrap(),
            nonce: Nonce::new(9).unwrap(),
            reason: StuckReason::OutOfTries,
            tries: 10,
            signal: Some(MempoolSignal::InMempool),
            since: Some(Timestamp::from_micros(1_767_225_600_000_000)),
            attempts: vec![StuckAttempt {
                kind: AttemptKind::Original,
                hash: B256::repeat_byte(1),
                fees: Fees::Eip1559 { max_fee: 20, max_priority_fee: 2 },
            }],
        }
    }

    /// The cases that the server got.
    type ReceivedCases = Arc<Mutex<Vec<serde_json::Value>>>;

    /// Answers by the last part of the path.
    async fn answer(State(received): State<ReceivedCases>, request: Request<Body>) -> Response {
        let path = request.uri().path().to_owned();
        let body: Bytes = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        received.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
        match path.rsplit('/').next().unwrap() {
            "silence" => std::future::pending().await,
            "elsewhere" => Redirect::temporary("/s3cret/cancel").into_response(),
            "error" => (axum::http::StatusCode::INTERNAL_SERVER_ERROR, r#"{"decision":"cancel"}"#).into_response(),
            "created" => (axum::http::StatusCode::CREATED, r#"{"decision":"cancel"}"#).into_response(),
            "long" => format!(r#"{{"decision":"cancel","why":"{}"}}"#, "x".repeat(ANSWER_BYTES_MAX)).into_response(),
            "text" => "cancel".into_response(),
            "nothing" => "{}".into_response(),
            word => format!(r#"{{"decision":"{word}","by":"night shift"}}"#).into_response(),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the test starts a server")]
    async fn server() -> (String, ReceivedCases) {
        let (received, listener) = (ReceivedCases::default(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&received));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (format!("http://{address}"), received)
    }

    async fn decide(url: &str, timeout: Duration) -> Decision {
        let url = SecretUrl::with_scheme(url, &["http"]).unwrap();
        StuckWebhook::new(url, timeout).unwrap().decide(&case()).await
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn each_decision_is_accepted_and_the_whole_case_is_sent() {
        let (address, received) = server().await;
        for decision in Decision::ALL {
            assert_eq!(decide(&format!("{address}/{}", decision.as_str()), LONG).await, *decision);
        }
        let received = received.lock().unwrap().clone();
        assert_eq!(received.len(), Decision::ALL.len());
        let expected = serde_json::json!({
            "submitter": case().submitter.to_string(), "txId": "0190a6e0-0000-7000-8000-000000000007",
            "requestId": "order-42", "nonce": 9, "reason": "out_of_tries", "tries": 10, "signal": "in_mempool",
            "since": "2026-01-01T00:00:00Z",
            "attempts": [{"kind": "original", "hash": B256::repeat_byte(1).to_string(),
                "fees": {"maxFeePerGas": "20", "maxPriorityFeePerGas": "2"}}],
        });
        assert!(received.iter().all(|case| *case == expected), "{received:?}");
    }

    /// A log that a test can read.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn answer_without_decision_means_wait_and_hides_secrets() {
        let log = Log::default();
        let written = log.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        let _guard = tracing::subscriber::set_default(subscriber.with_writer(move || written.clone()).finish());
        let (address, received) = server().await;
        let secret = address.replace("http://", "http://s3cret:s3cret@");
        let answers = ["elsewhere", "error", "created", "long", "text", "nothing", "obey", ""];
        for (calls, path) in answers.iter().enumerate() {
            assert_eq!(decide(&format!("{secret}/s3cret/{path}?key=s3cret"), LONG).await, Decision::Wait, "{path}");
            assert_eq!(received.lock().unwrap().len(), calls + 1, "{path}: more than one call");
        }
        let silent = format!("{secret}/s3cret/silence");
        assert_eq!(decide(&silent, Duration::from_millis(50)).await, Decision::Wait);
        // The listener is closed at once, so the port refuses connections.
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert_eq!(decide(&format!("http://s3cret@{closed}/s3cret"), LONG).await, Decision::Wait);

        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let warnings: Vec<&str> = text.lines().filter(|line| line.contains("so the intent waits")).collect();
        assert_eq!(warnings.len(), answers.len() + 2, "{text}");
        for why in [
            "status is 307",
            "status is 500",
            "status is 201",
            "longer than 4096",
            "not a JSON object",
            "none of wait",
            "in time",
        ] {
            assert!(warnings.iter().any(|line| line.contains(why)), "{why}: {text}");
        }
        assert!(!text.contains("s3cret"), "{text}");
        assert!(warnings.iter().all(|line| line.contains("tx_id=0190a6e0-0000-7000-8000-000000000007")), "{text}");
    }
}
