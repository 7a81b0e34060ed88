//! A minimal HTTP/1.1 client: one request at a time on a persistent connection. The driver shares its cores with the
//! measured processes, so a request must cost only a few microseconds.

use std::io;
use std::ops::Range;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const HEAD_BYTES_MAX: usize = 16 << 10;
/// Limit of a body; the receipts of a big block are the longest.
const BODY_BYTES_MAX: usize = 256 << 20;
const READ_BYTES: usize = 4 << 10;

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the connection was closed before the answer was complete")]
    Closed,
    #[error("the answer is not HTTP/1.1 with a content-length: {0}")]
    Malformed(&'static str),
    #[error("the answer is longer than {BODY_BYTES_MAX} bytes")]
    TooLong,
}

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// Value of the `host` header, such as `127.0.0.1:8080`.
    authority: String,
    buffer: Vec<u8>,
}

/// A response, in the buffer of its connection.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.body).into_owned()
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    body: Range<usize>,
}

impl Connection {
    pub(crate) async fn open(authority: &str) -> Result<Self, HttpError> {
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, authority: authority.to_owned(), buffer: Vec::with_capacity(READ_BYTES) })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer<'_>, HttpError> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.authority);
        self.call(request.as_bytes()).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<Answer<'_>, HttpError> {
        let request = post_text(&self.authority, path, body);
        self.call(request.as_bytes()).await
    }

    async fn call(&mut self, request: &[u8]) -> Result<Answer<'_>, HttpError> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            if let Some(head) = parse_head(&self.buffer)? {
                break head;
            }
            self.read_more().await?;
        };
        self.buffer.reserve(head.body.end.saturating_sub(self.buffer.len()));
        while self.buffer.len() < head.body.end {
            self.read_more().await?;
        }
        let body = self.buffer.get(head.body).unwrap_or_default();
        Ok(Answer { status: head.status, body })
    }

    async fn read_more(&mut self) -> Result<(), HttpError> {
        self.buffer.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(HttpError::Closed),
            _ => Ok(()),
        }
    }
}

fn post_text(authority: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

/// Parses the head of a response once it is complete.
fn parse_head(bytes: &[u8]) -> Result<Option<Head>, HttpError> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return if bytes.len() > HEAD_BYTES_MAX { Err(HttpError::Malformed("the head is too long")) } else { Ok(None) };
    };
    let text = bytes.get(..end).and_then(|head| std::str::from_utf8(head).ok());
    let mut lines = text.ok_or(HttpError::Malformed("the head is no text"))?.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let status = status.ok_or(HttpError::Malformed("there is no status"))?;
    let mut length = None;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse::<usize>().ok();
        }
    }
    let length = length.ok_or(HttpError::Malformed("there is no content-length"))?;
    if length > BODY_BYTES_MAX {
        return Err(HttpError::TooLong);
    }
    Ok(Some(Head { status, body: end + 4..end + 4 + length }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn head_is_parsed_once_complete() {
        let answer = b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        let end = answer.len() - 2;
        for cut in 0..end {
            assert_eq!(parse_head(&answer[..cut]).unwrap(), None, "{cut}");
        }
        assert_eq!(parse_head(answer).unwrap(), Some(Head { status: 202, body: end..end + 2 }));
    }

    #[test]
    fn malformed_response_is_an_error() {
        let texts = [
            "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        ];
        for text in texts {
            assert!(matches!(parse_head(text.as_bytes()), Err(HttpError::Malformed(_))), "{text}");
        }
        let long = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", BODY_BYTES_MAX + 1);
        assert!(matches!(parse_head(long.as_bytes()), Err(HttpError::TooLong)));
        assert!(matches!(parse_head(&vec![b'a'; HEAD_BYTES_MAX + 1]), Err(HttpError::Malformed(_))));
    }

    #[tokio::test]
    async fn split_response_is_joined_and_connection_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 1024];
            for body in ["one", "", "three"] {
                assert!(stream.read(&mut request).await.unwrap() > 0);
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                for piece in answer.as_bytes().chunks(7) {
                    stream.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        };
        let client = async {
            let mut connection = Connection::open(&authority).await.unwrap();
            for body in ["one", "", "three"] {
                let answer = connection.post("/", "{}").await.unwrap();
                assert_eq!((answer.status, answer.text().as_str()), (200, body));
            }
            assert!(connection.get("/").await.is_err(), "the server has gone");
        };
        tokio::join!(server, client);
    }
}
