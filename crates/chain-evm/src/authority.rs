//! The account of an authorization (EIP-7702), whose nonce it uses.

use alloy_consensus::crypto::secp256k1::recover_signer;
use alloy_eips::eip7702::Authorization;
use alloy_primitives::{Address, Signature};

/// The account that signed an authorization, for any chain id. `None` if the signature is invalid.
pub fn authority(signed: &gapless_domain::Authorization) -> Option<Address> {
    let said = Authorization { chain_id: signed.chain_id, address: signed.address, nonce: signed.nonce };
    let signature = Signature::new(signed.r, signed.s, signed.y_parity);
    // An s in the upper half is refused too, as chains do.
    recover_signer(&signature, said.signature_hash()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{B256, U256, address, b256};
    use secp256k1::{Message, SECP256K1, SecretKey};

    /// The first of the well-known accounts.
    const KEY: B256 = b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80");
    const ACCOUNT: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");

    fn signed(chain_id: u64) -> gapless_domain::Authorization {
        let said = Authorization { chain_id: U256::from(chain_id), address: Address::repeat_byte(7), nonce: 3 };
        let key = SecretKey::from_byte_array(KEY.0).unwrap();
        let message = Message::from_digest(said.signature_hash().0);
        let (parity, bytes) = SECP256K1.sign_ecdsa_recoverable(message, &key).serialize_compact();
        gapless_domain::Authorization {
            chain_id: said.chain_id,
            address: said.address,
            nonce: said.nonce,
            y_parity: i32::from(parity) == 1,
            r: U256::from_be_slice(&bytes[..32]),
            s: U256::from_be_slice(&bytes[32..]),
        }
    }

    #[test]
    fn authority_is_recovered_for_any_chain_id() {
        for chain in [0, 1, 31337] {
            assert_eq!(authority(&signed(chain)), Some(ACCOUNT));
        }
        let other = gapless_domain::Authorization { nonce: 4, ..signed(1) };
        assert_ne!(authority(&other), Some(ACCOUNT), "every field is signed");
        assert_eq!(authority(&gapless_domain::Authorization { r: U256::ZERO, ..signed(1) }), None);
        let order = U256::from_be_slice(&secp256k1::constants::CURVE_ORDER);
        let upper = signed(1);
        let upper = gapless_domain::Authorization { s: order - upper.s, y_parity: !upper.y_parity, ..upper };
        assert_eq!(authority(&upper), None, "chains refuse an s in the upper half");
    }
}
