//! The conformance suite of the signer contract, on every signer of this crate.

#![allow(clippy::unwrap_used, reason = "test code, also outside of test functions")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use gapless_chain_evm::{LocalSigner, MnemonicOptions, Secret};
use gapless_signer::Signer;
use gapless_signer::conformance::Harness;

const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const WORDS: &str = "test test test test test test test test test test test junk";
const PASSWORD: &str = "testpassword";
/// A file of ethers.js 6 with a cheap key derivation.
const KEY_FILE: &str = r#"{"address":"008aeeda4d805471df9b2a5b0f38a0c3bcba786b",
"id":"fbeaaf42-0169-450e-a206-12ecf82432aa","version":3,
"Crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"bb736cb83dac27f796a5f23a7f803db9"},
"ciphertext":"bf1db43fd55f6967d074888084f8b527a4b10f3b7f869808c8d7e7ba304f3556","kdf":"scrypt",
"kdfparams":{"salt":"5c0931d6cef9a35fd5ecc168a02e424cb12c7e68092794239dbbea15c7995659","n":4096,"dklen":32,"p":1,"r":8},
"mac":"aff6df9ba4aeab9678175033ea40cf3c3182189b304cb80b860aa2c56d8a59ba"}}"#;

/// A source of the key.
enum KeySource {
    Hex,
    Mnemonic,
    Keystore(KeyFile),
}

/// A keystore file, deleted at the end.
struct KeyFile(PathBuf);

impl KeyFile {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("gapless-signers-{}-{number}.json", std::process::id()));
        std::fs::write(&path, KEY_FILE).unwrap();
        KeyFile(path)
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[async_trait]
impl Harness for KeySource {
    async fn open(&self) -> Arc<dyn Signer> {
        let signer = match self {
            KeySource::Hex => LocalSigner::from_hex(&Secret::new(KEY.to_owned())),
            KeySource::Mnemonic => LocalSigner::from_mnemonic(&MnemonicOptions::new(Secret::new(WORDS.to_owned()))),
            KeySource::Keystore(file) => LocalSigner::from_keystore(&file.0, &Secret::new(PASSWORD.to_owned())),
        };
        Arc::new(signer.unwrap())
    }

    fn secrets(&self) -> Vec<String> {
        vec![KEY.to_owned(), WORDS.to_owned(), PASSWORD.to_owned()]
    }
}

/// A key in hex, as an environment variable holds it.
mod hex {
    use super::*;
    gapless_signer::conformance_suite!(KeySource::Hex);
}

mod mnemonic {
    use super::*;
    gapless_signer::conformance_suite!(KeySource::Mnemonic);
}

mod keystore {
    use super::*;
    gapless_signer::conformance_suite!(KeySource::Keystore(KeyFile::new()));
}
