//! Signed transactions in a text format: all fields of the plan, and who signed it.

use std::str::FromStr;

use gapless_chain::UnreadableTx;
use gapless_domain::{
    Action, Bytes, EvmCall, EvmRules, Fees, NodeText, Nonce, SignedPlan, SignedTx, SubmitterId, TxPlan, U256, Work,
    keccak256,
};

use super::calls::data_of;
use crate::history::effect_of;

const BY_NODE: &str = "node";
const BY_STRANGER: &str = "stranger";

/// The gas of a transfer, and of one byte of calldata.
const TRANSFER_GAS: u64 = 21_000;
const BYTE_GAS: u64 = 16;

/// Signs with the submitter's key, as a node does, or a caller with a reserved nonce. Equal plans give equal bytes.
///
/// A caller's own gas limit and fees are not part of the bytes. Access lists and authorizations are not supported.
pub fn sign(plan: &TxPlan) -> SignedTx {
    encode(plan, BY_NODE)
}

/// Signs as another user who has the key.
pub fn sign_as_stranger(plan: &TxPlan) -> SignedTx {
    encode(plan, BY_STRANGER)
}

/// Decodes signed bytes.
pub fn read_signed(raw: &Bytes) -> Result<SignedPlan, UnreadableTx> {
    decode(raw).map(|(read, _)| read).ok_or_else(|| UnreadableTx(NodeText::new("not in the format of the simulator")))
}

fn encode(plan: &TxPlan, by: &str) -> SignedTx {
    let TxPlan { submitter, nonce, action: Action::Evm(call), work: Work { units: gas_limit }, fees } = plan;
    let to = call.to.map_or_else(|| "-".to_owned(), |to| to.to_string());
    let fees = match fees {
        Fees::Legacy { gas_price } => format!("{gas_price}"),
        Fees::Eip1559 { max_fee, max_priority_fee } => format!("{max_fee}+{max_priority_fee}"),
    };
    let (value, data) = (call.value, &call.data);
    let text =
        format!("by={by} from={submitter} nonce={nonce} to={to} value={value} data={data} gas={gas_limit} fees={fees}");
    SignedTx { hash: keccak256(&text), raw: Bytes::from(text.into_bytes()) }
}

fn decode(raw: &Bytes) -> Option<(SignedPlan, bool)> {
    let mut fields = std::str::from_utf8(raw).ok()?.split(' ');
    let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=');
    let by_stranger = match field("by")? {
        BY_NODE => false,
        BY_STRANGER => true,
        _ => return None,
    };
    let submitter: SubmitterId = parsed(field("from")?)?;
    let nonce = Nonce::new(parsed(field("nonce")?)?).ok()?;
    let to = match field("to")? {
        "-" => None,
        address => Some(parsed(address)?),
    };
    let value = parsed(field("value")?)?;
    let data = parsed(field("data")?)?;
    let gas_limit: u64 = parsed(field("gas")?)?;
    let fees = field("fees")?;
    let fees = match fees.split_once('+') {
        Some((max, tip)) => Fees::Eip1559 { max_fee: parsed(max)?, max_priority_fee: parsed(tip)? },
        None => Fees::Legacy { gas_price: parsed(fees)? },
    };
    let call = EvmCall { to, value, data, ..EvmCall::default() };
    let plan = TxPlan { submitter, nonce, action: call.into(), work: Work::new(gas_limit), fees };
    let signed = SignedTx { hash: keccak256(raw), raw: raw.clone() };
    Some((SignedPlan { plan, signed }, by_stranger))
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// A decoded transaction, as pools and blocks hold it.
#[derive(Debug)]
pub(super) struct DecodedTx {
    pub(super) read: SignedPlan,
    pub(super) by_stranger: bool,
    /// The index of its account among the world's accounts.
    pub(super) account: usize,
    pub(super) nonce: u64,
    pub(super) max_fee: u128,
    pub(super) tip: u128,
    pub(super) worst_cost: u128,
    pub(super) gas_used: u64,
    pub(super) succeeds: bool,
}

impl DecodedTx {
    /// Decodes a transaction. `account` gives the index of its account. None for unknown accounts and unreadable bytes.
    pub(super) fn read(raw: &Bytes, account: impl FnOnce(&SubmitterId) -> Option<usize>) -> Option<DecodedTx> {
        let (read, by_stranger) = decode(raw)?;
        let (max_fee, tip) = match read.plan.fees {
            Fees::Legacy { gas_price } => (gas_price, gas_price),
            Fees::Eip1559 { max_fee, max_priority_fee } => (max_fee, max_priority_fee),
        };
        let effect = if by_stranger { None } else { effect_of(data_of(&read.plan.action)) };
        Some(DecodedTx {
            by_stranger,
            account: account(&read.plan.submitter)?,
            nonce: read.plan.nonce.get(),
            max_fee,
            tip,
            worst_cost: narrow(read.plan.worst_cost(&EvmRules).get()),
            gas_used: gas_of(&read.plan.action),
            // The gas estimate does not show that the call reverts.
            succeeds: effect.is_none_or(|effect| effect % 7 != 3),
            read,
        })
    }

    pub(super) fn hash(&self) -> gapless_domain::B256 {
        self.read.signed.hash
    }

    pub(super) fn effect(&self) -> Option<u64> {
        if self.by_stranger { None } else { effect_of(data_of(&self.read.plan.action)) }
    }

    pub(super) fn price(&self, base_fee: u128) -> u128 {
        self.max_fee.min(base_fee.saturating_add(self.tip))
    }

    /// The amount that a block with this base fee takes from the account.
    pub(super) fn cost(&self, base_fee: u128) -> u128 {
        let value = if self.succeeds { narrow(self.read.plan.action.outflow().get()) } else { 0 };
        value.saturating_add(self.price(base_fee).saturating_mul(u128::from(self.gas_used)))
    }
}

/// The gas that a call uses, in every block.
pub(super) fn gas_of(action: &Action) -> u64 {
    TRANSFER_GAS + BYTE_GAS * action.bytes() as u64
}

pub(super) fn narrow(value: U256) -> u128 {
    u128::try_from(value).unwrap_or(u128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::{Address, Amount};

    fn plan(fees: Fees) -> TxPlan {
        TxPlan {
            submitter: "eip155:31337:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap(),
            nonce: Nonce::new(7).unwrap(),
            action: EvmCall {
                to: Some(Address::repeat_byte(3)),
                value: Amount::from(5_u64),
                data: Bytes::from(9_u64.to_be_bytes().to_vec()),
                ..EvmCall::default()
            }
            .into(),
            work: Work::new(30_000),
            fees,
        }
    }

    #[test]
    fn signed_bytes_are_decoded_to_the_same_plan() {
        let dynamic = plan(Fees::Eip1559 { max_fee: 30, max_priority_fee: 2 });
        let mut bare = plan(Fees::Legacy { gas_price: 11 });
        bare.action = EvmCall { value: Amount::from(5_u64), ..EvmCall::default() }.into();
        for plan in [dynamic, bare] {
            for signed in [sign(&plan), sign_as_stranger(&plan)] {
                let read = read_signed(&signed.raw).unwrap();
                assert_eq!((&read.plan, &read.signed), (&plan, &signed));
            }
            assert_ne!(sign(&plan), sign_as_stranger(&plan));
            assert!(DecodedTx::read(&sign_as_stranger(&plan).raw, |_| Some(0)).unwrap().by_stranger);
        }
        assert!(read_signed(&Bytes::from_static(b"by=node from=")).is_err());
    }
}
