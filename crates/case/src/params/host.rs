//! The settings of a host: its stack, its controller, its sockets, its NIC.

use super::cc_name::CcName;
use super::implementation::Implementation;
use super::nic::NicSettings;
use super::python_controller::PythonController;
use std::collections::BTreeMap;
use tcpassay_tcp::{Config, MemoryRules, PacketPages, Profile, RecvBuffer, RecvMemory, Skbs, TimerTicks};
use tcpassay_units::{Bytes, Dur, Stream};

/// The size of IPv4 and TCP headers without options.
pub(crate) const HEADERS: u64 = 40;

/// The settings of a host.
#[derive(Clone, PartialEq, Debug)]
pub struct HostSettings {
    /// `stack.implementation`. If it is not the model, it has its own settings; `stack` is what the model would have.
    pub implementation: Implementation,
    /// The settings of the TCP, with the socket options of `app.*` and the segmentation offload of the NIC.
    pub stack: Config,
    /// The profile whose settings are the defaults of `stack`.
    pub profile: Profile,
    /// `stack.cc`.
    pub cc: CcName,
    /// The class in Python that `stack.cc` names.
    pub python: Option<PythonController>,
    /// The parameters `stack.cc.<name>` of the controller.
    pub cc_values: BTreeMap<String, f64>,
    /// `stack.cc_engine`.
    pub engine: CcEngine,
    /// `stack.mtu`.
    pub mtu: Bytes,
    /// `stack.small_queues`.
    pub small_queues: SmallQueues,
    /// `stack.fastopen`.
    pub fastopen: bool,
    /// `stack.isn`: the initial sequence number of the first connection; `None` is random.
    pub isn: Option<u32>,
    /// The requested sizes of the socket buffers.
    pub buffers: SocketBuffers,
    /// `app.blocking`.
    pub blocking: bool,
    /// `app.linger`.
    pub linger: Option<Dur>,
    /// `nic.*`.
    pub nic: NicSettings,
}

/// `stack.cc_engine`: the code that computes the congestion windows of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CcEngine {
    /// The controller of Linux.
    Kernel,
    /// The controller of the model, through BPF.
    Shim,
    /// The controller in this BPF object file.
    Object(String),
}

/// `stack.small_queues`: the limit of the data of a connection in the queues of its own host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmallQueues {
    /// As the stack's profile has it; when a case is read, `Line` or `Off` replaces it.
    Profile,
    /// No limit.
    Off,
    /// Linux's limit of the memory of what waits for the line of the host.
    Line,
    /// The bytes of a millisecond at the connection's rate, at least two super-segments (Linux's `tcp_small_queue_check`).
    Auto,
    /// This many bytes.
    Bytes(Bytes),
}

/// The requested sizes of the socket buffers. `None` keeps the value of the profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SocketBuffers {
    /// `app.sndbuf`.
    pub send: Option<Bytes>,
    /// `app.rcvbuf`.
    pub receive: Option<Bytes>,
    /// `stack.max_sndbuf`.
    pub max_send: Option<Bytes>,
    /// `stack.max_rwnd`.
    pub max_window: Option<Bytes>,
    /// `stack.rcv_autotune`.
    pub autotune: Option<bool>,
}

impl HostSettings {
    /// The settings of a profile, before any other parameter changes them.
    pub(crate) fn of_profile(profile: Profile) -> HostSettings {
        HostSettings {
            implementation: Implementation::Model,
            stack: Config::profile(profile),
            profile,
            cc: CcName::RENO,
            python: None,
            cc_values: BTreeMap::new(),
            engine: CcEngine::Kernel,
            mtu: Bytes::new(1500),
            small_queues: SmallQueues::Profile,
            fastopen: false,
            isn: None,
            buffers: SocketBuffers::default(),
            blocking: false,
            linger: None,
            nic: NicSettings::plain(),
        }
    }

    /// Computes the settings that depend on several parameters, after all parameters were set.
    pub(crate) fn finish(&mut self) {
        self.stack.tso = self.nic.tso.then_some(self.nic.gso_max);
        if self.profile.is_recent_linux() {
            self.linux_buffers();
        } else {
            self.plain_buffers();
        }
    }

    /// The host has a kernel of which `own` is the profile. `linux`, the profile of every kernel, has the largest receive buffer of this one.
    pub(crate) fn adopt(&mut self, own: Profile) {
        let most = own.largest_receive_buffer();
        if self.profile != Profile::Linux || most == self.profile.largest_receive_buffer() {
            return;
        }
        self.profile = own;
        if self.buffers.max_window.is_none() {
            if let RecvBuffer::Auto { max, .. } = &mut self.stack.recv_buffer {
                *max = most;
            }
            if let Some(memory) = &mut self.stack.recv_memory {
                memory.max = most;
            }
        }
    }

    /// The parameters of the controller `cc` at this host. The values of `stack.cc.<name>` apply only if
    /// `cc` is the controller of the host.
    pub fn cc_params(&self, cc: &str, rng: Stream) -> tcpassay_cc::Params {
        let values = if cc == self.cc.name() { self.cc_values.clone() } else { BTreeMap::new() };
        self.stack.controller_params(values, rng)
    }

    /// Sets the buffers as in Linux 6.1, and what 7.3 does otherwise. In 6.1 a buffer includes the overhead of each packet, and a window is
    /// half of its buffer.
    fn linux_buffers(&mut self) {
        /// The default of `tcp_rmem`.
        const RMEM: u64 = 131_072;
        /// `net.core.rmem_max`, which also bounds the window scale (`tcp_select_initial_window`).
        const RMEM_MAX: u64 = 212_992;
        /// The default of `tcp_wmem`.
        const WMEM: u64 = 16_384;
        let (c, asked) = (&mut self.stack, self.buffers);
        c.send_buffer = asked.send;
        c.max_send_buffer = asked.max_send.unwrap_or(c.max_send_buffer);
        let initial = Bytes::new(WMEM).min(c.max_send_buffer);
        c.timer_ticks = TimerTicks::Linux;
        c.skbs = Some(Skbs { overhead: Skbs::EMPTY, headers: Bytes::new(192), initial });
        let max =
            asked.max_window.map_or(self.profile.largest_receive_buffer().get(), |window| 2 * window.get());
        let fixed = asked.receive.map(Bytes::get);
        let size = fixed.unwrap_or(RMEM.min(max));
        c.recv_buffer = match fixed {
            Some(size) => RecvBuffer::Fixed(Bytes::new(size / 2)),
            None => RecvBuffer::Auto { initial: Bytes::new(size / 2), max: Bytes::new(max.max(RMEM_MAX)) },
        };
        c.recv_memory = Some(RecvMemory {
            size: Bytes::new(size),
            max: Bytes::new(max),
            locked: fixed.is_some() || asked.autotune == Some(false),
            shrink: false,
            passive: false,
            ip: Bytes::new(20),
            gso: None,
            rules: MemoryRules::Half,
            buffer: Some(Skbs::EMPTY),
            pages: PacketPages::Sender,
        });
        if self.profile == Profile::Linux73 {
            c.buffers_as_linux_7_3();
        }
        if let (Some(memory), Some(buffer)) = (&mut c.recv_memory, self.nic.rx_buffer) {
            memory.buffer = Some(buffer);
        }
        if self.profile == Profile::Linux73 {
            c.delay_acks_below_rto();
        }
    }

    /// Sets the buffers without overhead of packets. `app.*` takes precedence over `stack.*`, and `stack.*`
    /// over the profile.
    fn plain_buffers(&mut self) {
        let (c, asked) = (&mut self.stack, self.buffers);
        c.send_buffer = asked.send;
        c.max_send_buffer = asked.max_send.unwrap_or(c.max_send_buffer);
        let (initial, max) = match c.recv_buffer {
            RecvBuffer::Fixed(size) => (size, size),
            RecvBuffer::Auto { initial, max } => (initial, max),
        };
        let max = asked.max_window.unwrap_or(max);
        let tunes = asked.autotune.unwrap_or(matches!(c.recv_buffer, RecvBuffer::Auto { .. }));
        c.recv_buffer = match asked.receive {
            Some(size) => RecvBuffer::Fixed(size),
            // Autotuning has no effect on a buffer that starts at its maximum, so it starts at the 64 KiB of
            // Linux.
            None if tunes => RecvBuffer::Auto { initial: initial.min(max).min(Bytes::new(65_536)), max },
            None => RecvBuffer::Fixed(max),
        };
    }
}
