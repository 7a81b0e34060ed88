//! One TLS configuration for all endpoints: rustls with ring and the certificates of the system.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("the system has no CA certificates: {0}")]
    NoRoots(String),
    #[error("{0}")]
    Protocol(String),
}

/// The client configuration. If no endpoint uses TLS (`needed` is false), no certificates are loaded.
pub(crate) fn client_config(needed: bool) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    if needed {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
            return Err(TlsError::NoRoots(why.join("; ")));
        }
    }
    // The provider is explicit: with a second provider in the process rustls has no default.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Protocol(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
