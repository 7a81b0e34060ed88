//! The dependencies between the crates of the workspace point one way.
//!
//! The table is the rule. Every crate must be in it, so that a new crate begins with a decision about its place.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Finding;
use crate::process::cargo;

/// The workspace crates that one package may depend on.
struct Rule {
    package: &'static str,
    normal: &'static [&'static str],
    /// Further crates for its tests. Every crate's tests may use the testbed.
    dev: &'static [&'static str],
}

const SHARED_DEV: &str = "gapless-testbed";

const RULES: &[Rule] = &[
    Rule { package: "gapless-domain", normal: &[], dev: &[] },
    // The crate depends on itself with the conformance suite, so that `cargo test` runs the suite on the model.
    Rule { package: "gapless-store", normal: &["gapless-domain"], dev: &["gapless-store"] },
    Rule { package: "gapless-store-sql", normal: &["gapless-domain", "gapless-store"], dev: &[] },
    Rule {
        package: "gapless-store-postgres",
        normal: &["gapless-domain", "gapless-store", "gapless-store-sql"],
        dev: &[],
    },
    Rule {
        package: "gapless-store-sqlite",
        normal: &["gapless-domain", "gapless-store", "gapless-store-sql"],
        dev: &[],
    },
    Rule { package: "gapless-chain", normal: &["gapless-domain"], dev: &[] },
    Rule { package: "gapless-secret", normal: &[], dev: &[] },
    // The crate depends on itself with the conformance suite, so that `cargo test` runs the suite.
    Rule { package: "gapless-signer", normal: &["gapless-domain"], dev: &["gapless-signer"] },
    Rule {
        package: "gapless-chain-evm",
        normal: &["gapless-domain", "gapless-chain", "gapless-secret", "gapless-signer"],
        dev: &["gapless-devchain"],
    },
    Rule {
        package: "gapless-engine",
        normal: &["gapless-domain", "gapless-store", "gapless-chain", "gapless-signer"],
        // The simulator depends on the engine; the engine's integration tests run on its chain.
        dev: &[
            "gapless-store-postgres",
            "gapless-store-sqlite",
            "gapless-chain-evm",
            "gapless-devchain",
            "gapless-sim",
        ],
    },
    Rule { package: "gapless-wire", normal: &["gapless-domain"], dev: &[] },
    Rule {
        package: "gapless-api",
        normal: &["gapless-domain", "gapless-store", "gapless-chain", "gapless-engine", "gapless-wire"],
        dev: &["gapless-store-sqlite", "gapless-chain-evm", "gapless-devchain"],
    },
    Rule { package: "gapless-devchain", normal: &["gapless-domain"], dev: &[] },
    Rule {
        package: "gapless-sim",
        normal: &[
            "gapless-domain",
            "gapless-store",
            "gapless-chain",
            "gapless-engine",
            "gapless-devchain",
            "gapless-signer",
            "gapless-store-sqlite",
        ],
        // A test compares the verdicts of the simulated chain with those of the classifier.
        dev: &["gapless-chain-evm"],
    },
    Rule {
        package: "gapless-bench-cluster",
        normal: &["gapless-domain", "gapless-store-sql", "gapless-chain-evm"],
        dev: &[],
    },
    Rule {
        package: "gapless",
        normal: &[
            "gapless-domain",
            "gapless-store",
            "gapless-store-postgres",
            "gapless-store-sqlite",
            "gapless-chain",
            "gapless-chain-evm",
            "gapless-engine",
            "gapless-wire",
            "gapless-api",
            "gapless-secret",
            "gapless-signer",
            "gapless-devchain",
            "gapless-sim",
            "gapless-bench-cluster",
        ],
        dev: &[],
    },
    Rule { package: "gapless-testbed", normal: &[], dev: &[] },
    Rule {
        package: "gapless-bench-micro",
        normal: &[
            "gapless-domain",
            "gapless-chain",
            "gapless-chain-evm",
            "gapless-signer",
            "gapless-devchain",
            "gapless-store",
            "gapless-store-postgres",
            "gapless-store-sqlite",
            "gapless-engine",
            "gapless-bench-cluster",
            "gapless-testbed",
        ],
        dev: &[],
    },
    Rule { package: "xtask", normal: &["gapless-testbed"], dev: &[] },
];

pub(crate) fn check_workspace() -> Result<Vec<Finding>> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata ended with {}", output.status);
    let metadata = serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")?;
    check(&metadata)
}

fn check(metadata: &Value) -> Result<Vec<Finding>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let members: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package without a name")?;
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or("Cargo.toml"));
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest);
        let Some(rule) = RULES.iter().find(|rule| rule.package == name) else {
            let text = format!("crate `{name}` is not in the table of arrows (xtask/src/tidy/arrows.rs)");
            findings.push(Finding::of(manifest, text));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = dependency["name"].as_str().unwrap_or_default();
            let is_dev = dependency["kind"] == "dev";
            if members.contains(target) && !allows(rule, target, is_dev) {
                findings.push(Finding::of(manifest, violation(rule, target, is_dev)));
            }
        }
    }
    Ok(findings)
}

/// Build dependencies count as normal ones, because they shape the shipped binary.
fn allows(rule: &Rule, target: &str, is_dev: bool) -> bool {
    rule.normal.contains(&target) || (is_dev && (target == SHARED_DEV || rule.dev.contains(&target)))
}

fn violation(rule: &Rule, target: &str, is_dev: bool) -> String {
    let (kind, extra) = if is_dev { ("dev-depend", rule.dev) } else { ("depend", &[][..]) };
    let allowed: Vec<&str> = rule.normal.iter().chain(extra).copied().collect();
    let allowed = if allowed.is_empty() { "nothing of the workspace".to_owned() } else { allowed.join(", ") };
    format!(
        "arrow: `{}` may not {kind} on `{target}`; it may {kind} on: {allowed} (xtask/src/tidy/arrows.rs)",
        rule.package
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn findings(packages: Value) -> Vec<String> {
        let metadata = json!({ "workspace_root": "/w", "packages": packages });
        check(&metadata).unwrap().iter().map(Finding::to_string).collect()
    }

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let list: Vec<_> = dependencies.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
        json!({ "name": name, "manifest_path": format!("/w/{name}/Cargo.toml"), "dependencies": list })
    }

    #[test]
    fn allowed_arrows_pass() {
        let packages = json!([
            package("gapless-domain", &[("uuid", None), ("gapless-testbed", Some("dev"))]),
            package("gapless-store-sqlite", &[]),
            package("gapless-testbed", &[]),
            package("gapless-engine", &[("gapless-domain", None), ("gapless-store-sqlite", Some("dev"))]),
        ]);
        assert_eq!(findings(packages), Vec::<String>::new());
    }

    #[test]
    fn arrow_back_is_found_with_its_rule() {
        let packages = json!([package("gapless-domain", &[("gapless-store", None)]), package("gapless-store", &[])]);
        let found = findings(packages);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("gapless-domain/Cargo.toml: arrow: `gapless-domain` may not depend on"));
    }

    #[test]
    fn test_dependency_as_normal_dependency_is_found() {
        for kind in [None, Some("build")] {
            let packages = json!([
                package("gapless-engine", &[("gapless-store-postgres", kind), ("gapless-testbed", kind)]),
                package("gapless-store-postgres", &[]),
                package("gapless-testbed", &[]),
            ]);
            assert_eq!(findings(packages).len(), 2);
        }
    }

    #[test]
    fn crate_without_rule_is_found() {
        assert!(findings(json!([package("gapless-utils", &[])]))[0].contains("is not in the table"));
    }
}
