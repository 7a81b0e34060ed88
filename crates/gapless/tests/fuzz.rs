//! The served OpenAPI document against the server, by a fuzzer that knows nothing else.

mod support;

use gapless_testbed::Schemathesis;
use support::{Folder, dev};

/// What every answer is held to: no 5xx, and nothing that the document does not say.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,unsupported_method";

/// proves A02
#[test]
fn a_fuzzer_finds_no_server_error_and_no_undocumented_answer() {
    let folder = Folder::new();
    // A fuzzer that waits for nothing for a minute finds nothing more by it.
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
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("Fuzzing") && !said.contains("Tested: 0"), "{said}");
}
