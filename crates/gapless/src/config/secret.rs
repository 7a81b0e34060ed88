//! URLs that may hold secrets. They are shown without them; only [`SecretUrl::expose`] gives the whole.

use std::fmt;

const HIDDEN: &str = "***";

/// Providers put keys into the user, the path and the query of a URL, so of an RPC URL only scheme, host and port are
/// shown, and of a database's everything but the password and the query.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretUrl {
    whole: String,
    shown: String,
}

impl SecretUrl {
    /// `None` if it is no URL of one of these schemes with a host.
    pub(crate) fn rpc(text: &str, schemes: &[&str]) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        if !schemes.contains(&scheme) || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return None;
        }
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        let (user, place) = authority.rsplit_once('@').map_or((None, authority), |(user, place)| (Some(user), place));
        if !is_place(place) {
            return None;
        }
        let user = user.map_or(String::new(), |_| format!("{HIDDEN}@"));
        let tail = if matches!(tail, "" | "/") { "" } else { "/***" };
        Some(SecretUrl { whole: text.to_owned(), shown: format!("{scheme}://{user}{place}{tail}") })
    }

    /// Only its looks are checked here; the client that connects reads the rest. A password may hold any character, `/`
    /// and `@` too, so everything up to the last `@` counts as user and password.
    pub(crate) fn postgres(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        if !matches!(scheme, "postgres" | "postgresql") {
            return None;
        }
        let (user, place) = match rest.rsplit_once('@') {
            None => (String::new(), rest),
            // A query may hold a password too, and that one an `@`.
            Some((credentials, _)) if credentials.contains('?') => (String::new(), HIDDEN),
            Some((credentials, place)) => {
                let shown = match credentials.split_once(':') {
                    Some((user, _)) if is_plain(user) => format!("{user}:{HIDDEN}@"),
                    None if is_plain(credentials) => format!("{credentials}@"),
                    _ => format!("{HIDDEN}@"),
                };
                (shown, place)
            }
        };
        let (place, query) = place.split_once('?').map_or((place, ""), |(place, _)| (place, "?***"));
        Some(SecretUrl { whole: text.to_owned(), shown: format!("{scheme}://{user}{place}{query}") })
    }

    /// The whole URL, for whoever connects.
    pub(crate) fn expose(&self) -> &str {
        &self.whole
    }
}

/// A host, or `[::1]`, with or without a port.
fn is_place(text: &str) -> bool {
    let (host_is_sound, rest) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host.parse::<std::net::Ipv6Addr>().is_ok(), rest),
        None => {
            let end = text.find(':').unwrap_or(text.len());
            let (host, rest) = text.split_at(end);
            let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
            (!host.is_empty() && host.bytes().all(plain), rest)
        }
    };
    let port_is_sound = match rest.strip_prefix(':') {
        Some(port) => port.parse::<u16>().is_ok(),
        None => rest.is_empty(),
    };
    host_is_sound && port_is_sound
}

fn is_plain(user: &str) -> bool {
    !user.contains(['/', '?', '&', '='])
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
mod tests {
    use super::*;

    #[test]
    fn an_rpc_url_is_shown_by_its_host_only() {
        let shown = |text| SecretUrl::rpc(text, &["http", "https", "wss"]).map(|url| url.to_string());
        for (text, expected) in [
            ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
            ("http://127.0.0.1:8545/", "http://127.0.0.1:8545"),
            ("https://eth.example.com/v2/s3cret", "https://eth.example.com/***"),
            ("https://eth.example.com?key=s3cret", "https://eth.example.com/***"),
            ("wss://s3cret:s3cret@node-1.example.com:443/s3cret#s3cret", "wss://***@node-1.example.com:443/***"),
            ("http://[::1]:8545/s3cret", "http://[::1]:8545/***"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "eth.example.com",
            "ftp://h",
            "http://",
            "http://h:port",
            "http://u:p/w@h",
            "http://h h",
            "http://[::g]",
            "http://[::1",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn a_database_url_is_shown_without_its_password() {
        let shown = |text| SecretUrl::postgres(text).map(|url| format!("{url} {url:?}"));
        for (text, expected) in [
            ("postgres://gapless@db/gapless", "postgres://gapless@db/gapless"),
            ("postgres://u:s3cret@db:5432/gapless", "postgres://u:***@db:5432/gapless"),
            ("postgresql://u:s3/cr@et@db1,db2/g?sslmode=require", "postgresql://u:***@db1,db2/g?***"),
            ("postgres://db/g?password=s3cret", "postgres://db/g?***"),
            ("postgres://db/g?password=s3@cret", "postgres://***"),
            ("postgres://u:s3?c@ret@db/g", "postgres://***"),
        ] {
            assert_eq!(shown(text), Some(format!("{expected} {expected}")), "{text}");
        }
        assert_eq!(shown("host=db password=s3cret"), None);
    }
}
