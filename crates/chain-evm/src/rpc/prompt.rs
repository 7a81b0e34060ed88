//! A TCP stream that acknowledges what it has read at once.
//!
//! A node that gathers small messages (Nagle's algorithm; anvil does) holds the second one back until the first is
//! acknowledged, and a kernel that delays acknowledgements lets it wait for 40 ms. An answer with word of a new head behind it
//! is just that: every block was heard of 40 ms late.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(super) struct Prompt(pub(super) TcpStream);

impl Prompt {
    /// The kernel goes back to delaying whenever it likes, so it is told again after every read. If it cannot be told,
    /// things are slower and otherwise as good.
    #[cfg(target_os = "linux")]
    fn acknowledge(&self) {
        let _ = self.0.set_quickack(true);
    }

    #[cfg(not(target_os = "linux"))]
    fn acknowledge(&self) {}
}

impl AsyncRead for Prompt {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.0).poll_read(cx, buf))?;
        self.acknowledge();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
