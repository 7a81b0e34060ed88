//! Every verb of a port is called by production code. A verb that only tests call is a promise that no user gets.

use syn::visit::Visit;

use super::Finding;
use super::files::SourceFile;
use super::sizes::test_modules;

/// Where the ports are, and the crates that may call them. An adapter does not count as a caller of itself.
const PORTS: &[Port] = &[
    Port { folder: "crates/store/src/roles", callers: &["crates/engine/src", "crates/api/src", "crates/gapless/src"] },
    Port { folder: "crates/chain/src/contract", callers: &["crates/engine/src", "crates/gapless/src"] },
    // The way from a plan to a signed transaction is in the crate of the port.
    Port { folder: "crates/signer/src/port", callers: &["crates/signer/src", "crates/gapless/src"] },
    Port { folder: "crates/signer/src/encoder", callers: &["crates/signer/src"] },
];

/// Verbs that wait for the part of the product that will call them. An entry whose verb has a caller is a finding.
const WAITING: &[(&str, &str)] =
    &[("read_events", "the events route"), ("claim_events", "event delivery"), ("ack_events", "event delivery")];

struct Port {
    folder: &'static str,
    callers: &'static [&'static str],
}

struct Verb {
    name: String,
    line: usize,
}

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Finding> {
    PORTS.iter().flat_map(|port| check_port(port, sources)).collect()
}

fn check_port(port: &Port, sources: &[SourceFile]) -> Vec<Finding> {
    let is_caller = |source: &&SourceFile| port.callers.iter().any(|folder| source.path.starts_with(folder));
    let production: Vec<String> = sources.iter().filter(is_caller).map(without_tests).collect();
    let is_port = |source: &&SourceFile| source.path.with_extension("").starts_with(port.folder);
    let mut findings = Vec::new();
    let mut verbs = 0;
    for source in sources.iter().filter(is_port) {
        for Verb { name, line } in verbs_of(source) {
            verbs += 1;
            let is_called = production.iter().any(|text| calls(text, &name));
            let waiting = WAITING.iter().find(|(verb, _)| *verb == name);
            let text = match (is_called, waiting) {
                (false, None) => format!("no production code calls the port verb `{name}`: wire it or delete it"),
                (true, Some(_)) => format!("the port verb `{name}` has a caller: strike it from `WAITING`"),
                _ => continue,
            };
            findings.push(Finding::at(&source.path, line, text));
        }
    }
    if verbs == 0 {
        findings.push(Finding::of(port.folder, "no port verb was found here: has the port moved?"));
    }
    findings
}

fn calls(text: &str, verb: &str) -> bool {
    let is_part = |next: char| next.is_alphanumeric() || next == '_';
    text.match_indices(verb).any(|(at, _)| {
        let before = text[..at].trim_end();
        let after = &text[at + verb.len()..];
        (before.ends_with('.') || before.ends_with("::")) && !after.starts_with(is_part)
    })
}

fn verbs_of(source: &SourceFile) -> Vec<Verb> {
    #[derive(Default)]
    struct Verbs(Vec<Verb>);
    impl<'ast> Visit<'ast> for Verbs {
        fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
            let line = function.sig.fn_token.span.start().line;
            self.0.push(Verb { name: function.sig.ident.to_string(), line });
        }
    }
    let mut verbs = Verbs::default();
    if let Ok(file) = syn::parse_file(&source.text) {
        verbs.visit_file(&file);
    }
    verbs.0
}

/// The text without comments' lines and without test modules.
fn without_tests(source: &SourceFile) -> String {
    let is_test_file = source.path.file_name().is_some_and(|name| name == "tests.rs");
    let tests = match syn::parse_file(&source.text) {
        Ok(file) if !is_test_file => test_modules(&file),
        _ => return String::new(),
    };
    let in_tests = |line: usize| tests.iter().any(|lines| lines.contains(&line));
    let kept = source
        .text
        .lines()
        .enumerate()
        .filter(|(number, line)| !in_tests(number + 1) && !line.trim_start().starts_with("//"));
    kept.map(|(_, line)| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: &str = "pub trait Role {\n    fn used(&self);\n    fn unused(&self);\n    fn read_events(&self);\n}\n";

    fn findings(caller: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.to_owned() };
        let sources = [file("crates/store/src/roles/a.rs", PORT), file("crates/engine/src/b.rs", caller)];
        check_port(&PORTS[0], &sources).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn verb_that_only_tests_and_comments_name_is_found() {
        let found = findings(
            "fn f(s: &S) { s\n.used(); }\n// s.unused()\n#[cfg(test)]\nmod t { fn g(s: &S) { s.unused(); } }\n",
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/store/src/roles/a.rs:3: no production code calls"), "{found:?}");
    }

    #[test]
    fn waiting_verb_with_a_caller_is_found() {
        let found = findings("fn f(s: &S) { s.used(); S::unused(s); s.read_events(); }\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("strike it"), "{found:?}");
    }

    #[test]
    fn port_without_verbs_is_found() {
        assert!(check_port(&PORTS[0], &[])[0].text.contains("has the port moved"));
    }
}
