//! Keys in encrypted files: Web3 Secret Storage, version 3, as geth and most wallets write it
//! (docs/adr/0012-keystores.md).

mod file;
mod seal;

use std::io;
use std::path::{Path, PathBuf};

use alloy_primitives::Address;
use gapless_secret::Secret;
use zeroize::Zeroizing;

use super::KeyError;
use super::local::{LocalSigner, parse_key};
use file::KeyFile;
use seal::Cost;

/// A directory of key files, one for each key, named by address. Files are readable by their owner only, are written
/// atomically, and are never overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keystore {
    dir: PathBuf,
}

/// One key file. `address` is taken from the file and is compared with the key when the file is decrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeystoreEntry {
    pub address: Address,
    pub file: PathBuf,
}

/// A failure with key files. No text contains a key or a password.
#[derive(Debug, thiserror::Error)]
pub enum KeystoreError {
    #[error("{}: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
    #[error("{} is not a key file: {what}", path.display())]
    Malformed { path: PathBuf, what: &'static str },
    #[error("{} is not supported: {what}", path.display())]
    Unsupported { path: PathBuf, what: &'static str },
    #[error("wrong password for {}", path.display())]
    WrongPassword { path: PathBuf },
    #[error("{} names the address {named}, but holds the key of {held}", path.display())]
    AddressMismatch { path: PathBuf, named: Address, held: Address },
    #[error("the key of {0} is already in this directory")]
    Exists(Address),
    #[error("the key is not valid: it needs 64 hex digits, with or without 0x, and must be a scalar of the curve")]
    InvalidKey,
    #[error("the system has no random bytes")]
    NoRandom,
    #[error("the password must not be empty")]
    EmptyPassword,
    #[error("{} has more than {max} files", path.display(), max = Keystore::MAX_FILES)]
    TooManyFiles { path: PathBuf },
}

impl Keystore {
    pub const MAX_FILES: usize = 10_000;
    pub const MAX_FILE_BYTES: u64 = 64 * 1024;

    /// The keystore in a directory. The directory is created with the first key.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Keystore { dir: dir.into() }
    }

    /// Creates a key from random bytes of the system.
    pub fn create(&self, password: &Secret) -> Result<KeystoreEntry, KeystoreError> {
        self.create_at(password, Cost::STANDARD)
    }

    /// Imports a key in hex.
    pub fn import(&self, key: &Secret, password: &Secret) -> Result<KeystoreEntry, KeystoreError> {
        let key = parse_key(key).map_err(|_| KeystoreError::InvalidKey)?;
        self.put(&key, password, Cost::STANDARD)
    }

    /// The key files of the directory, by address. Other files are skipped. A missing directory has no files.
    pub fn list(&self) -> Result<Vec<KeystoreEntry>, KeystoreError> {
        let failed = |cause| KeystoreError::Io { path: self.dir.clone(), cause };
        let files = match std::fs::read_dir(&self.dir) {
            Ok(files) => files,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(failed(cause)),
        };
        let mut entries = Vec::new();
        for (count, file) in files.enumerate() {
            if count >= Self::MAX_FILES {
                return Err(KeystoreError::TooManyFiles { path: self.dir.clone() });
            }
            let path = file.map_err(failed)?.path();
            let address = KeyFile::read(&path).ok().and_then(|file| file.address());
            entries.extend(address.map(|address| KeystoreEntry { address, file: path }));
        }
        entries.sort_by(|a, b| (a.address, &a.file).cmp(&(b.address, &b.file)));
        Ok(entries)
    }

    /// Decrypts one file.
    pub(super) fn decrypt(path: &Path, password: &Secret) -> Result<Zeroizing<[u8; 32]>, KeystoreError> {
        let file = KeyFile::read(path)?;
        let key = seal::open(&file, password, path)?;
        let held = address_of(&key)?;
        match file.address() {
            Some(named) if named != held => Err(KeystoreError::AddressMismatch { path: path.to_owned(), named, held }),
            _ => Ok(key),
        }
    }

    fn create_at(&self, password: &Secret, cost: Cost) -> Result<KeystoreEntry, KeystoreError> {
        // One draw in 2^128 is not a valid key, so a few draws are enough.
        for _ in 0..4 {
            let mut key = Zeroizing::new([0; 32]);
            getrandom::fill(key.as_mut_slice()).map_err(|_| KeystoreError::NoRandom)?;
            match self.put(&key, password, cost) {
                Err(KeystoreError::InvalidKey) => continue,
                done => return done,
            }
        }
        Err(KeystoreError::NoRandom)
    }

    fn put(&self, key: &[u8; 32], password: &Secret, cost: Cost) -> Result<KeystoreEntry, KeystoreError> {
        if password.expose().is_empty() {
            return Err(KeystoreError::EmptyPassword);
        }
        let address = address_of(key)?;
        if self.list()?.iter().any(|entry| entry.address == address) {
            return Err(KeystoreError::Exists(address));
        }
        let sealed = seal::close(key, address, password, cost)?;
        let file = self.dir.join(format!("{address:#x}.json"));
        match sealed.write(&self.dir, &file) {
            Err(KeystoreError::Io { cause, .. }) if cause.kind() == io::ErrorKind::AlreadyExists => {
                Err(KeystoreError::Exists(address))
            }
            written => written.map(|()| KeystoreEntry { address, file }),
        }
    }
}

fn address_of(key: &[u8; 32]) -> Result<Address, KeystoreError> {
    match LocalSigner::from_key(key) {
        Ok(signer) => Ok(signer.address()),
        Err(KeyError::Keystore(error)) => Err(error),
        Err(_) => Err(KeystoreError::InvalidKey),
    }
}

#[cfg(test)]
mod tests;
