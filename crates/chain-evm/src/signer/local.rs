//! Keys in the memory of this process.

use std::fmt;
use std::path::Path;

use alloy_primitives::{Address, B256, Signature, U256, hex, keccak256};
use async_trait::async_trait;
use gapless_secret::{Secret, SecretError};
use secp256k1::{Message, PublicKey, SECP256K1, SecretKey};
use zeroize::Zeroizing;

use super::keystore::{Keystore, KeystoreError};
use super::mnemonic::{self, MnemonicOptions};
use super::{Signer, SignerError};

/// A key in memory. `Debug` shows its address.
pub struct LocalSigner {
    key: SecretKey,
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
        let address = address_of(&PublicKey::from_secret_key(SECP256K1, &key));
        Ok(LocalSigner { key, address })
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

    /// Decrypts a keystore file. The key derivation takes about a second, so call it outside of async threads.
    pub fn from_keystore(file: &Path, password: &Secret) -> Result<Self, KeyError> {
        Self::from_key(&*Keystore::decrypt(file, password)?)
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

/// The address of a public key: the last 20 bytes of the hash of the point.
pub(super) fn address_of(public: &PublicKey) -> Address {
    let point = public.serialize_uncompressed();
    Address::from_slice(keccak256(point.get(1..).unwrap_or_default()).get(12..).unwrap_or_default())
}

#[async_trait]
impl Signer for LocalSigner {
    fn address(&self) -> Address {
        self.address
    }

    fn is_in_memory(&self) -> bool {
        true
    }

    async fn sign_hash(&self, hash: B256) -> Result<Signature, SignerError> {
        // RFC 6979: signatures are deterministic, and s is in the lower half as EIP-2 requires.
        let signed = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(hash.0), &self.key);
        let (recovery, bytes) = signed.serialize_compact();
        let (r, s) = bytes.split_at(32);
        Ok(Signature::new(U256::from_be_slice(r), U256::from_be_slice(s), i32::from(recovery) & 1 == 1))
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

    #[tokio::test]
    async fn signature_recovers_to_the_address() {
        let signer = LocalSigner::from_hex(&Secret::new(KEY.to_owned())).unwrap();
        for byte in 0..50 {
            let hash = B256::repeat_byte(byte);
            let signature = signer.sign_hash(hash).await.unwrap();
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
