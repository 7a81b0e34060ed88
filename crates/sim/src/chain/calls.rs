//! The rules and accounts of the chain, and the actions of the callers of a world: calls of one contract, whose data
//! begins with the number of the intent.

use gapless_domain::{Action, Address, Amount, Bytes, ChainRules, EvmCall, EvmRules, Payload, SubmitterId, Work};

/// Work that is too small for every action of this module: no node of the chain accepts it.
pub(crate) const TOO_LITTLE_WORK: Work = Work::new(21_000);

/// The rules of the chain of every world.
pub(crate) fn rules() -> &'static dyn ChainRules {
    &EvmRules
}

/// The account with this number. A reader can tell the addresses of all accounts apart easily.
pub(crate) fn account(number: u32) -> Option<SubmitterId> {
    format!("eip155:31337:0x{}", format!("{:02x}", 0xA0 + number).repeat(20)).parse().ok()
}

/// The action of the intent with this number.
pub fn action(number: u64) -> Action {
    call(number.to_be_bytes().to_vec())
}

/// Another action with the same effect number.
pub(crate) fn version_of(number: u64, version: u8) -> Action {
    let mut data = number.to_be_bytes().to_vec();
    data.push(version);
    call(data)
}

fn call(data: Vec<u8>) -> Action {
    let to = Some(Address::repeat_byte(1));
    EvmCall { to, value: Amount::from(1_u64), data: data.into(), ..EvmCall::default() }.into()
}

/// The bytes that the caller gave.
pub fn data_of(action: &Action) -> &Bytes {
    let Action::Evm(call) = action;
    &call.data
}

/// The bytes of a payload; `None` for a reservation.
pub(crate) fn payload_data(payload: &Payload) -> Option<&Bytes> {
    payload.action().map(data_of)
}
