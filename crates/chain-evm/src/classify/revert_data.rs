//! The return value of a reverted call.

use alloy_primitives::{Bytes, hex};

/// The labels before the returned bytes in texts of nodes and libraries.
const LABELS: &[&str] = &["return data:", "returndata:", "\"data\":", "data:", "data=", "reverted:", "reverted"];

/// The data of the error object, or the bytes in the text.
pub(crate) fn revert_data(data: Option<&str>, text: &str) -> Option<Bytes> {
    match data.and_then(bytes) {
        Some(data) => Some(data),
        None => in_text(text),
    }
}

fn in_text(text: &str) -> Option<Bytes> {
    let plain = text.replace('\\', "").to_ascii_lowercase();
    LABELS.iter().find_map(|label| {
        let (_, rest) = plain.split_once(label)?;
        bytes(rest)
    })
}

/// The hex at the beginning of `text`, after quotes and the prefix of parity clients.
fn bytes(text: &str) -> Option<Bytes> {
    let text = text.trim_start_matches(['"', '\'', ' ']);
    let text = text.strip_prefix("Reverted").or_else(|| text.strip_prefix("reverted")).unwrap_or(text).trim_start();
    let digits = text.strip_prefix("0x")?;
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    hex::decode(digits.get(..end)?).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::bytes;

    #[test]
    fn data_is_taken_from_the_field_or_from_the_text() {
        let selector = Some(bytes!("82b42900"));
        assert_eq!(revert_data(Some("0x82b42900"), "execution reverted"), selector);
        assert_eq!(revert_data(Some("Reverted 0x82b42900"), "VM execution error."), selector);
        assert_eq!(revert_data(None, "unrecognized custom error (return data: 0x82b42900)"), selector);
        assert_eq!(revert_data(None, r#"{\"message\":\"execution reverted\",\"data\":\"0x82b42900\"}"#), selector);
        assert_eq!(revert_data(None, "execution reverted: no"), None);
        assert_eq!(revert_data(Some("0x8"), "execution reverted"), None);
    }
}
