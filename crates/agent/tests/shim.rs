//! Cases on the kernel of this machine with controllers of the model. The tests need root and BPF, and
//! report if they are missing.
//!
//! The tests run in real time; [`control`] describes what is asserted on which machine.
#![cfg(feature = "bpf")]

#[path = "../../bpf/tests/kernel/control.rs"]
mod control;

use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const AGENT: &str = env!("CARGO_BIN_EXE_tcpassay-agent");

fn missing() -> Option<String> {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    let bpf = Command::new(AGENT).arg("bpf").output().expect("it was built");
    let words = String::from_utf8_lossy(&bpf.stderr).into_owned();
    if root { (!bpf.status.success()).then_some(words) } else { Some("not root".to_owned()) }
}

macro_rules! needs_bpf {
    () => {
        if let Some(why) = missing() {
            control::say(&format!("skipped: {why}"));
            return;
        }
    };
}

fn agent(arguments: &[&str], input: &Value) -> Value {
    let mut child = Command::new(AGENT)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was built");
    let mut line = input.to_string();
    line.push('\n');
    child.stdin.take().expect("piped").write_all(line.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    serde_json::from_slice(&output.stdout).expect("it answers in JSON")
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// A bulk transfer of two seconds through a shaper of 50 Mbit/s.
fn request(name: &str, more: &[(&str, &str)]) -> Value {
    let mut triples = json!({
        "topology": "pair", "app.duration": "2s", "link.delay": "0s", "link.rate": "1Gbit",
        "queue.kind": "htb", "queue.rate": "50Mbit", "queue.limit": "60KB",
    });
    for (path, value) in more {
        triples[path] = json!(value);
    }
    json!({ "triples": triples, "seed": 3, "base": ".", "folder": folder(name) })
}

/// The answer of a run and the counters of its recording (`null` without one).
type Made = (Value, Value);

/// Runs the case, and asserts `always` of each run that left a recording.
fn run(request: &Value, always: impl Fn(&Value, &Value)) -> Made {
    let path = PathBuf::from(request["folder"].as_str().expect("a path"));
    let _ = std::fs::remove_dir_all(&path);
    let answer = agent(&["host"], request);
    if answer["ended"] == "path" {
        // The probes of the path did not reach the rate of the case.
        return (answer, Value::Null);
    }
    assert_eq!(answer["ended"], "duration", "{answer}");
    let text = std::fs::read(path.join("recording.json")).expect("a recording was written");
    let mut recording: Value = serde_json::from_slice(&text).expect("it is JSON");
    let counters = recording["counters"].take();
    always(&answer, &counters);
    (answer, counters)
}

#[test]
fn a_case_with_the_shim_runs_a_controller_that_linux_lacks_and_its_recording_contains_the_counters_of_the_shim()
 {
    needs_bpf!();
    let request = request("mvegas", &[("stack.cc", "mvegas"), ("stack.cc_engine", "shim")]);
    let always = |answer: &Value, counters: &Value| {
        assert_eq!(answer["metrics"]["flows"][0]["cc"], "mvegas");
        let shim = &counters["shim"];
        assert_eq!((&shim["connections"], &shim["lost"]), (&json!(2), &json!(0)), "{shim}");
        let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
        assert!(!list.contains("run0_"), "{list}");
    };
    control::passes(
        || run(&request, always),
        |(answer, counters)| {
            assert_eq!(answer["ended"], "duration", "{answer}");
            let throughput = answer["metrics"]["values"]["throughput"].as_f64().unwrap();
            assert!(throughput > 20e6, "{throughput}");
            let shim = &counters["shim"];
            let (records, followed) = (shim["records"].as_u64().unwrap(), shim["followed"].as_u64().unwrap());
            assert!(records > 500 && followed > records / 2, "{shim}");
        },
    );
}

#[test]
fn dctcp_through_the_shim_answers_marks_at_the_threshold_and_loses_nothing() {
    needs_bpf!();
    let marking = [("queue.ecn_mark", "data"), ("queue.ecn_threshold", "15KB"), ("stack.ecn", "dctcp")];
    let dctcp = [("stack.cc", "dctcp"), ("stack.cc_engine", "shim")];
    let request = request("dctcp", &[&marking[..], &dctcp[..]].concat());
    let no_event_lost = |_: &Value, counters: &Value| assert_eq!(counters["shim"]["lost"], 0, "{counters}");
    control::passes(
        || run(&request, no_event_lost),
        |(answer, counters)| {
            assert_eq!(answer["ended"], "duration", "{answer}");
            let metric = |name: &str| answer["metrics"]["values"][name].as_f64().unwrap();
            assert!(metric("marks") > 100.0, "the regime: {} marks", metric("marks"));
            assert!(metric("timeouts") < 1.0, "{answer}");
            // The receiver echoes each mark by itself, and the sender counts the echoes.
            let sender = &counters["sender"]["TcpExtTCPDeliveredCE"];
            assert!(sender.as_f64().unwrap() > 0.8 * metric("marks"), "{sender} of {}", metric("marks"));
            // The threshold of 15 kB is 2.4 ms of the rate; the queue holds 9.6 ms.
            assert!(metric("rtt_p50") < 0.004 && metric("throughput") > 20e6, "{answer}");
        },
    );
}

#[test]
fn a_controller_that_the_shim_does_not_have_is_refused_before_anything_is_built() {
    needs_bpf!();
    let request = request("bbr", &[("stack.cc", "bbr"), ("stack.cc_engine", "shim")]);
    let answer = agent(&["check", "host"], &request);
    let why = answer["errors"][0]["why"].as_str().unwrap();
    assert!(
        why.ends_with("supports the model's window-based controllers: cubic, dctcp, mvegas, reno, vegas"),
        "{why}"
    );
}

#[test]
fn an_object_file_without_content_ends_the_case_with_its_name() {
    needs_bpf!();
    let mut request = request("object", &[("stack.cc_engine", "nowhere.o")]);
    let message = |request: &Value| agent(&["host"], request)["message"].as_str().unwrap().to_owned();
    assert_eq!(message(&request), "stack.cc_engine: nowhere.o: it was not accepted");
    request["objects"] = json!({ "nowhere.o": "/nowhere" });
    let why = "stack.cc_engine: nowhere.o: No such file or directory (os error 2)";
    assert_eq!(message(&request), why);
}
