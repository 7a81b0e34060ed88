//! URLs that may hold secrets.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::Secret;

/// A URL of which `Debug` and `Display` show scheme, host and port.
///
/// Providers put keys into the user, the path and the query, so all of these are hidden, for RPC endpoints, webhooks
/// and databases alike. `https://user:key@host:8443/v2/key?token=key` is shown as `https://***@host:8443/***`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl {
    /// The text as the operator wrote it.
    text: Secret,
    /// `None` for a database URL that only the database client can read.
    url: Option<Url>,
    shown: String,
    name: String,
}

/// The reason why a text is not a URL that can be used. The text is not repeated: it may hold a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("the text is not a URL")]
    Malformed,
    #[error("the URL has an unsupported scheme")]
    Scheme,
    #[error("the URL has no host")]
    NoHost,
}

impl SecretUrl {
    const HIDDEN: &str = "***";
    /// Replaces a secret in a text.
    const REDACTED: &str = "[redacted]";
    /// Shorter path segments are words such as `rpc` or `v3`. Redacting them would make error texts unreadable.
    const MIN_SECRET_BYTES: usize = 8;

    /// Reads a URL of one of these schemes.
    pub fn with_scheme(text: &str, schemes: &[&str]) -> Result<Self, UrlError> {
        let url: SecretUrl = text.parse()?;
        if schemes.contains(&url.scheme()) { Ok(url) } else { Err(UrlError::Scheme) }
    }

    /// Reads the URL of a PostgreSQL server. Only its scheme is checked: the database client also takes lists of hosts
    /// and passwords with unescaped characters, which are no URLs. Of these only the scheme is shown.
    pub fn postgres(text: &str) -> Result<Self, UrlError> {
        let (scheme, _) = text.split_once("://").ok_or(UrlError::Malformed)?;
        if !matches!(scheme, "postgres" | "postgresql") {
            return Err(UrlError::Scheme);
        }
        let url = text.parse::<Url>().ok();
        let shown = url.as_ref().map_or_else(|| format!("{scheme}://{}", Self::HIDDEN), shown);
        Ok(SecretUrl { text: Secret::new(text.to_owned()), name: name(url.as_ref()), url, shown })
    }

    /// The whole URL, for the client that connects.
    pub fn expose(&self) -> &str {
        self.text.expose()
    }

    /// The URL without user, password and fragment, for a client that sends [`Self::basic_authorization`] as a header.
    pub fn expose_without_credentials(&self) -> String {
        let Some(mut url) = self.url.clone() else { return String::new() };
        url.set_fragment(None);
        // Both fail only for URLs without a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.into()
    }

    /// The value of the `Authorization` header, if the URL has a user.
    pub fn basic_authorization(&self) -> Option<String> {
        self.credentials().map(|credentials| format!("Basic {}", STANDARD.encode(credentials)))
    }

    /// Host and port: the name of an endpoint in logs, metrics and API answers.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn scheme(&self) -> &str {
        self.url.as_ref().map_or("", Url::scheme)
    }

    /// The host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        let host = self.url.as_ref().and_then(Url::host_str).unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']')
    }

    pub fn port(&self) -> u16 {
        self.url.as_ref().and_then(Url::port_or_known_default).unwrap_or_default()
    }

    /// A foreign text without the secrets of this URL. Gateways repeat the key that they refuse.
    pub fn redact(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for secret in self.secrets() {
            if clean.contains(&secret) {
                clean = clean.replace(&secret, Self::REDACTED);
            }
        }
        clean
    }

    /// `user:password`, percent-decoded.
    fn credentials(&self) -> Option<String> {
        let url = self.url.as_ref()?;
        match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some(format!("{}:{}", decoded(user), decoded(password.unwrap_or_default()))),
        }
    }

    /// Every secret, both as it is written in the URL and percent-decoded.
    fn secrets(&self) -> Vec<String> {
        let Some(url) = &self.url else { return Vec::new() };
        let mut secrets = Vec::new();
        let segments = url.path().split('/').filter(|segment| segment.len() >= Self::MIN_SECRET_BYTES);
        secrets.extend(segments.map(str::to_owned));
        for pair in url.query().unwrap_or_default().split('&') {
            // A name without a value is the value: `?KEY`.
            let value = pair.split_once('=').map_or(pair, |(name, value)| if value.is_empty() { name } else { value });
            secrets.push(value.to_owned());
        }
        // In a query a plus may also be an encoded space.
        let plain = |secret: &String| [decoded(secret), decoded(&secret.replace('+', " "))];
        let plain: Vec<String> = secrets.iter().flat_map(plain).collect();
        secrets.extend(plain);
        if let Some(credentials) = self.credentials() {
            secrets.extend(credentials.splitn(2, ':').map(str::to_owned));
            secrets.push(STANDARD.encode(credentials));
        }
        secrets.retain(|secret| !secret.trim().is_empty());
        // The longest first: replacing a part of a secret must not hide the place of the whole one.
        secrets.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        secrets.dedup();
        secrets
    }
}

impl FromStr for SecretUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        // The URL standard drops tabs and line breaks and trims blanks. A text with one was not meant as a URL.
        if !text.contains("://") || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(UrlError::Malformed);
        }
        let url: Url = text.parse().map_err(|error| match error {
            url::ParseError::EmptyHost => UrlError::NoHost,
            _ => UrlError::Malformed,
        })?;
        if url.host_str().is_none_or(str::is_empty) {
            return Err(UrlError::NoHost);
        }
        Ok(SecretUrl { text: Secret::new(text.to_owned()), shown: shown(&url), name: name(Some(&url)), url: Some(url) })
    }
}

/// Scheme, host and port, and where something is hidden. An `@` behind the host may be the end of a password that was
/// not escaped. The host may then be a part of that password, and is hidden too.
fn shown(url: &Url) -> String {
    let (scheme, hidden) = (url.scheme(), SecretUrl::HIDDEN);
    let tail = &url[url::Position::AfterPort..];
    if tail.contains('@') {
        return format!("{scheme}://{hidden}");
    }
    let user = if url.username().is_empty() && url.password().is_none() { String::new() } else { format!("{hidden}@") };
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    let tail = if matches!(tail, "" | "/") { String::new() } else { format!("/{hidden}") };
    format!("{scheme}://{user}{host}{port}{tail}")
}

fn name(url: Option<&Url>) -> String {
    let host = url.and_then(Url::host_str).unwrap_or_default();
    let port = url.and_then(Url::port_or_known_default).unwrap_or_default();
    format!("{host}:{port}")
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests;
