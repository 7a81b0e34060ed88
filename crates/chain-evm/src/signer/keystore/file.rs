//! The JSON of a key file, and its storage.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use alloy_primitives::{Address, hex};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Keystore, KeystoreError};

/// A key file. Everything in it is public except the encrypted key.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeyFile {
    pub(super) version: u32,
    pub(super) id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<String>,
    #[serde(alias = "Crypto")]
    pub(super) crypto: Crypto,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Crypto {
    pub(super) cipher: String,
    pub(super) cipherparams: CipherParams,
    pub(super) ciphertext: Hex,
    #[serde(flatten)]
    pub(super) kdf: Kdf,
    pub(super) mac: Hex,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CipherParams {
    pub(super) iv: Hex,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kdf", content = "kdfparams", rename_all = "lowercase")]
pub(super) enum Kdf {
    Scrypt { dklen: usize, n: u64, p: u32, r: u32, salt: Hex },
    Pbkdf2 { dklen: usize, c: u32, prf: String, salt: Hex },
}

/// Bytes in hex without 0x.
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Hex(pub(super) Vec<u8>);

impl Clone for Hex {
    fn clone(&self) -> Self {
        Hex(self.0.clone())
    }
}

impl TryFrom<String> for Hex {
    type Error = hex::FromHexError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        hex::decode(text).map(Hex)
    }
}

impl From<Hex> for String {
    fn from(bytes: Hex) -> Self {
        hex::encode(bytes.0)
    }
}

impl KeyFile {
    pub(super) fn read(path: &Path) -> Result<Self, KeystoreError> {
        let malformed = |what| KeystoreError::Malformed { path: path.to_owned(), what };
        let failed = |cause| KeystoreError::Io { path: path.to_owned(), cause };
        let about = fs::metadata(path).map_err(failed)?;
        if !about.is_file() || about.len() > Keystore::MAX_FILE_BYTES {
            return Err(malformed("not a regular file, or too large"));
        }
        let text = fs::read(path).map_err(failed)?;
        // The error of the parser repeats parts of the text, which may be a key in plain text.
        let file: KeyFile =
            serde_json::from_slice(&text).map_err(|_| malformed("not JSON in the format of Web3 Secret Storage"))?;
        if file.version != 3 {
            return Err(malformed("only version 3 is supported"));
        }
        Ok(file)
    }

    pub(super) fn address(&self) -> Option<Address> {
        let digits = self.address.as_deref()?;
        digits.strip_prefix("0x").unwrap_or(digits).parse().ok()
    }

    /// Writes a temporary file and links it to its name. Readers see the whole file or none, and an existing file
    /// stays.
    pub(super) fn write(&self, dir: &Path, path: &Path) -> Result<(), KeystoreError> {
        let failed = |cause| KeystoreError::Io { path: path.to_owned(), cause };
        make_dir(dir).map_err(failed)?;
        let temporary = dir.join(format!(".{}.new", self.id));
        let text = serde_json::to_vec_pretty(self).map_err(|cause| failed(cause.into()))?;
        let written = write_synced(&temporary, &text).and_then(|()| fs::hard_link(&temporary, path));
        let removed = fs::remove_file(&temporary);
        written.and(removed).map_err(failed)?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)
    }
}

fn write_synced(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

fn make_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}
