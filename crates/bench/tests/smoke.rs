//! The bench, cut to seconds: every measure runs once, and nothing is lost, doubled or out of order. Speed is not
//! checked: the machine is busy with other tests, and the binary is not optimised.

use std::{path::Path, process::Command};

use serde_json::Value;

#[test]
fn every_measure_runs_and_nothing_is_lost_doubled_or_reordered() {
    let bench = Path::new(env!("CARGO_BIN_EXE_portolan-bench"));
    // Another package's binary, built into the same folder.
    let program = bench.with_file_name("portolan");
    assert!(program.exists(), "`{}` is missing; run `cargo build -p portolan` first", program.display());
    let output =
        Command::new(bench).args(["run", "--smoke", "--json", "--program"]).arg(&program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["faults"], serde_json::json!([]));
    let figures = report["rows"].as_array().unwrap();
    let is_measured = |row: &Value| row["portolan"].as_f64().is_some_and(f64::is_finite);
    assert!(figures.len() >= 15 && figures.iter().all(is_measured), "{report:#}");
}
