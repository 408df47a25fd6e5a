//! The beginning of a real stack: what it is told, the process that it may be, and what identifies it.

use std::path::PathBuf;
use tcpassay_case::params::grammar::DelayedAckValue;
use tcpassay_case::{Case, Implementation};
use tcpassay_measure::{checksum, pcapng};
use tcpassay_stack::process::{Commands, Copies, Limits, Process};
use tcpassay_stack::smoltcp::SmolStack;
use tcpassay_stack::{Description, Settings, Stack, StackError};
use tcpassay_units::{Bytes, Dur, Seed};

/// A stack that can be used.
pub(super) struct Begun {
    pub stack: Box<dyn Stack>,
    pub about: Description,
    /// Checksum of the files that the command of a process names.
    pub digest: Option<String>,
}

/// The stack of host `index` of a case; `None` if it is the model. `state`: it is asked to show the state of its connections.
pub(super) fn begin(
    case: &Case,
    index: usize,
    seed: Seed,
    commands: Option<&Commands>,
    state: bool,
) -> Result<Option<Begun>, StackError> {
    let settings = settings(case, index, seed);
    let implementation = &case.hosts[index].implementation;
    let none = Copies::new();
    let (command, copies) = match implementation {
        Implementation::Model => return Ok(None),
        Implementation::Smoltcp => {
            let (stack, about) = SmolStack::new(settings)?;
            return Ok(Some(Begun { stack: Box::new(stack), about, digest: None }));
        }
        Implementation::Built(..) => (built(implementation)?, &none),
        Implementation::Exec(command) => {
            let accepted = commands.and_then(|all| all.get(command));
            let refused = || {
                StackError::broken(format!("`{command}`: this command was not accepted (docs/strangers.md)"))
            };
            (command.clone(), accepted.ok_or_else(refused)?)
        }
    };
    let (process, about) =
        Process::begin(&command, copies, &settings, Limits { state, ..Limits::default() })?;
    Ok(Some(Begun { stack: Box::new(process), about, digest: Some(digest(&command, copies)) }))
}

/// The program of a stack that `tcpassay stack build` builds.
fn built(implementation: &Implementation) -> Result<String, StackError> {
    let missing = || {
        StackError::broken(format!(
            "{implementation} has not been built: `tcpassay stack build {implementation}`"
        ))
    };
    let program =
        cache().ok_or_else(missing)?.join("stacks").join(implementation.to_string()).join("adapter");
    if program.is_file() { Ok(program.display().to_string()) } else { Err(missing()) }
}

/// The user's cache: the folder in which `tcpassay stack build` puts its results.
fn cache() -> Option<PathBuf> {
    let given = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    given("TCPASSAY_CACHE").or_else(|| {
        let base = given("XDG_CACHE_HOME").or_else(|| Some(given("HOME")?.join(".cache")));
        Some(base?.join("tcpassay"))
    })
}

/// A checksum of the files that the command of a process names: its program and, of an interpreter, its script.
fn digest(command: &str, copies: &Copies) -> String {
    let mut all = Vec::new();
    for (place, word) in command.split_whitespace().enumerate() {
        let path = match copies.get(&place) {
            Some(copy) => Some(copy.clone()),
            None if place == 0 && !word.contains('/') => in_path(word),
            None => Some(PathBuf::from(word)),
        };
        if let Some(content) = path.and_then(|path| std::fs::read(path).ok()) {
            all.extend_from_slice(checksum(&content).as_bytes());
        }
    }
    checksum(&all)
}

/// The program that a word without a slash names.
fn in_path(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The settings of a real stack.
fn settings(case: &Case, index: usize, seed: Seed) -> Settings {
    let host = &case.hosts[index];
    let bytes =
        |size: Option<Bytes>| size.map(|size| usize::try_from(size.get()).expect("a buffer fits memory"));
    // What the case says, not what a profile of the model has.
    let setting = |path| case.host_setting(index, path).0;
    let delay = setting("stack.delayed_ack").parsed::<DelayedAckValue>();
    let name = &case.net.hosts[index].name;
    let mut random = seed.stream(&format!("stack.{name}"));
    Settings {
        address: pcapng::host_address(u32::try_from(index).expect("few hosts")),
        mtu: u16::try_from(host.mtu.get()).expect("at most 9216"),
        seed: u64::from(random.bits32()) << 32 | u64::from(random.bits32()),
        cc: host.cc.name().to_owned(),
        send_buffer: bytes(host.buffers.send),
        receive_buffer: bytes(host.buffers.receive),
        nagle: !host.stack.nodelay,
        timestamps: setting("stack.timestamps").switch(),
        ack_delay: delay.map(|value| value.0.map_or(Dur::ZERO, |delayed| delayed.timeout)),
        keepalive: setting("app.keepalive").dur(),
        user_timeout: setting("app.user_timeout").dur(),
        isn: host.isn,
    }
}
