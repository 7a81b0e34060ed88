//! A WebSocket connection.

use axum::extract::ws::{Message, WebSocket};
use tokio::sync::watch;

use super::connection::{RpcConnection, RpcReply};

/// Answers messages and sends notifications, until either side closes the connection or the server stops.
pub(crate) async fn run(mut socket: WebSocket, mut connection: impl RpcConnection, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = end(&mut stopped) => return,
            message = socket.recv() => {
                let text = match message {
                    Some(Ok(Message::Text(text))) => text.as_bytes().to_vec(),
                    Some(Ok(Message::Binary(bytes))) => bytes.to_vec(),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                };
                match connection.answer(&text).await {
                    RpcReply::Text(text) => if socket.send(Message::text(text)).await.is_err() { return },
                    RpcReply::Nothing | RpcReply::TimedOut => {}
                    // A WebSocket has no HTTP status.
                    RpcReply::Disconnect | RpcReply::Http { .. } => return,
                }
            }
            messages = connection.next_messages() => {
                let Ok(messages) = messages else { return };
                for text in messages {
                    if socket.send(Message::text(text)).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Waits until the server stops.
pub(crate) async fn end(stopped: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which also ends the wait.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
