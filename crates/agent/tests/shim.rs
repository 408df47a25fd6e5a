//! Cases on this machine's kernel whose windows the model's controllers decide. Needs root and BPF, and says so otherwise.
//!
//! Time is real: how fast and how prompt a run was is asserted where its recording says that the agent was never late for long.
#![cfg(feature = "bpf")]

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
            say(&format!("skipped: {why}"));
            return;
        }
    };
}

/// A line that is seen although the test passes.
fn say(line: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    writeln!(std::io::stderr(), "{test}: {line}").expect("somebody hears");
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

const ATTEMPTS: usize = 4;
/// The queue of the case holds 9.6 ms.
const LATE: f64 = 0.004;

/// Runs the case until the machine has time for it, and asks `always` about every run. Gives the last answer with the counters of its
/// recording, or nothing, and says so, where the machine never had time.
fn when_quiet(request: &Value, always: impl Fn(&Value, &Value)) -> Option<(Value, Value)> {
    let mut late = Vec::new();
    for _ in 0..ATTEMPTS {
        let path = PathBuf::from(request["folder"].as_str().expect("a path"));
        let _ = std::fs::remove_dir_all(&path);
        let answer = agent(&["host"], request);
        if answer["ended"] == "path" {
            // A machine that is busy enough cannot send as fast as the case wants.
            late.push(answer["message"].to_string());
            continue;
        }
        assert_eq!(answer["ended"], "duration", "{answer}");
        let text = std::fs::read(path.join("recording.json")).expect("a recording was written");
        let recording: Value = serde_json::from_slice(&text).expect("it is JSON");
        always(&answer, &recording["counters"]);
        let rows = recording["environment"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["property"] == "late").expect("a row of real time");
        let seconds = row["measured"].as_f64().expect("seconds");
        if seconds <= LATE {
            return Some((answer, recording["counters"].clone()));
        }
        late.push(format!("{:.1} ms late", seconds * 1e3));
    }
    say(&format!("skipped in part: this machine had no time in {ATTEMPTS} attempts: {}", late.join("; ")));
    None
}

#[test]
fn a_case_with_the_shim_runs_a_controller_that_linux_lacks_and_its_recording_says_what_the_shim_did() {
    needs_bpf!();
    let request = request("mvegas", &[("stack.cc", "mvegas"), ("stack.cc_engine", "shim")]);
    let always = |answer: &Value, counters: &Value| {
        assert_eq!(answer["metrics"]["flows"][0]["cc"], "mvegas");
        let shim = &counters["shim"];
        assert_eq!((&shim["connections"], &shim["lost"]), (&json!(2), &json!(0)), "{shim}");
        let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
        assert!(!list.contains("run0_"), "{list}");
    };
    let Some((answer, counters)) = when_quiet(&request, always) else { return };
    let throughput = answer["metrics"]["values"]["throughput"].as_f64().unwrap();
    assert!(throughput > 20e6, "{throughput}");
    let shim = &counters["shim"];
    let (records, followed) = (shim["records"].as_u64().unwrap(), shim["followed"].as_u64().unwrap());
    assert!(records > 500 && followed > records / 2, "{shim}");
}

#[test]
fn dctcp_through_the_shim_answers_marks_at_the_threshold_and_loses_nothing() {
    needs_bpf!();
    let marking = [("queue.ecn_mark", "data"), ("queue.ecn_threshold", "15KB"), ("stack.ecn", "dctcp")];
    let dctcp = [("stack.cc", "dctcp"), ("stack.cc_engine", "shim")];
    let request = request("dctcp", &[&marking[..], &dctcp[..]].concat());
    let nothing_untold = |_: &Value, counters: &Value| assert_eq!(counters["shim"]["lost"], 0, "{counters}");
    let Some((answer, counters)) = when_quiet(&request, nothing_untold) else { return };
    let metric = |name: &str| answer["metrics"]["values"][name].as_f64().unwrap();
    assert!(metric("marks") > 100.0, "the regime: {} marks", metric("marks"));
    assert!(metric("timeouts") < 1.0, "{answer}");
    // Each mark is echoed by itself, and heard.
    let sender = &counters["sender"]["TcpExtTCPDeliveredCE"];
    assert!(sender.as_f64().unwrap() > 0.8 * metric("marks"), "{sender} heard of {}", metric("marks"));
    // 15 kB are 2.4 ms, and the queue holds 9.6 ms.
    assert!(metric("rtt_p50") < 0.004 && metric("throughput") > 20e6, "{answer}");
}

#[test]
fn a_controller_that_the_shim_has_not_is_refused_before_anything_is_built() {
    needs_bpf!();
    let request = request("bbr", &[("stack.cc", "bbr"), ("stack.cc_engine", "shim")]);
    let answer = agent(&["check", "host"], &request);
    let why = answer["errors"][0]["why"].as_str().unwrap();
    assert!(why.ends_with("has the model's controllers: cubic, dctcp, mvegas, reno, vegas"), "{why}");
}

#[test]
fn an_object_file_that_is_not_there_ends_the_case_with_its_name() {
    needs_bpf!();
    let answer = agent(&["host"], &request("object", &[("stack.cc_engine", "nowhere.o")]));
    let message = answer["message"].as_str().unwrap();
    assert_eq!(message, "stack.cc_engine: ./nowhere.o: No such file or directory (os error 2)");
}
