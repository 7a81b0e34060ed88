//! The accounts of every dev chain, from the mnemonic "test test test test test test test test test test test junk".
//!
//! Their keys are public, and hold no funds on other chains.

use std::fmt;

use alloy_consensus::{SignableTransaction, Signed, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, Signature, address, b256, hex};
use bip32::{DerivationPath, XPrv};
use k256::ecdsa::SigningKey;

/// The BIP-39 seed of the mnemonic with an empty passphrase, precomputed.
const SEED: [u8; 64] = hex!(
    "9dfc3c64c2f8bede1533b6a79f8570e5943e0b8fd1cf77107adf7b72cef42185"
    "d564a3aee24cab43f80e3c4538087d70fc824eabbad596a23c97b6ee8322ccc0"
);

/// An account with a publicly known key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DevAccount {
    pub address: Address,
    pub key: B256,
}

impl fmt::Debug for DevAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevAccount({})", self.address)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("account {0} cannot be derived: the index is too high")]
    Index(u32),
    #[error("not a private key of the curve")]
    Key,
    #[error("the key cannot sign")]
    Sign,
}

/// The first ten accounts, at m/44'/60'/0'/0/i.
pub const DEV_ACCOUNTS: [DevAccount; 10] = [
    DevAccount {
        address: address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
        key: b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
    },
    DevAccount {
        address: address!("70997970C51812dc3A010C7d01b50e0d17dc79C8"),
        key: b256!("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
    },
    DevAccount {
        address: address!("3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"),
        key: b256!("5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"),
    },
    DevAccount {
        address: address!("90F79bf6EB2c4f870365E785982E1f101E93b906"),
        key: b256!("7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"),
    },
    DevAccount {
        address: address!("15d34AAf54267DB7D7c367839AAf71A00a2C6A65"),
        key: b256!("47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"),
    },
    DevAccount {
        address: address!("9965507D1a55bcC2695C58ba16FB37d819B0A4dc"),
        key: b256!("8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba"),
    },
    DevAccount {
        address: address!("976EA74026E726554dB657fA54763abd0C3a0aa9"),
        key: b256!("92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e"),
    },
    DevAccount {
        address: address!("14dC79964da2C08b23698B3D3cc7Ca32193d9955"),
        key: b256!("4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356"),
    },
    DevAccount {
        address: address!("23618e81E3f5cdF7f54C3d65f7FBc0aBf5B21E8f"),
        key: b256!("dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97"),
    },
    DevAccount {
        address: address!("a0Ee7A142d267C1f36714E4a8F75612F20a79720"),
        key: b256!("2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6"),
    },
];

/// The account at m/44'/60'/0'/0/`index`, for tests that need more than ten.
pub fn dev_account(index: u32) -> Result<DevAccount, AccountError> {
    let path: DerivationPath = format!("m/44'/60'/0'/0/{index}").parse().map_err(|_| AccountError::Index(index))?;
    let key = XPrv::derive_from_path(SEED, &path).map_err(|_| AccountError::Index(index))?;
    DevAccount::from_key(B256::from_slice(&key.to_bytes()))
}

impl DevAccount {
    /// The account of a private key.
    pub fn from_key(key: B256) -> Result<Self, AccountError> {
        let signing = signing_key(key)?;
        Ok(Self { address: Address::from_public_key(signing.verifying_key()), key })
    }

    /// Signs a hash without any prefix.
    pub fn sign_hash(&self, hash: B256) -> Result<Signature, AccountError> {
        let signing = signing_key(self.key)?;
        let (signature, recovery) =
            signing.sign_prehash_recoverable(hash.as_slice()).map_err(|_| AccountError::Sign)?;
        Ok(Signature::from((signature, recovery)))
    }

    /// Signs a transaction of any type and returns the encoded bytes.
    pub fn sign<T>(&self, tx: T) -> Result<Bytes, AccountError>
    where
        T: SignableTransaction<Signature>,
        Signed<T>: Into<TxEnvelope>,
    {
        let signature = self.sign_hash(tx.signature_hash())?;
        let envelope: TxEnvelope = tx.into_signed(signature).into();
        Ok(envelope.encoded_2718().into())
    }

    /// Signs an EIP-7702 authorization.
    pub fn authorize(&self, authorization: Authorization) -> Result<SignedAuthorization, AccountError> {
        let signature = self.sign_hash(authorization.signature_hash())?;
        Ok(authorization.into_signed(signature))
    }
}

fn signing_key(key: B256) -> Result<SigningKey, AccountError> {
    SigningKey::from_slice(key.as_slice()).map_err(|_| AccountError::Key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dev_accounts_match_the_mnemonic() {
        for (index, listed) in (0..).zip(DEV_ACCOUNTS) {
            assert_eq!(dev_account(index).unwrap(), listed, "account {index}");
        }
        assert_eq!(dev_account(10).unwrap().address, address!("BcD4042DE499D14e55001CcbB24a551F3b954096"));
    }

    #[test]
    fn account_index_out_of_range_is_an_error() {
        assert!(matches!(dev_account(u32::MAX), Err(AccountError::Index(u32::MAX))));
    }
}
