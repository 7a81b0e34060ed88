use super::*;

const SECRETS: [&str; 5] = ["alice", "p%40ssword", "p@ssword", "k3yk3yk3yk3y", "t0ken"];

fn url() -> SecretUrl {
    "https://alice:p%40ssword@node.example:8443/v2/k3yk3yk3yk3y?token=t0ken".parse().unwrap()
}

/// proves X03
#[test]
fn url_is_shown_by_scheme_host_and_port() {
    let shown = format!("{} {:?} {:#?} {}", url(), url(), url(), url().name());
    let line = "https://***@node.example:8443/***";
    assert_eq!(shown, format!("{line} {line} {line} node.example:8443"));
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{shown}");
    }
    let schemes = ["http", "https", "wss"];
    for (text, expected) in [
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
        ("http://127.0.0.1:8545/", "http://127.0.0.1:8545"),
        ("https://eth.example.com/v2/s3cret", "https://eth.example.com/***"),
        ("https://eth.example.com?key=s3cret", "https://eth.example.com/***"),
        ("wss://s3cret:s3cret@node-1.example.com:444/s3cret#s3cret", "wss://***@node-1.example.com:444/***"),
        ("wss://s3cret@node-1.example.com:443/", "wss://***@node-1.example.com"),
        ("http://[::1]:8545/s3cret", "http://[::1]:8545/***"),
        ("http://u:12/s3cret@h", "http://***"),
    ] {
        assert_eq!(SecretUrl::with_scheme(text, &schemes).unwrap().to_string(), expected, "{text}");
    }
}

/// proves X03
#[test]
fn text_without_scheme_or_host_is_refused_unrepeated() {
    let schemes = ["http", "https", "wss"];
    for (text, expected) in [
        ("k3y.example.com", UrlError::Malformed),
        ("k3y k3y", UrlError::Malformed),
        ("ftp://k3y", UrlError::Scheme),
        ("http://", UrlError::NoHost),
        ("http://k3y:port", UrlError::Malformed),
        ("http://u:k3y/w@h", UrlError::Malformed),
        ("http://k3y h", UrlError::Malformed),
        ("http://k3y\n", UrlError::Malformed),
        ("http://[::g]", UrlError::Malformed),
        ("http://[::1", UrlError::Malformed),
    ] {
        let error = SecretUrl::with_scheme(text, &schemes).unwrap_err();
        assert_eq!(error, expected, "{text}");
        assert!(!format!("{error} {error:?}").contains("k3y"));
    }
}

/// proves X03
#[test]
fn database_url_is_shown_by_the_same_rule() {
    let shown = |text| SecretUrl::postgres(text).map(|url| format!("{url} {url:?}"));
    for (text, expected) in [
        ("postgres://db", "postgres://db"),
        ("postgres://gapless@db/gapless", "postgres://***@db/***"),
        ("postgres://u:s3cret@db:5432/gapless", "postgres://***@db:5432/***"),
        ("postgresql://u:s3cret@db1,db2/g?sslmode=require", "postgresql://***@db1,db2/***"),
        ("postgresql://u:s3cret@db1:5432,db2:5432/g", "postgresql://***"),
        ("postgresql://u:s3/cr@et@db1,db2/g?sslmode=require", "postgresql://***"),
        ("postgres://u:12/34@db/g", "postgres://***"),
        ("postgres://db/g?password=s3cret", "postgres://db/***"),
        ("postgres://db/g?password=s3@cret", "postgres://***"),
        ("postgres://u:s3?c@ret@db/g", "postgres://***"),
        ("postgres://%2Frun%2Fpostgresql/g", "postgres://%2Frun%2Fpostgresql/***"),
    ] {
        assert_eq!(shown(text), Ok(format!("{expected} {expected}")), "{text}");
        assert_eq!(SecretUrl::postgres(text).unwrap().expose(), text);
    }
    assert_eq!(shown("host=db password=s3cret"), Err(UrlError::Malformed));
    assert_eq!(shown("mysql://db"), Err(UrlError::Scheme));
}

#[test]
fn secrets_in_a_foreign_text_are_redacted() {
    let text = url().redact("key k3yk3yk3yk3y of alice (p@ssword) with t0ken is not allowed on v2");
    assert_eq!(text, "key [redacted] of [redacted] ([redacted]) with [redacted] is not allowed on v2");
}

#[test]
fn key_is_redacted_in_every_encoding() {
    for (url, text) in [
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
        let url: SecretUrl = url.parse().unwrap();
        assert_eq!(url.redact(&format!("key {text} is blocked")), "key [redacted] is blocked");
    }
}

#[test]
fn user_goes_into_the_header_and_not_into_the_target() {
    assert_eq!(url().expose_without_credentials(), "https://node.example:8443/v2/k3yk3yk3yk3y?token=t0ken");
    assert_eq!(url().basic_authorization().unwrap(), format!("Basic {}", STANDARD.encode("alice:p@ssword")));
    let plain: SecretUrl = "ws://[::1]/".parse().unwrap();
    assert_eq!((plain.basic_authorization(), plain.host(), plain.port()), (None, "::1", 80));
    assert_eq!(plain.scheme(), "ws");
}
