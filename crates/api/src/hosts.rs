//! The host names by which the API may be called.
//!
//! Without keys, every program that reaches the port may call, and a web page in a browser on the same machine reaches
//! it. Two headers reveal a page: its `Origin`, and its name in `Host` if the page made its own name point to this
//! machine.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use gapless_wire::{Problem, ProblemCode};

use crate::problem::Refusal;

/// The host names by which a call may come. A mode with API keys may allow more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllowedHosts {
    /// `localhost` and the literal loopback addresses: names that no other party can point here.
    #[default]
    Loopback,
}

impl AllowedHosts {
    /// Refuses a call by another host name, or from a page that this server did not serve.
    pub(crate) fn check(self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let named = headers.get_all(HOST).iter().map(|value| value.to_str().unwrap_or_default());
        let named: Vec<&str> = uri.authority().map(|authority| authority.as_str()).into_iter().chain(named).collect();
        if !named.iter().all(|authority| self.has(authority)) {
            return Err(foreign("the Host header must be localhost or a loopback address"));
        }
        // A missing origin is no page; `null` is a page that hides its origin.
        let ours = |origin: &str| {
            let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            authority.is_some_and(|from| named.first().is_some_and(|host| host.eq_ignore_ascii_case(from)))
        };
        if !headers.get_all(ORIGIN).iter().all(|origin| origin.to_str().is_ok_and(ours)) {
            return Err(foreign("calls from web pages of another origin are not allowed"));
        }
        Ok(())
    }

    fn has(self, authority: &str) -> bool {
        match self {
            AllowedHosts::Loopback => host_of(authority).is_some_and(is_loopback),
        }
    }
}

fn foreign(why: &str) -> Refusal {
    Problem::new(ProblemCode::ForeignOrigin).detail(why).into()
}

/// The host without its port. An IPv6 address keeps its brackets.
fn host_of(authority: &str) -> Option<&str> {
    let end_of_address = authority.rfind(']').unwrap_or(0);
    let (host, port) = match authority.get(end_of_address..)?.find(':') {
        Some(colon) => authority.split_at(end_of_address + colon),
        None => (authority, ""),
    };
    let port = port.strip_prefix(':').unwrap_or(port);
    port.bytes().all(|b| b.is_ascii_digit()).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback()),
        None => {
            host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_had() {
        for authority in
            ["localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:1", "127.9.9.9:65535", "[::1]", "[::1]:8080"]
        {
            assert!(AllowedHosts::Loopback.has(authority), "{authority}");
        }
        for authority in [
            "",
            ":8080",
            "example.com",
            "localhost.example.com",
            "127.0.0.1.example.com:8080",
            "example.com:127.0.0.1",
            "user@localhost",
            "localhost:80:80",
            "localhost:x",
            "10.0.0.1",
            "0.0.0.0:8080",
            "2130706433",
            "::1",
            "[::1",
            "[::1]x",
            "[::2]:8080",
            "x[::1]",
            "[127.0.0.1]",
        ] {
            assert!(!AllowedHosts::Loopback.has(authority), "{authority}");
        }
    }
}
