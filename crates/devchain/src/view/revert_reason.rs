//! The reason of a revert, in Solidity's encodings.

use alloy_primitives::U256;

const ERROR_SELECTOR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
const PANIC_SELECTOR: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];
const WORD: usize = 32;

/// The reason in `Error(string)` or `Panic(uint256)` revert data.
pub(super) fn revert_reason(data: &[u8]) -> Option<String> {
    let (selector, arguments) = data.split_at_checked(ERROR_SELECTOR.len())?;
    if selector == ERROR_SELECTOR {
        let offset = number(arguments.get(..WORD)?)?;
        let length = number(arguments.get(offset..offset.checked_add(WORD)?)?)?;
        let start = offset.checked_add(WORD)?;
        let text = arguments.get(start..start.checked_add(length)?)?;
        return String::from_utf8(text.to_vec()).ok();
    }
    if selector == PANIC_SELECTOR {
        let code = U256::from_be_slice(arguments.get(..WORD)?);
        return Some(panic_reason(code));
    }
    None
}

fn number(word: &[u8]) -> Option<usize> {
    usize::try_from(U256::from_be_slice(word)).ok()
}

fn panic_reason(code: U256) -> String {
    let text = match u64::try_from(code) {
        Ok(0x00) => "generic panic",
        Ok(0x01) => "assert(false)",
        Ok(0x11) => "arithmetic underflow or overflow",
        Ok(0x12) => "division or modulo by zero",
        Ok(0x21) => "enum overflow",
        Ok(0x22) => "invalid encoded storage byte array accessed",
        Ok(0x31) => "out-of-bounds array access; popping on an empty array",
        Ok(0x32) => "out-of-bounds access of an array or bytesN",
        Ok(0x41) => "out of memory",
        Ok(0x51) => "uninitialized function",
        _ => return format!("unknown panic code: {code:#x}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(number: u64) -> [u8; 32] {
        U256::from(number).to_be_bytes()
    }

    #[test]
    fn revert_reason_is_decoded_and_garbage_has_none() {
        let mut error = ERROR_SELECTOR.to_vec();
        error.extend(word(32));
        error.extend(word(4));
        error.extend(b"nope");
        error.extend([0; 28]);
        assert_eq!(revert_reason(&error).as_deref(), Some("nope"));
        assert_eq!(revert_reason(&error[..error.len() - 29]), None);
        let panic = [PANIC_SELECTOR.as_slice(), &word(0x11)].concat();
        assert_eq!(revert_reason(&panic).as_deref(), Some("arithmetic underflow or overflow"));
        let far = [ERROR_SELECTOR.as_slice(), &[0xff; 32]].concat();
        assert_eq!(revert_reason(&far), None);
        assert_eq!(revert_reason(&[]), None);
    }
}
