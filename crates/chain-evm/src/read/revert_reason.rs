//! Decoding the return value of a reverted transaction.

use alloy_primitives::{Bytes, U256, hex};
use gapless_chain::Revert;
use gapless_domain::NodeText;

/// `Error(string)`, which `require(…, "text")` and `revert("text")` return.
const ERROR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
/// `Panic(uint256)`, which checks of the compiler return.
const PANIC: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];
const WORD: usize = 32;

/// The panic codes of Solidity.
const PANICS: &[(u64, &str)] = &[
    (0x00, "inserted by the compiler"),
    (0x01, "assertion failed"),
    (0x11, "arithmetic overflow or underflow"),
    (0x12, "division or modulo by zero"),
    (0x21, "invalid enum value"),
    (0x22, "malformed storage byte array"),
    (0x31, "pop of an empty array"),
    (0x32, "array index out of bounds"),
    (0x41, "too much memory allocated"),
    (0x51, "call of an uninitialized internal function"),
];

/// Texts of clients for a call that ended by `REVERT`. The return value has the reason, and the text adds nothing.
const PLAIN_REVERT: &[&str] =
    &["execution reverted", "reverted", "revert", "vm execution error", "transaction reverted"];
const OUT_OF_GAS_TEXTS: &[&str] = &["out of gas", "outofgas", "out-of-gas"];

/// The length to which the return value is cut. It is stored with the transaction, and a contract may return megabytes.
const MAX_DATA_BYTES: usize = 16 << 10;
pub(super) const OUT_OF_GAS: &str = "out of gas";

/// Decodes the return value of a reverted call. Without data there is no reason.
pub(super) fn decode_revert(data: Bytes) -> Revert {
    let reason = reason(&data).filter(|text| !text.is_empty());
    let data = match data.get(..MAX_DATA_BYTES) {
        // A copy, so that the memory of the rest is released.
        Some(kept) if data.len() > kept.len() => Bytes::copy_from_slice(kept),
        _ => data,
    };
    Revert { reason: reason.map(|text| NodeText::new(&text)), data }
}

/// A revert without a return value, from the text of a tracer or node: "out of gas", "invalid opcode: INVALID".
pub(super) fn halted_revert(text: &str) -> Revert {
    let plain = text.trim().trim_end_matches('.').to_ascii_lowercase();
    let reason = if OUT_OF_GAS_TEXTS.iter().any(|words| plain.contains(words)) {
        Some(OUT_OF_GAS)
    } else {
        Some(text.trim()).filter(|_| !plain.is_empty() && !PLAIN_REVERT.contains(&plain.as_str()))
    };
    Revert { reason: reason.map(NodeText::new), data: Bytes::new() }
}

fn reason(data: &[u8]) -> Option<String> {
    let (selector, rest) = data.split_first_chunk::<4>()?;
    let read = match *selector {
        ERROR => text(rest),
        PANIC => panic_code(rest),
        _ => None,
    };
    Some(read.unwrap_or_else(|| format!("custom error 0x{}", hex::encode(selector))))
}

/// Decodes an ABI `string`: offset, length, bytes. A string that is shorter than its length is taken as it is, because
/// nodes cut long data.
fn text(arguments: &[u8]) -> Option<String> {
    let start = number(arguments, 0)?;
    let length = number(arguments, start)?;
    let bytes = arguments.get(start.checked_add(WORD)?..)?;
    // A longer text would be cut anyway.
    let bytes = bytes.get(..length.min(NodeText::MAX_BYTES)).unwrap_or(bytes);
    Some(String::from_utf8_lossy(bytes).into_owned())
}

fn panic_code(arguments: &[u8]) -> Option<String> {
    let code = u64::try_from(word(arguments, 0)?).ok()?;
    let meaning = PANICS.iter().find(|(known, _)| *known == code).map_or("unknown code", |(_, meaning)| meaning);
    Some(format!("panic {code:#04x}: {meaning}"))
}

fn number(arguments: &[u8], at: usize) -> Option<usize> {
    word(arguments, at)?.try_into().ok()
}

fn word(arguments: &[u8], at: usize) -> Option<U256> {
    U256::try_from_be_slice(arguments.get(at..at.checked_add(WORD)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &[u8]) -> Vec<u8> {
        let length = U256::from(text.len()).to_be_bytes::<WORD>();
        let mut data = [ERROR.as_slice(), &U256::from(WORD).to_be_bytes::<WORD>(), &length, text].concat();
        data.resize(data.len().next_multiple_of(WORD) + 4, 0);
        data
    }

    fn panicked(code: u64) -> Vec<u8> {
        [PANIC.as_slice(), &U256::from(code).to_be_bytes::<WORD>()].concat()
    }

    fn of(data: &[u8]) -> Option<String> {
        decode_revert(Bytes::copy_from_slice(data)).reason.map(|reason| reason.to_string())
    }

    #[test]
    fn return_value_is_decoded_to_a_reason() {
        let long = "é".repeat(10_000);
        let mut cut = error(b"only half of this");
        cut.truncate(4 + 2 * WORD + 9);
        let mut huge_length = error(b"no");
        huge_length[4 + WORD..4 + 2 * WORD].fill(0xff);
        let mut elsewhere = error(b"no");
        elsewhere[4..4 + WORD].fill(0xff);
        for (data, reason) in [
            (vec![], None),
            (vec![1, 2, 3], None),
            (error(b"not enough"), Some("not enough")),
            (error(b""), None),
            (error(b"a\0b\xff"), Some("a b\u{fffd}")),
            (error(long.as_bytes()), long.get(..NodeText::MAX_BYTES)),
            (cut, Some("only half")),
            (huge_length, Some("custom error 0x08c379a0")),
            (elsewhere, Some("custom error 0x08c379a0")),
            (ERROR.to_vec(), Some("custom error 0x08c379a0")),
            (panicked(0x01), Some("panic 0x01: assertion failed")),
            (panicked(0x11), Some("panic 0x11: arithmetic overflow or underflow")),
            (panicked(0x12), Some("panic 0x12: division or modulo by zero")),
            (panicked(0x32), Some("panic 0x32: array index out of bounds")),
            (panicked(0x77), Some("panic 0x77: unknown code")),
            (PANIC.to_vec(), Some("custom error 0x4e487b71")),
            (vec![0x82, 0xb4, 0x29, 0x00], Some("custom error 0x82b42900")),
            (vec![0x82, 0xb4, 0x29, 0x00, 7], Some("custom error 0x82b42900")),
        ] {
            assert_eq!(of(&data).as_deref(), reason, "{}", hex::encode(&data));
        }
    }

    #[test]
    fn return_value_is_cut_at_the_limit() {
        for (given, kept) in [(0, 0), (100, 100), (MAX_DATA_BYTES, MAX_DATA_BYTES), (1 << 20, MAX_DATA_BYTES)] {
            let revert = decode_revert(vec![0xab; given].into());
            assert_eq!(revert.data, Bytes::from(vec![0xab; kept]));
        }
    }

    #[test]
    fn tracer_text_replaces_missing_data() {
        for (text, reason) in [
            ("out of gas", Some("out of gas")),
            ("Out of gas", Some("out of gas")),
            ("EVM error OutOfGas", Some("out of gas")),
            ("contract creation code storage out of gas", Some("out of gas")),
            ("invalid opcode: INVALID", Some("invalid opcode: INVALID")),
            ("stack underflow (0 <=> 1)", Some("stack underflow (0 <=> 1)")),
            ("execution reverted", None),
            ("Reverted", None),
            ("VM execution error.", None),
            ("", None),
        ] {
            let revert = halted_revert(text);
            assert_eq!(revert.reason.as_ref().map(NodeText::as_str), reason, "{text}");
            assert!(revert.data.is_empty());
        }
    }
}
