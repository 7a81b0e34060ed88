//! SQL with named parameters.

/// Replaces each `{name}` of an SQL text by the text that `text_of` gives for the name. A name that `text_of` does not
/// know, and anything else in braces, stays as it is: the database then refuses the statement when it is prepared.
pub fn fill_template(template: &str, text_of: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let text = after.split_once('}').and_then(|(name, tail)| Some((text_of(name)?, tail)));
        match text {
            Some((text, tail)) => {
                filled.push_str(&text);
                rest = tail;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_filled_in_and_other_braces_stay() {
        let text_of = |name: &str| (name == "at").then(|| "$1".to_owned());
        assert_eq!(fill_template("SET at = {at}, ended_at = {at}", text_of), "SET at = $1, ended_at = $1");
        assert_eq!(fill_template("VALUES ('{}', {at}, {nonce})", text_of), "VALUES ('{}', $1, {nonce})");
        assert_eq!(fill_template("'{' {at} '}'", text_of), "'{' $1 '}'");
        assert_eq!(fill_template("{at", text_of), "{at");
    }
}
