//! Text that nobody may see: keys, mnemonics, passwords.

use std::fmt;
use std::path::Path;

use zeroize::Zeroizing;

/// A secret text. It is wiped from memory when dropped, and `Debug` does not show it.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("the environment has no variable {0} that can be read")]
    NoVariable(String),
    #[error("the secret file {path} cannot be read: {cause}")]
    File { path: String, cause: std::io::Error },
    #[error("the secret file {0} is larger than {max} bytes", max = Secret::MAX_FILE_BYTES)]
    TooLarge(String),
}

impl Secret {
    pub const MAX_FILE_BYTES: usize = 64 * 1024;

    pub fn new(text: String) -> Self {
        Secret(Zeroizing::new(text))
    }

    pub fn from_env(variable: &str) -> Result<Self, SecretError> {
        // The error of std repeats what the variable holds when that is no Unicode.
        std::env::var(variable).map(Secret::new).map_err(|_| SecretError::NoVariable(variable.to_owned()))
    }

    /// What a file holds, without the line break that editors put at its end.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        let shown = || path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|cause| SecretError::File { path: shown(), cause })?;
        let text = Zeroizing::new(text);
        if text.len() > Self::MAX_FILE_BYTES {
            return Err(SecretError::TooLarge(shown()));
        }
        Ok(Secret::new(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// The secret itself, for whoever needs it now.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
