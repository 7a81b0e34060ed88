//! A WebSocket connection.

use axum::extract::ws::{Message, WebSocket};
use tokio::sync::watch;

use super::line::{Line, Reply};

/// Answers messages and sends notifications, until either side closes the connection or the server stops.
pub(crate) async fn run(mut socket: WebSocket, mut line: impl Line, mut stopped: watch::Receiver<bool>) {
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
                match line.answer(&text).await {
                    Reply::Text(text) => if socket.send(Message::text(text)).await.is_err() { return },
                    Reply::Nothing | Reply::Silence => {}
                    // A WebSocket has no HTTP status.
                    Reply::Disconnect | Reply::Http { .. } => return,
                }
            }
            news = line.news() => {
                let Ok(news) = news else { return };
                for text in news {
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
