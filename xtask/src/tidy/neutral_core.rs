//! The core knows no chain: outside of the allowed places, no identifier of the core's crates names a thing of one kind
//! of chain, and no literal outside of tests begins with the namespace of one. Other texts are not checked: rows,
//! metrics and config keys keep their names.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use super::Finding;
use super::files::SourceFile;
use super::sizes::test_modules;

const CORE: &[&str] = &[
    "crates/domain/src",
    "crates/engine/src",
    "crates/store/src",
    "crates/store-sql/src",
    "crates/store-sqlite/src",
    "crates/store-postgres/src",
    "crates/chain/src",
    "crates/signer/src",
    "crates/sim/src",
];

/// The files and folders that may name a kind of chain, with the reason of each. An entry without such a name is a
/// finding.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/domain/src/action", "what a transaction does on each kind of chain"),
    ("crates/domain/src/action.rs", "the variants of an action"),
    ("crates/domain/src/rules", "what each kind of chain makes different"),
    ("crates/domain/src/lib.rs", "exports the types for the adapters"),
    ("crates/chain/src/reason.rs", "the reasons of the nodes of all kinds of chains"),
    ("crates/sim/src/chain", "a made-up EVM chain with its callers' actions"),
];

/// Types and variants whose names do not show the kind of chain.
const TYPES: &[&str] = &["Address", "AccessListItem", "Authorization", "Legacy"];

/// Words of one kind of chain, as a part of any identifier.
const WORDS: &[&str] = &["evm", "eth", "ethereum", "eip", "erc", "gas", "wei", "gwei", "calldata", "delegated"];

/// The namespace of the ids of EVM chains.
const NAMESPACE: &str = "eip155";

/// The files and folders for tests, by their names without extension.
const TEST_FILES: &[&str] = &["tests", "fixture", "fixtures", "conformance"];

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Finding> {
    let core = sources.iter().filter(|source| source.has_extension("rs") && is_in(&source.path, CORE));
    let mut findings = Vec::new();
    let mut used = vec![false; ALLOWED.len()];
    for source in core {
        let named = names_of(source);
        let allowed = ALLOWED.iter().position(|(path, _)| source.path.starts_with(path));
        match allowed.and_then(|place| used.get_mut(place)) {
            Some(used) => *used |= !named.is_empty(),
            None => findings.extend(named.into_iter().map(|(name, line)| {
                let text = format!("`{name}` names a kind of chain: ask `Action` or `ChainRules` instead");
                Finding::at(&source.path, line, text)
            })),
        }
    }
    let unused = ALLOWED.iter().zip(used).filter(|(_, used)| !used);
    findings.extend(unused.map(|((path, reason), _)| {
        Finding::of(*path, format!("names no kind of chain: strike it from `ALLOWED` ({reason})"))
    }));
    findings
}

fn is_in(path: &Path, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

/// The names of kinds of chains in a file, with their lines.
fn names_of(source: &SourceFile) -> Vec<(String, usize)> {
    let Ok(tokens) = source.text.parse::<TokenStream>() else { return Vec::new() };
    let mut named = Vec::new();
    collect(tokens, &mut named);
    let is_for_tests = source.path.with_extension("").iter().any(|part| TEST_FILES.iter().any(|name| part == *name));
    let tests = syn::parse_file(&source.text).map(|file| test_modules(&file)).unwrap_or_default();
    let in_tests = |line: &usize| is_for_tests || tests.iter().any(|lines| lines.contains(line));
    named.retain(|(name, line)| !(is_namespace(name) && in_tests(line)));
    named
}

fn collect(tokens: TokenStream, named: &mut Vec<(String, usize)>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect(group.stream(), named),
            TokenTree::Ident(ident) if names_chain(&ident.to_string()) => {
                named.push((ident.to_string(), ident.span().start().line));
            }
            TokenTree::Literal(literal) if is_namespace(&literal.to_string()) => {
                named.push((literal.to_string(), literal.span().start().line));
            }
            _ => {}
        }
    }
}

/// True for a literal that begins with the namespace: a part of an id, or a whole one.
fn is_namespace(literal: &str) -> bool {
    literal.contains('"') && literal.trim_start_matches(['b', 'c', 'r', '#', '"']).starts_with(NAMESPACE)
}

fn names_chain(ident: &str) -> bool {
    TYPES.contains(&ident) || words(ident).iter().any(|word| WORDS.contains(&word.as_str()) || is_proposal(word))
}

/// True for the number of an Ethereum proposal or standard, as in `Eip1559` and `Erc20`.
fn is_proposal(word: &str) -> bool {
    let number = word.strip_prefix("eip").or_else(|| word.strip_prefix("erc"));
    number.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// The words of an identifier in lower case: `EvmCall`, `EVMCall` and `evm_call` have the same two.
fn words(ident: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before: Option<char> = None;
    let mut letters = ident.chars().peekable();
    while let Some(letter) = letters.next() {
        let ends_acronym = letters.peek().is_some_and(|next| next.is_lowercase());
        let begins = letter.is_uppercase() && before.is_some_and(|before| !before.is_uppercase() || ends_acronym);
        if letter == '_' || begins {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        before = Some(letter);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.to_owned() }
    }

    /// One file that names a kind of chain in each allowed place.
    fn allowed() -> Vec<SourceFile> {
        let inside = |path: &str| if path.ends_with(".rs") { path.to_owned() } else { format!("{path}/a.rs") };
        ALLOWED.iter().map(|(path, _)| file(&inside(path), "struct EvmCall;")).collect()
    }

    #[test]
    fn name_of_a_kind_of_chain_in_the_core_is_found() {
        let mut sources = allowed();
        let text =
            "use gapless_domain::EvmCall;\nfn f() { call(gas_limit, Fees::Eip1559 { GWEI }) }\nlet a: Address;\n";
        sources.push(file("crates/engine/src/a.rs", text));
        let lines: Vec<_> = check(&sources).iter().map(Finding::to_string).collect();
        let places: Vec<_> = lines.iter().filter_map(|line| line.split(" names").next()).collect();
        let found = ["1: `EvmCall`", "2: `gas_limit`", "2: `Eip1559`", "2: `GWEI`", "3: `Address`"];
        assert_eq!(places, found.map(|place| format!("crates/engine/src/a.rs:{place}")));
    }

    #[test]
    fn words_of_an_identifier_are_split() {
        for ident in ["EvmCall", "EVMCall", "evm_call", "EVM_CALL", "evmCall"] {
            assert_eq!(
                words(ident).iter().filter(|word| !word.is_empty()).collect::<Vec<_>>(),
                ["evm", "call"],
                "{ident}"
            );
        }
        assert_eq!(words("MyEVM"), ["my", "evm"]);
        assert_eq!(words("Erc20Token"), ["erc20", "token"]);
    }

    #[test]
    fn words_of_ethereum_are_found_and_real_words_pass() {
        for ident in ["EVMCall", "parse_eth", "EthCall", "ETHEREUM", "Erc20Token", "erc_721", "EIP_1559", "eip1559Fees"]
        {
            assert!(names_chain(ident), "{ident}");
        }
        for ident in ["method", "together", "Whether", "percent", "commercial", "recipient", "OtherChain", "gather"] {
            assert!(!names_chain(ident), "{ident}");
        }
    }

    #[test]
    fn literal_with_a_namespace_is_found_outside_of_tests() {
        let text = concat!(
            "/// As in eip155:1.\nconst A: &str = \"eip155\";\nfn f() { format!(r#\"eip155:{n}\"#) }\n",
            "const B: &str = \"a chain id, as in eip155:1\";\n",
            "#[cfg(test)]\nmod tests {\n    const C: &str = \"eip155:1\";\n}\n"
        );
        let mut sources = allowed();
        sources.push(file("crates/engine/src/a.rs", text));
        let lines: Vec<_> = check(&sources).iter().map(Finding::to_string).collect();
        let places: Vec<_> = lines.iter().filter_map(|line| line.split(" names").next()).collect();
        let found = ["2: `\"eip155\"`", "3: `r#\"eip155:{n}\"#`"];
        assert_eq!(places, found.map(|place| format!("crates/engine/src/a.rs:{place}")));

        let mut sources = allowed();
        for path in ["a/tests.rs", "a/fixture.rs", "conformance/a.rs", "conformance.rs"] {
            sources.push(file(&format!("crates/store/src/{path}"), "const A: &str = \"eip155:1\";"));
        }
        assert_eq!(check(&sources), []);
    }

    #[test]
    fn texts_comments_and_other_crates_are_not_checked() {
        let mut sources = allowed();
        let text =
            "/// Gas of an `EvmCall`.\nconst KEY: &str = \"gas_used\";\nfn gather(weight: u8, address: &str) {}\n";
        sources.push(file("crates/store-sql/src/a.rs", text));
        sources.push(file("crates/chain-evm/src/a.rs", "struct EvmChain;"));
        sources.push(file("crates/engine/tests/a.rs", "use gapless_domain::EvmCall;"));
        assert_eq!(check(&sources), []);
    }

    #[test]
    fn allowed_place_without_such_a_name_is_found() {
        let mut sources = allowed();
        sources.remove(0);
        let lines: Vec<_> = check(&sources).iter().map(Finding::to_string).collect();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("crates/domain/src/action: names no kind of chain"), "{lines:?}");
    }
}
