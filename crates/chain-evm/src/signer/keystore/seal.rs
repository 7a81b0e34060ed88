//! The cryptography of a key file. A key is derived from the password (scrypt or PBKDF2). Its first half encrypts
//! (AES-128 in counter mode), its second half authenticates (Keccak-256).

use std::path::Path;

use aes::Aes128;
use alloy_primitives::{Address, Keccak256, hex};
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit as _, StreamCipher as _};
use gapless_secret::Secret;
use hmac::Hmac;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use uuid::Builder;
use zeroize::Zeroizing;

use super::KeystoreError;
use super::file::{CipherParams, Crypto, Hex, Kdf, KeyFile};

const CIPHER: &str = "aes-128-ctr";
const DERIVED_BYTES: usize = 32;
const SALT_BYTES: usize = 32;
const IV_BYTES: usize = 16;

/// Limits for the parameters of a file, so that a foreign file cannot hang the process or exhaust its memory.
const MAX_SCRYPT_BYTES: u64 = 1 << 30;
const MAX_SCRYPT_P: u32 = 16;
const MAX_ROUNDS: u32 = 10_000_000;

/// The cost of one guess of the password.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    log_n: u8,
}

impl Cost {
    /// 128 MiB of memory and part of a second.
    pub(super) const STANDARD: Cost = Cost { log_n: 17 };
    #[cfg(test)]
    pub(super) const TEST: Cost = Cost { log_n: 4 };
    const R: u32 = 8;
    const P: u32 = 1;
}

pub(super) fn close(key: &[u8; 32], address: Address, password: &Secret, cost: Cost) -> Result<KeyFile, KeystoreError> {
    let salt: [u8; SALT_BYTES] = random()?;
    let iv: [u8; IV_BYTES] = random()?;
    let derived = scrypt(password, &salt, cost.log_n, Cost::R, Cost::P).ok_or(KeystoreError::NoRandom)?;
    let mut text = key.to_vec();
    cipher(&derived, &iv, &mut text).ok_or(KeystoreError::NoRandom)?;
    let mac = mac(&derived, &text);
    let kdf =
        Kdf::Scrypt { dklen: DERIVED_BYTES, n: 1 << cost.log_n, p: Cost::P, r: Cost::R, salt: Hex(salt.to_vec()) };
    let cipherparams = CipherParams { iv: Hex(iv.to_vec()) };
    let crypto = Crypto { cipher: CIPHER.to_owned(), cipherparams, ciphertext: Hex(text), kdf, mac: Hex(mac.to_vec()) };
    let id = Builder::from_random_bytes(random()?).into_uuid();
    Ok(KeyFile { version: 3, id, address: Some(hex::encode(address)), crypto })
}

pub(super) fn open(file: &KeyFile, password: &Secret, path: &Path) -> Result<Zeroizing<[u8; 32]>, KeystoreError> {
    let unsupported = |what| KeystoreError::Unsupported { path: path.to_owned(), what };
    let crypto = &file.crypto;
    if crypto.cipher != CIPHER {
        return Err(unsupported("the cipher is not aes-128-ctr"));
    }
    let derived = derive(&crypto.kdf, password).map_err(unsupported)?;
    if !bool::from(mac(&derived, &crypto.ciphertext.0).as_slice().ct_eq(&crypto.mac.0)) {
        return Err(KeystoreError::WrongPassword { path: path.to_owned() });
    }
    let mut key = Zeroizing::new([0; 32]);
    if crypto.ciphertext.0.len() != key.len() {
        return Err(unsupported("the key is not 32 bytes long"));
    }
    key.copy_from_slice(&crypto.ciphertext.0);
    cipher(&derived, &crypto.cipherparams.iv.0, key.as_mut_slice())
        .ok_or_else(|| unsupported("the iv is not 16 bytes long"))?;
    Ok(key)
}

type Derived = Zeroizing<[u8; DERIVED_BYTES]>;

fn derive(kdf: &Kdf, password: &Secret) -> Result<Derived, &'static str> {
    match kdf {
        Kdf::Scrypt { dklen: DERIVED_BYTES, n, p, r, salt } => {
            let memory = n.checked_mul(u64::from(*r)).and_then(|blocks| blocks.checked_mul(128));
            let bounded = memory.is_some_and(|bytes| bytes <= MAX_SCRYPT_BYTES) && *p <= MAX_SCRYPT_P;
            if !n.is_power_of_two() || !bounded {
                return Err("the scrypt parameters are out of bounds");
            }
            let log_n = u8::try_from(n.trailing_zeros()).unwrap_or(u8::MAX);
            scrypt(password, &salt.0, log_n, *r, *p).ok_or("the scrypt parameters are out of bounds")
        }
        Kdf::Pbkdf2 { dklen: DERIVED_BYTES, c, prf, salt } if prf == "hmac-sha256" => {
            if !(1..=MAX_ROUNDS).contains(c) {
                return Err("the number of rounds is out of bounds");
            }
            let mut derived = Derived::default();
            pbkdf2::pbkdf2::<Hmac<Sha256>>(password.expose().as_bytes(), &salt.0, *c, derived.as_mut_slice())
                .map_err(|_| "the key derivation failed")?;
            Ok(derived)
        }
        _ => Err("the key derivation is neither scrypt nor hmac-sha256 with 32 bytes"),
    }
}

fn scrypt(password: &Secret, salt: &[u8], log_n: u8, r: u32, p: u32) -> Option<Derived> {
    let params = scrypt::Params::new(log_n, r, p, DERIVED_BYTES).ok()?;
    let mut derived = Derived::default();
    scrypt::scrypt(password.expose().as_bytes(), salt, &params, derived.as_mut_slice()).ok()?;
    Some(derived)
}

/// Encrypts or decrypts in place. Counter mode is the same in both directions.
fn cipher(derived: &Derived, iv: &[u8], text: &mut [u8]) -> Option<()> {
    let mut stream = Ctr128BE::<Aes128>::new_from_slices(derived.get(..16)?, iv).ok()?;
    stream.apply_keystream(text);
    Some(())
}

fn mac(derived: &Derived, text: &[u8]) -> [u8; 32] {
    let mut hasher = Keccak256::new();
    hasher.update(derived.get(16..).unwrap_or_default());
    hasher.update(text);
    hasher.finalize().0
}

fn random<const N: usize>() -> Result<[u8; N], KeystoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| KeystoreError::NoRandom)?;
    Ok(bytes)
}
