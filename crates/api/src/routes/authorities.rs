//! The check for authorizations (EIP-7702) of submitters. An authorization uses a nonce of the account that signed it,
//! without a transaction. Only the lane gives out a submitter's nonces, so an authorization signed with a submitter's
//! key is refused for any chain: once it is public, anyone can send it there.

use gapless_domain::Action;
use gapless_wire::FieldFault;

use crate::problem::Refusal;
use crate::shared::Shared;

/// Refuses an action with an authorization of a submitter. `pointer` gives the place of the n-th authorization.
pub(super) async fn refuse_submitters(
    shared: &Shared,
    action: &Action,
    pointer: impl Fn(usize) -> String,
) -> Result<(), Refusal> {
    let Action::Evm(call) = action;
    if call.authorizations.is_empty() {
        return Ok(());
    }
    let listing = shared.directory.listing().await.map_err(|error| shared.store_failed(&error))?;
    let of_submitters = call.authorizations.iter().enumerate().filter(|(_, authorization)| {
        shared.app.chains.authority(authorization).is_some_and(|authority| listing.manages(authority))
    });
    let fault = |(index, _)| {
        let message = "this authorization is signed with the key of a submitter, and would use one of its nonces";
        FieldFault::body(pointer(index), message)
    };
    let faults: Vec<FieldFault> = of_submitters.map(fault).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.into()) }
}
