//! The HTTP server: a POST is one message or one batch, and a GET can become a WebSocket.

use std::io;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, UPGRADE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use super::connection::{RpcConnection as _, RpcReply, RpcService, RpcTransport};
use super::listener::LimitedListener;
use super::server::{DEFAULT_ENDPOINT, RpcServer};
use super::socket;

const JSON: &str = "application/json";
/// The content types that geth accepts.
const JSON_TYPES: [&str; 3] = [JSON, "application/json-rpc", "application/jsonrequest"];

/// The state that every connection shares.
#[derive(Clone)]
struct ServerState<S> {
    server: S,
    /// Becomes true when the server stops.
    stopped: watch::Receiver<bool>,
    /// Never used for messages. The channel closes when the last WebSocket ends.
    alive: mpsc::Sender<()>,
}

/// Serves until `shutdown` completes, and then until the last connection is closed. Running calls finish. WebSockets
/// and calls without an answer (by a fault) are cut off.
pub async fn serve(
    listener: TcpListener,
    server: RpcServer,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_any(listener, server, shutdown).await
}

pub(crate) async fn serve_any<S: RpcService>(
    listener: TcpListener,
    server: S,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let limits = *server.limits();
    let (stop, stopped) = watch::channel(false);
    let (alive, mut all_gone) = mpsc::channel(1);
    let router = Router::new()
        .route("/", get(upgrade_default::<S>).post(post_default::<S>))
        .route("/endpoint/{name}", get(upgrade_named::<S>).post(post_named::<S>))
        .layer(DefaultBodyLimit::max(limits.body_bytes))
        .with_state(ServerState { server, stopped, alive });
    let shutdown = async move {
        shutdown.await;
        // The value stays readable after the sender is dropped.
        stop.send_replace(true);
    };
    let listener = LimitedListener::new(listener, limits.connections);
    axum::serve(listener, router).with_graceful_shutdown(shutdown).await?;
    while all_gone.recv().await.is_some() {}
    Ok(())
}

async fn post_default<S: RpcService>(State(state): State<ServerState<S>>, headers: HeaderMap, body: Bytes) -> Response {
    post(state, DEFAULT_ENDPOINT, &headers, &body).await
}

async fn post_named<S: RpcService>(
    State(state): State<ServerState<S>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    post(state, &name, &headers, &body).await
}

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

async fn upgrade_default<S: RpcService>(
    State(state): State<ServerState<S>>,
    headers: HeaderMap,
    socket: Upgrade,
) -> Response {
    upgrade(state, DEFAULT_ENDPOINT, &headers, socket)
}

async fn upgrade_named<S: RpcService>(
    State(state): State<ServerState<S>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    socket: Upgrade,
) -> Response {
    upgrade(state, &name, &headers, socket)
}

async fn post<S: RpcService>(mut state: ServerState<S>, name: &str, headers: &HeaderMap, body: &[u8]) -> Response {
    if !is_json(headers) {
        let text = "invalid content type, only application/json is supported";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response();
    }
    let mut connection = match find(&state.server, name, RpcTransport::Http) {
        Ok(connection) => connection,
        Err(response) => return *response,
    };
    match connection.answer(body).await {
        RpcReply::Text(text) => ([(CONTENT_TYPE, JSON)], text).into_response(),
        RpcReply::Nothing => StatusCode::OK.into_response(),
        RpcReply::TimedOut => {
            // The caller's timeout drops this future. Otherwise the end of the server completes it.
            socket::end(&mut state.stopped).await;
            broken_response()
        }
        RpcReply::Disconnect => broken_response(),
        RpcReply::Http { status, retry_after_secs, body } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = (status, body).into_response();
            if let Some(seconds) = retry_after_secs {
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            response
        }
    }
}

fn upgrade<S: RpcService>(state: ServerState<S>, name: &str, headers: &HeaderMap, socket: Upgrade) -> Response {
    let socket = match socket {
        Ok(socket) => socket,
        Err(rejection) if headers.contains_key(UPGRADE) => return rejection.into_response(),
        // geth accepts empty requests, because load balancers use them as health checks.
        Err(_) => return StatusCode::OK.into_response(),
    };
    let connection = match find(&state.server, name, RpcTransport::Socket) {
        Ok(connection) => connection,
        Err(response) => return *response,
    };
    if connection.is_dead() {
        return broken_response();
    }
    let most = state.server.limits().body_bytes;
    socket.max_message_size(most).max_frame_size(most).on_upgrade(move |socket| async move {
        let ServerState { stopped, alive, .. } = state;
        socket::run(socket, connection, stopped).await;
        drop(alive);
    })
}

fn find<S: RpcService>(server: &S, name: &str, transport: RpcTransport) -> Result<S::Connection, Box<Response>> {
    server
        .connect(name, transport)
        .map_err(|error| Box::new((StatusCode::NOT_FOUND, error.to_string()).into_response()))
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim();
    JSON_TYPES.iter().any(|json| kind.eq_ignore_ascii_case(json))
}

/// A response whose body fails, which closes the connection.
fn broken_response() -> Response {
    let broken: io::Result<Bytes> = Err(io::ErrorKind::ConnectionReset.into());
    Body::from_stream(stream::iter([broken])).into_response()
}
