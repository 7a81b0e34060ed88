//! A fuzzer compares the server with the OpenAPI document that it serves.

mod support;

use gapless_testbed::Schemathesis;
use support::{TempFolder, dev};

/// The checks of every answer: no 5xx, and only answers that the document describes.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,\
                      response_schema_conformance,unsupported_method";

/// proves A02
#[test]
fn fuzzer_finds_no_server_error_and_no_undocumented_answer() {
    let folder = TempFolder::new();
    // Short waits, so that the fuzzer does not spend its time waiting.
    let dev = dev(&folder, &[("GAPLESS__LIMITS__WAIT_MAX", "50ms")]);
    let output = Schemathesis::fetch()
        .unwrap()
        .command()
        .current_dir(folder.path())
        .args(["run", &format!("{}/openapi.json", dev.text("api"))])
        .args(["--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "40", "--seed", "1"])
        .args(["--checks", CHECKS, "--no-color"])
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
    assert!(report.contains("Fuzzing") && !report.contains("Tested: 0"), "{report}");
}
