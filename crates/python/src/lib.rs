//! `tcpassay._native`: the Python interface of the data plane.
//!
//! This crate contains only conversions. Rules are implemented in the other crates or in the Python package, where
//! they can be tested. The type declarations of this module are in `python/tcpassay/_native.pyi`;
//! `tests/test_native.py` compares the two.

mod capture;
mod controllers;
mod follow;
mod interface;
mod judge;
mod linux;
mod model;
mod script;
mod stack;
mod text;
mod toml;

/// The data plane of tcpassay.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::capture::{CaptureAnalysis, capture_judged, siftr_summary};
    #[pymodule_export]
    use crate::controllers::{
        Ack, Congestion, Control, ControllerError, Established, RecoveryExit, Resume, Sent, Steps, Timeout,
        View, check_controller, contract_clauses, play_controller, try_controller,
    };
    #[pymodule_export]
    use crate::follow::{capture_profiles, follow_capture, follow_folder};
    #[pymodule_export]
    use crate::interface::{congestion_change, interface_json, state_change};
    #[pymodule_export]
    use crate::judge::{follow_lacks, judge_folder, oracles_json, reached_in_folder};
    #[pymodule_export]
    use crate::linux::linux_changes;
    #[pymodule_export]
    use crate::model::{
        CaseError, Ran, StackError, check_case, checksum, metrics_json, params_json, parquet, run_case,
        run_held,
    };
    #[pymodule_export]
    use crate::script::{run_script, run_script_on_stack};
    #[pymodule_export]
    use crate::stack::{StackHost, adapter_sources};
    #[pymodule_export]
    use crate::text::{event_text, siftr_text};
    #[pymodule_export]
    use crate::toml::{TomlError, read_toml};
    #[pymodule_export]
    use pyo3::panic::PanicException;

    /// Version of the data plane; a run is a function of case, seed and version.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
