//! Secret texts: keys, mnemonics, passwords.

use std::path::Path;

use secrecy::{ExposeSecret as _, SecretString};

/// A secret text. `secrecy` wipes it from memory when it is dropped, and hides it in `Debug`.
#[derive(Clone, Debug)]
pub struct Secret(SecretString);

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("the environment variable {0} is not set or is not Unicode")]
    NoVariable(String),
    #[error("the secret file {path} cannot be read: {cause}")]
    File { path: String, cause: std::io::Error },
    #[error("the secret file {0} is larger than {max} bytes", max = Secret::MAX_FILE_BYTES)]
    TooLarge(String),
}

impl Secret {
    pub const MAX_FILE_BYTES: usize = 64 * 1024;

    pub fn new(text: String) -> Self {
        Secret(SecretString::from(text))
    }

    pub fn from_env(variable: &str) -> Result<Self, SecretError> {
        // The error of std repeats the value if it is not Unicode.
        std::env::var(variable).map(Secret::new).map_err(|_| SecretError::NoVariable(variable.to_owned()))
    }

    /// The text of a file, without the line break that editors put at its end.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        let shown = || path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|cause| SecretError::File { path: shown(), cause })?;
        let text = Secret::new(text);
        if text.expose().len() > Self::MAX_FILE_BYTES {
            return Err(SecretError::TooLarge(shown()));
        }
        Ok(Secret::new(text.expose().trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for Secret {}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves X03
    #[test]
    fn secret_is_hidden_in_debug() {
        let shown = format!("{:?} {:#?}", Secret::new("s3cr3t".to_owned()), Secret::new("s3cr3t".to_owned()));
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }

    #[test]
    fn secret_file_loses_its_last_line_break() {
        let path = std::env::temp_dir().join(format!("gapless-secret-{}", std::process::id()));
        std::fs::write(&path, "s3cr3t\r\n").unwrap();
        assert_eq!(Secret::from_file(&path).unwrap().expose(), "s3cr3t");
        std::fs::write(&path, " ".repeat(Secret::MAX_FILE_BYTES + 1)).unwrap();
        assert!(matches!(Secret::from_file(&path), Err(SecretError::TooLarge(_))));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(Secret::from_file(&path), Err(SecretError::File { .. })));
    }
}
