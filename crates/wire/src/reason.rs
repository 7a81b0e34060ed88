//! Reasons that operators give for the audit log.

use crate::problem::FieldFault;

pub(crate) const REASON_BYTES: usize = 1000;

/// The reason without the white space around it, or the fault of the body's field `reason`.
pub(crate) fn read_reason(reason: &str) -> Result<String, Vec<FieldFault>> {
    let said = reason.trim();
    if said.is_empty() || said.len() > REASON_BYTES || said.contains('\0') {
        let message = format!("a reason has 1 to {REASON_BYTES} bytes, more than white space, and no NUL");
        return Err(vec![FieldFault::body("/reason", message)]);
    }
    Ok(said.to_owned())
}
