//! Keys from mnemonics: BIP-39 and BIP-32.

use bip32::{DerivationPath, XPrv};
use bip39::{Language, Mnemonic};
use gapless_secret::Secret;
use zeroize::{Zeroize as _, Zeroizing};

use super::local::KeyError;

#[derive(Clone, Debug)]
pub struct MnemonicOptions {
    pub phrase: Secret,
    /// The passphrase of BIP-39, also called the 25th word.
    pub passphrase: Option<Secret>,
    /// The derivation path of the key.
    pub path: String,
}

impl MnemonicOptions {
    pub const DEFAULT_PATH: &str = "m/44'/60'/0'/0/0";

    /// The options of the first account.
    pub fn new(phrase: Secret) -> Self {
        Self::account(phrase, 0)
    }

    /// The options of an account by its number in wallets and dev chains, from 0.
    pub fn account(phrase: Secret, index: u32) -> Self {
        MnemonicOptions { phrase, passphrase: None, path: format!("m/44'/60'/0'/0/{index}") }
    }
}

pub(super) fn derive(options: &MnemonicOptions) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let path: DerivationPath = options.path.parse().map_err(|_| KeyError::Path(options.path.clone()))?;
    let words = Zeroizing::new(options.phrase.expose().split_whitespace().collect::<Vec<_>>().join(" "));
    // The error of the library names the wrong word, which must not be shown.
    let mut mnemonic = Mnemonic::parse_in(Language::English, words.as_str()).map_err(|_| KeyError::Mnemonic)?;
    let passphrase = options.passphrase.as_ref().map_or("", Secret::expose);
    let seed = Zeroizing::new(mnemonic.to_seed(passphrase));
    mnemonic.zeroize();
    let key = XPrv::derive_from_path(seed.as_slice(), &path).map_err(|_| KeyError::Path(options.path.clone()))?;
    Ok(Zeroizing::new(key.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signer::LocalSigner;

    const JUNK: &str = "test test test test test test test test test test test junk";

    #[test]
    fn accounts_of_the_test_mnemonic_are_derived() {
        let address = |options| LocalSigner::from_mnemonic(&options).unwrap().address().to_string();
        let phrase = || Secret::new(JUNK.to_owned());
        assert_eq!(address(MnemonicOptions::new(phrase())), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        assert_eq!(address(MnemonicOptions::account(phrase(), 1)), "0x70997970C51812dc3A010C7d01b50e0d17dc79C8");
        assert_eq!(address(MnemonicOptions::account(phrase(), 9)), "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720");
        let spaced = Secret::new(format!("  {}\n", JUNK.replace(' ', "\n ")));
        assert_eq!(address(MnemonicOptions::new(spaced)), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    }

    #[test]
    fn passphrase_changes_the_key() {
        let phrase = Secret::new(JUNK.to_owned());
        let with = MnemonicOptions {
            passphrase: Some(Secret::new("TREZOR".to_owned())),
            ..MnemonicOptions::new(phrase.clone())
        };
        let key = |options| *derive(options).unwrap();
        assert_ne!(key(&with), key(&MnemonicOptions::new(phrase)));
    }

    #[test]
    fn invalid_mnemonic_and_path_are_refused() {
        let wrong_checksum = MnemonicOptions::new(Secret::new(JUNK.replace("junk", "test")));
        assert!(matches!(derive(&wrong_checksum), Err(KeyError::Mnemonic)));
        let path = MnemonicOptions { path: "44/60".to_owned(), ..MnemonicOptions::new(Secret::new(JUNK.to_owned())) };
        assert!(matches!(derive(&path), Err(KeyError::Path(_))));
    }
}
