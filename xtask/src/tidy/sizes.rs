//! Files have at most 600 lines outside of test modules, functions at most 100. More is a sign of a missing module.

use std::ops::RangeInclusive;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Finding;
use super::files::SourceFile;

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 100;

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Finding> {
    sources.iter().filter(|source| source.has_extension("rs")).flat_map(check_file).collect()
}

fn check_file(source: &SourceFile) -> Vec<Finding> {
    let file = match syn::parse_file(&source.text) {
        Ok(file) => file,
        Err(error) => {
            return vec![Finding::at(&source.path, error.span().start().line, format!("does not parse: {error}"))];
        }
    };
    let mut measured = Measured::default();
    measured.visit_file(&file);

    let lines = source.text.lines().count() - measured.test_lines;
    let mut findings = Vec::new();
    if lines > FILE_LINES {
        let text = format!("{lines} lines outside of test modules; at most {FILE_LINES} a file");
        findings.push(Finding::at(&source.path, 1, text));
    }
    findings.extend(measured.long_functions.into_iter().map(|function| {
        let Function { name, line, lines } = function;
        let text = format!("function `{name}` has {lines} lines; at most {FUNCTION_LINES}");
        Finding::at(&source.path, line, text)
    }));
    findings
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

#[derive(Default)]
struct Measured {
    test_lines: usize,
    in_test_module: bool,
    long_functions: Vec<Function>,
}

impl Measured {
    /// Counts from the line of the signature to the closing brace, without attributes and documentation.
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let line = signature.fn_token.span.start().line;
        let lines = block.brace_token.span.close().end().line + 1 - line;
        if lines > FUNCTION_LINES {
            self.long_functions.push(Function { name: signature.ident.to_string(), line, lines });
        }
    }
}

impl<'ast> Visit<'ast> for Measured {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let was_in_test_module = self.in_test_module;
        if module.attrs.iter().any(is_for_tests) && !was_in_test_module {
            self.test_lines += lines_of(module.span());
            self.in_test_module = true;
        }
        visit::visit_item_mod(self, module);
        self.in_test_module = was_in_test_module;
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

fn lines_of(span: Span) -> usize {
    span.end().line + 1 - span.start().line
}

/// The lines of the test modules of a file.
pub(super) fn test_modules(file: &syn::File) -> Vec<RangeInclusive<usize>> {
    #[derive(Default)]
    struct TestModules(Vec<RangeInclusive<usize>>);
    impl<'ast> Visit<'ast> for TestModules {
        fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
            if module.attrs.iter().any(is_for_tests) {
                self.0.push(module.span().start().line..=module.span().end().line);
            }
            visit::visit_item_mod(self, module);
        }
    }
    let mut modules = TestModules::default();
    modules.visit_file(file);
    modules.0
}

/// True for `#[cfg(test)]` alone. A module that a feature also compiles is no test module.
fn is_for_tests(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: String) -> Vec<String> {
        check(&[SourceFile { path: "a.rs".into(), text }]).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn file_of_601_lines_is_found_and_600_pass() {
        assert!(findings("// x\n".repeat(600)).is_empty());
        assert_eq!(findings("// x\n".repeat(601)), ["a.rs:1: 601 lines outside of test modules; at most 600 a file"]);
    }

    #[test]
    fn lines_of_test_modules_do_not_count() {
        let with =
            |attribute: &str| format!("{}{attribute}\nmod m {{\n{}}}\n", "// x\n".repeat(500), "// y\n".repeat(400));
        assert!(findings(with("#[cfg(test)]")).is_empty());
        assert_eq!(findings(with("#[cfg(any(test, feature = \"conformance\"))]")).len(), 1);
    }

    #[test]
    fn long_function_is_found_in_every_kind_of_item() {
        let body = "    let _ = 1;\n".repeat(99);
        let fine = format!("fn f() {{\n{}}}\n", "    let _ = 1;\n".repeat(98));
        assert!(findings(fine).is_empty());
        for (before, after) in
            [("", ""), ("impl S {\n", "}\n"), ("trait T {\n", "}\n"), ("#[cfg(test)]\nmod m {\n", "}\n")]
        {
            let found = findings(format!("{before}fn f() {{\n{body}}}\n{after}"));
            assert_eq!(found.len(), 1, "{before}");
            assert!(found[0].contains("function `f` has 101 lines"), "{found:?}");
        }
    }

    #[test]
    fn file_that_does_not_parse_is_found() {
        assert!(findings("fn f( {".to_owned())[0].contains("does not parse"));
    }
}
