//! Keys in encrypted files: Web3 Secret Storage, version 3, as geth and most wallets write it.

mod file;
mod seal;

use std::io;
use std::path::{Path, PathBuf};

use alloy_primitives::Address;
use gapless_secret::Secret;
use zeroize::Zeroizing;

use super::local::{LocalSigner, parse_key};
use super::{KeyError, Signer as _};
use file::KeyFile;
use seal::Cost;

/// A folder of key files, one for each key, named by address. Files are readable by their owner only, appear whole or not
/// at all, and are never overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keystore {
    dir: PathBuf,
}

/// One file. `address` is what the file says; the key behind it is compared with it when it is decrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeystoreEntry {
    pub address: Address,
    pub file: PathBuf,
}

/// What goes wrong with key files. None of these has a key or a password in it.
#[derive(Debug, thiserror::Error)]
pub enum KeystoreError {
    #[error("{}: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
    #[error("{} is no key file: {what}", path.display())]
    Malformed { path: PathBuf, what: &'static str },
    #[error("{} cannot be read: {what}", path.display())]
    Unsupported { path: PathBuf, what: &'static str },
    #[error("the password does not open {}", path.display())]
    WrongPassword { path: PathBuf },
    #[error("{} says it holds {said}, and holds the key of {held}", path.display())]
    AddressMismatch { path: PathBuf, said: Address, held: Address },
    #[error("the key of {0} is already in this folder")]
    AlreadyThere(Address),
    #[error("this is no key: 64 hex digits, with or without 0x, and a valid number of the curve")]
    NoKey,
    #[error("the system gave no random bytes")]
    NoRandom,
    #[error("a password is not empty")]
    EmptyPassword,
    #[error("{} holds more than {max} files", path.display(), max = Keystore::MAX_FILES)]
    TooManyFiles { path: PathBuf },
}

impl Keystore {
    pub const MAX_FILES: usize = 10_000;
    pub const MAX_FILE_BYTES: u64 = 64 * 1024;

    /// The folder is made when the first key is put into it.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Keystore { dir: dir.into() }
    }

    /// A new key, from the system's random numbers.
    pub fn create(&self, password: &Secret) -> Result<KeystoreEntry, KeystoreError> {
        self.create_at(password, Cost::STANDARD)
    }

    /// Puts a key that is already there, in hex, into a file.
    pub fn import(&self, key: &Secret, password: &Secret) -> Result<KeystoreEntry, KeystoreError> {
        let key = parse_key(key).map_err(|_| KeystoreError::NoKey)?;
        self.put(&key, password, Cost::STANDARD)
    }

    /// The key files of the folder, by address. Files that are none are passed over; a folder that is not there is empty.
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

    /// The key of one file.
    pub(super) fn decrypt(path: &Path, password: &Secret) -> Result<Zeroizing<[u8; 32]>, KeystoreError> {
        let file = KeyFile::read(path)?;
        let key = seal::open(&file, password, path)?;
        let held = address_of(&key)?;
        match file.address() {
            Some(said) if said != held => Err(KeystoreError::AddressMismatch { path: path.to_owned(), said, held }),
            _ => Ok(key),
        }
    }

    fn create_at(&self, password: &Secret, cost: Cost) -> Result<KeystoreEntry, KeystoreError> {
        // One draw in 2^128 is no number of the curve; a few draws are enough for ever.
        for _ in 0..4 {
            let mut key = Zeroizing::new([0; 32]);
            getrandom::fill(key.as_mut_slice()).map_err(|_| KeystoreError::NoRandom)?;
            match self.put(&key, password, cost) {
                Err(KeystoreError::NoKey) => continue,
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
            return Err(KeystoreError::AlreadyThere(address));
        }
        let sealed = seal::close(key, address, password, cost)?;
        let file = self.dir.join(format!("{address:#x}.json"));
        match sealed.write(&self.dir, &file) {
            Err(KeystoreError::Io { cause, .. }) if cause.kind() == io::ErrorKind::AlreadyExists => {
                Err(KeystoreError::AlreadyThere(address))
            }
            written => written.map(|()| KeystoreEntry { address, file }),
        }
    }
}

fn address_of(key: &[u8; 32]) -> Result<Address, KeystoreError> {
    match LocalSigner::from_key(key) {
        Ok(signer) => Ok(signer.address()),
        Err(KeyError::Keystore(error)) => Err(error),
        Err(_) => Err(KeystoreError::NoKey),
    }
}

#[cfg(test)]
mod tests;
