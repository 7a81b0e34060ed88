//! Texts of nodes as words, so that case, punctuation and wrapping do not affect patterns.

/// The length to which texts are cut. A gateway may answer with a page of any size.
const MAX_BYTES: usize = 16 * 1024;

/// The words of a text, in lower case. A word is a run of letters and digits. An apostrophe inside a word is dropped
/// ("can't" is `cant`). Other characters are separators. Patterns match whole words, so "unknown transaction" does not
/// contain "known transaction" (C03).
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut chars = cut(text).chars().peekable();
    while let Some(c) = chars.next() {
        let inside = !word.is_empty() && chars.peek().is_some_and(|next| next.is_alphanumeric());
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        } else if matches!(c, '\'' | '’') && inside {
            continue;
        } else {
            if c == '\\' && chars.peek().is_some_and(|next| matches!(next, 'n' | 'r' | 't')) {
                // An escaped line break in nested JSON is no letter.
                chars.next();
            }
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The messages inside a wrapping text: `{"error":{"message":"nonce too low"}}` with any escaping, `message: "…"` of
/// Rust, `'message': '…'` of Python, `with msg "…"`. The outer ones come first.
pub(crate) fn inner_messages(text: &str) -> Vec<String> {
    let plain: String = cut(text).replace('\\', "");
    let lower = plain.to_ascii_lowercase();
    let mut found = Vec::new();
    for key in ["message", "msg"] {
        for (at, _) in lower.match_indices(key) {
            let rest = plain.get(at + key.len()..).unwrap_or_default();
            let value = rest.trim_start_matches(['"', '\'']).trim_start_matches([':', '=', ' ']);
            let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else { continue };
            if let Some((message, _)) = value.get(1..).unwrap_or_default().split_once(quote)
                && !message.is_empty()
            {
                found.push(message.to_owned());
            }
        }
    }
    found
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_case_and_escapes_are_ignored() {
        assert_eq!(words(r#"{\"message\":\"Nonce-Too LOW\n(can't)\"}"#), ["message", "nonce", "too", "low", "cant"]);
        assert_eq!(words("'nonce too low'"), ["nonce", "too", "low"]);
    }

    #[test]
    fn messages_are_found_inside_wrappers() {
        for text in [
            r#"{"error":{"code":-32000,"message":"nonce too low"}}"#,
            r#"body="{\"error\":{\"message\":\"nonce too low\"}}""#,
            r#"Error { code: ServerError(-32000), message: "nonce too low", data: None }"#,
            r#"RPCError: got code -32000 with msg "nonce too low"."#,
            "{'code': -32000, 'message': 'nonce too low'}",
        ] {
            assert_eq!(inner_messages(text), ["nonce too low"], "{text}");
        }
    }

    #[test]
    fn long_text_is_cut_at_a_character_boundary() {
        assert!(words(&"é".repeat(MAX_BYTES)).concat().len() <= MAX_BYTES);
    }
}
