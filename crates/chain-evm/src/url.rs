//! Where a node is reached. Providers put their keys into paths, queries and user names, so the whole of it is a secret
//! except for host and port.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::Url;

/// An endpoint's URL. `Debug` and `Display` show host and port.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointUrl {
    url: Url,
    /// `user:password`, taken out of the URL: it goes into a header.
    basic: Option<String>,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    // What was written is not repeated: there may be a key in it.
    #[error("this is no URL")]
    Malformed,
    #[error("an endpoint is http, https, ws or wss")]
    Scheme,
    #[error("the URL names no host")]
    Host,
}

impl EndpointUrl {
    /// What stands for a secret in a text.
    const HIDDEN: &str = "[redacted]";
    /// Path parts of fewer bytes are words like `rpc` or `v3`, and would blot out half of a text.
    const MIN_SECRET_BYTES: usize = 8;

    /// Host and port, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_websocket(&self) -> bool {
        matches!(self.url.scheme(), "ws" | "wss")
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.url.scheme(), "https" | "wss")
    }

    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }

    /// For the transport only: everything but the credentials of the header.
    pub(crate) fn expose(&self) -> &str {
        self.url.as_str()
    }

    /// The value of the `Authorization` header, if the URL named a user.
    pub(crate) fn authorization(&self) -> Option<String> {
        self.basic.as_ref().map(|basic| format!("Basic {}", STANDARD.encode(basic)))
    }

    /// A text of a stranger without the secrets of this URL: gateways like to repeat the key that they refuse.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for secret in self.secrets() {
            if clean.contains(&secret) {
                clean = clean.replace(&secret, Self::HIDDEN);
            }
        }
        clean
    }

    /// In the forms in which they may come back: as they stand in the URL, and as whoever decodes them has them.
    fn secrets(&self) -> Vec<String> {
        let mut secrets = Vec::new();
        let path = self.url.path().split('/').filter(|part| part.len() >= Self::MIN_SECRET_BYTES);
        secrets.extend(path.map(str::to_owned));
        for pair in self.url.query().unwrap_or_default().split('&') {
            // A name without a value is the value: `?KEY`.
            let value = pair.split_once('=').map_or(pair, |(name, value)| if value.is_empty() { name } else { value });
            secrets.push(value.to_owned());
        }
        // In a query a plus may also stand for a blank.
        let plain = |secret: &String| [decoded(secret), decoded(&secret.replace('+', " "))];
        let plain: Vec<String> = secrets.iter().flat_map(plain).collect();
        secrets.extend(plain);
        if let Some(basic) = &self.basic {
            secrets.extend(basic.splitn(2, ':').map(str::to_owned));
            secrets.push(STANDARD.encode(basic));
        }
        secrets.retain(|secret| !secret.trim().is_empty());
        // The longest first: a part of a secret must not hide where the whole of it is.
        secrets.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        secrets.dedup();
        secrets
    }
}

impl FromStr for EndpointUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let mut url: Url = text.parse().map_err(|_| UrlError::Malformed)?;
        if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
            return Err(UrlError::Scheme);
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(UrlError::Host)?;
        let name = format!("{host}:{}", url.port_or_known_default().unwrap_or_default());
        let basic = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some(format!("{}:{}", decoded(user), decoded(password.unwrap_or_default()))),
        };
        url.set_fragment(None);
        // These cannot fail for URLs with a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Ok(EndpointUrl { url, basic, name })
    }
}

/// The URL standard keeps user and password percent-encoded; the header wants them plain.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = tail.get(..2).filter(|_| first == b'%').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Display for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRETS: [&str; 4] = ["alice", "p%40ssword", "k3yk3yk3yk3y", "t0ken"];

    fn url() -> EndpointUrl {
        "https://alice:p%40ssword@node.example:8443/v2/k3yk3yk3yk3y?token=t0ken".parse().unwrap()
    }

    /// proves X03
    #[test]
    fn only_host_and_port_are_shown() {
        let shown = format!("{} {:?} {:#?} {}", url(), url(), url(), url().name());
        assert!(shown.contains("node.example:8443"));
        for secret in SECRETS.iter().chain(&["p@ssword"]) {
            assert!(!shown.contains(secret), "{shown}");
        }
        for (text, error) in [("k3y k3y", UrlError::Malformed), ("ftp://k3y", UrlError::Scheme)] {
            assert_eq!(text.parse::<EndpointUrl>(), Err(error));
            assert!(!format!("{error} {error:?}").contains("k3y"));
        }
    }

    #[test]
    fn what_a_gateway_repeats_of_it_is_blotted_out() {
        let text = url().redact("key k3yk3yk3yk3y of alice (p@ssword) with t0ken is not allowed on v2");
        assert_eq!(text, "key [redacted] of [redacted] ([redacted]) with [redacted] is not allowed on v2");
    }

    #[test]
    fn a_key_is_known_again_in_every_form() {
        for (url, said) in [
            ("http://node/?s3cr3ts3cr3t", "s3cr3ts3cr3t"),
            ("http://node/?s3cr3ts3cr3t=", "s3cr3ts3cr3t"),
            ("http://node/v3/s3cr3t%2Bs3cr3t", "s3cr3t+s3cr3t"),
            ("http://node/v3/s3cr3t%2Bs3cr3t", "s3cr3t%2Bs3cr3t"),
            ("http://node/?k=s3cr3t%2Bs3cr3t", "s3cr3t%2Bs3cr3t"),
            ("http://node/?k=s3cr3t%2Bs3cr3t", "s3cr3t+s3cr3t"),
            ("http://node/?k=s3cr3t+s3cr3t", "s3cr3t s3cr3t"),
            ("http://alice:s3cr3t@node/", "YWxpY2U6czNjcjN0"),
            ("http://alice:s3:cr3t@node/", "s3:cr3t"),
        ] {
            let url: EndpointUrl = url.parse().unwrap();
            assert_eq!(url.redact(&format!("key {said} is blocked")), "key [redacted] is blocked");
        }
    }

    #[test]
    fn a_user_goes_into_the_header_and_not_into_the_url() {
        assert!(!url().expose().contains("alice"));
        assert_eq!(url().authorization().unwrap(), format!("Basic {}", STANDARD.encode("alice:p@ssword")));
        let plain: EndpointUrl = "ws://[::1]/".parse().unwrap();
        assert_eq!((plain.authorization(), plain.host(), plain.port()), (None, "::1", 80));
        assert!(plain.is_websocket() && !plain.is_tls());
    }
}
