//! Keys in the memory of this process.

use std::fmt;
use std::path::Path;

use alloy_primitives::{Address, B256, Bytes, U256, hex};
use async_trait::async_trait;
use gapless_secret::{Secret, SecretError};
use gapless_signer::{KeyLocation, PublicKey, Signature, Signer, SignerError, SigningInput};
use secp256k1::{Message, SECP256K1, SecretKey};
use zeroize::Zeroizing;

use super::evm_address;
use super::keystore::{Keystore, KeystoreError};
use super::mnemonic::{self, MnemonicOptions};
use crate::transaction::{self, UnsignedTx};

/// A key in memory. `Debug` shows its address.
pub struct LocalSigner {
    key: SecretKey,
    public: PublicKey,
    address: Address,
}

/// The reason why a key cannot be read. No text repeats the input.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key is not valid: it needs 64 hex digits, with or without 0x, and must be a scalar of the curve")]
    Malformed,
    #[error("the mnemonic is not valid: it needs 12 to 24 words of the English list with a valid checksum")]
    Mnemonic,
    #[error("`{0}` is not a derivation path such as m/44'/60'/0'/0/0")]
    Path(String),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Keystore(#[from] KeystoreError),
}

impl LocalSigner {
    pub fn from_key(key: &[u8; 32]) -> Result<Self, KeyError> {
        let key = SecretKey::from_byte_array(*key).map_err(|_| KeyError::Malformed)?;
        let public = PublicKey::Secp256k1(key.public_key(SECP256K1).serialize_uncompressed());
        Ok(LocalSigner { key, public, address: evm_address(&public) })
    }

    pub fn from_hex(key: &Secret) -> Result<Self, KeyError> {
        Self::from_key(&*parse_key(key)?)
    }

    /// The key in an environment variable, in hex.
    pub fn from_env(variable: &str) -> Result<Self, KeyError> {
        Self::from_hex(&Secret::from_env(variable)?)
    }

    pub fn from_mnemonic(options: &MnemonicOptions) -> Result<Self, KeyError> {
        Self::from_key(&*mnemonic::derive(options)?)
    }

    /// Decrypts a keystore file. The key derivation takes about a second and blocks its thread.
    pub fn from_keystore(file: &Path, password: &Secret) -> Result<Self, KeyError> {
        Self::from_key(&*Keystore::decrypt(file, password)?)
    }

    pub fn address(&self) -> Address {
        self.address
    }

    /// Signs a hash without further hashing.
    pub fn sign_hash(&self, hash: B256) -> alloy_primitives::Signature {
        let Signature::Secp256k1 { r, s, y_is_odd } = self.sign_digest(hash);
        alloy_primitives::Signature::new(U256::from_be_bytes(r), U256::from_be_bytes(s), y_is_odd)
    }

    /// The raw bytes of a transaction with the signature of this key.
    pub fn sign_transaction(&self, unsigned: &UnsignedTx) -> Bytes {
        transaction::with_signature(unsigned, self.sign_hash(transaction::signing_hash(unsigned)))
    }

    fn sign_digest(&self, digest: B256) -> Signature {
        // RFC 6979: signatures are deterministic, and s is in the lower half as EIP-2 requires.
        let signed = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(digest.0), &self.key);
        let (recovery, bytes) = signed.serialize_compact();
        let (mut r, mut s) = ([0; 32], [0; 32]);
        r.copy_from_slice(&bytes[..32]);
        s.copy_from_slice(&bytes[32..]);
        Signature::Secp256k1 { r, s, y_is_odd: i32::from(recovery) & 1 == 1 }
    }

    /// The key in hex, to show it to its owner.
    pub fn reveal(&self) -> Secret {
        Secret::new(hex::encode_prefixed(*Zeroizing::new(self.key.secret_bytes())))
    }
}

pub(super) fn parse_key(key: &Secret) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let text = key.expose().trim();
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let mut bytes = Zeroizing::new([0; 32]);
    hex::decode_to_slice(digits, bytes.as_mut_slice()).map_err(|_| KeyError::Malformed)?;
    Ok(bytes)
}

#[async_trait]
impl Signer for LocalSigner {
    fn public_key(&self) -> PublicKey {
        self.public
    }

    fn location(&self) -> KeyLocation {
        KeyLocation::Memory
    }

    async fn sign_many(&self, inputs: &[SigningInput]) -> Vec<Result<Signature, SignerError>> {
        inputs.iter().map(|input| Ok(self.sign_digest(input.digest))).collect()
    }
}

impl Drop for LocalSigner {
    fn drop(&mut self) {
        self.key.non_secure_erase();
    }
}

impl fmt::Debug for LocalSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSigner").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

    #[test]
    fn key_is_read_in_hex() {
        for text in [KEY.to_owned(), format!("0x{KEY}"), format!(" 0x{KEY}\n"), KEY.to_uppercase()] {
            let signer = LocalSigner::from_hex(&Secret::new(text)).unwrap();
            assert_eq!(signer.address().to_string(), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
            assert_eq!(signer.reveal().expose(), format!("0x{KEY}"));
        }
    }

    #[test]
    fn signature_recovers_to_the_address() {
        let signer = LocalSigner::from_hex(&Secret::new(KEY.to_owned())).unwrap();
        for byte in 0..50 {
            let hash = B256::repeat_byte(byte);
            let signature = signer.sign_hash(hash);
            assert_eq!(signature.recover_address_from_prehash(&hash).unwrap(), signer.address());
            assert_eq!(signature.normalize_s(), None, "s is in the lower half");
        }
    }

    /// proves X03
    #[test]
    fn keys_are_hidden_in_debug_and_errors() {
        let signer = LocalSigner::from_hex(&Secret::new(KEY.to_owned())).unwrap();
        let mut shown = vec![format!("{signer:?} {signer:#?}"), format!("{:?}", Secret::new(KEY.to_owned()))];
        let zero = "0".repeat(64);
        let over = "f".repeat(64);
        for bad in [&KEY[1..], &format!("{KEY}00"), &KEY.replace('a', "g"), &zero, &over] {
            let error = LocalSigner::from_hex(&Secret::new(bad.to_owned())).unwrap_err();
            assert!(matches!(error, KeyError::Malformed));
            shown.push(format!("{error} {error:?} {error:#?}"));
        }
        let missing = LocalSigner::from_env("GAPLESS_TEST_NO_SUCH_VARIABLE").unwrap_err();
        shown.push(format!("{missing} {missing:?}"));
        let phrase = format!("{KEY} test junk");
        let options = MnemonicOptions::new(Secret::new(phrase));
        shown.push(format!("{options:?}"));
        let error = LocalSigner::from_mnemonic(&options).unwrap_err();
        shown.push(format!("{error} {error:?}"));
        for text in shown {
            // Not even eight digits in a row may be shown.
            for part in KEY.as_bytes().windows(8).map(|part| std::str::from_utf8(part).unwrap()) {
                assert!(!text.to_lowercase().contains(part), "{text}");
            }
            assert!(!text.contains("test junk"), "{text}");
        }
    }
}
