//! A TCP stream without delayed acknowledgements.
//!
//! A node that uses Nagle's algorithm (anvil does) holds a small message back until the one before is acknowledged. A
//! kernel that delays acknowledgements makes it wait for 40 ms. A new head right behind a response arrived 40 ms late
//! that way.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(super) struct QuickAckStream(pub(super) TcpStream);

impl QuickAckStream {
    /// Sets the option again after every read, because the kernel resets it. A failure only costs time.
    #[cfg(target_os = "linux")]
    fn acknowledge(&self) {
        let _ = self.0.set_quickack(true);
    }

    #[cfg(not(target_os = "linux"))]
    fn acknowledge(&self) {}
}

impl AsyncRead for QuickAckStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.0).poll_read(cx, buf))?;
        self.acknowledge();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for QuickAckStream {
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
