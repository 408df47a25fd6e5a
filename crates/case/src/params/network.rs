//! The network as a whole: its settings, and the parameters that set them.

use super::grammar::{Buffers, check};
use super::kind::ValueKind;
use super::linux::Knob;
use super::row::{Row, put};
use super::spec::Substrates;
use crate::topology::Shape;
use tcpassay_units::Rate;
use tcpassay_workload::BackgroundTraffic;

type P = Row<NetworkSettings>;
/// The settings of the whole network. Their parameters take no address.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkSettings {
    /// `topology`.
    pub shape: Shape,
    /// `rack.hosts`.
    pub rack_hosts: u32,
    /// `rack.fanout`.
    pub rack_fanout: u32,
    /// `rack.uplink`; `None` means the sum of the rates of the hosts.
    pub rack_uplink: Option<Rate>,
    /// `switch.buffers`.
    pub buffers: Buffers,
    /// `app.background`.
    pub background: BackgroundTraffic,
}

impl NetworkSettings {
    /// Two hosts and a link.
    pub(crate) fn pair() -> NetworkSettings {
        NetworkSettings {
            shape: Shape::Pair,
            rack_hosts: 4,
            rack_fanout: 1,
            rack_uplink: None,
            buffers: Buffers::Port,
            background: BackgroundTraffic::None,
        }
    }
}

pub(super) const ROWS: &[P] = &[
    P::new(
        "switch.buffers",
        ValueKind::Text { form: "`port`, `shared:<bytes>` or `dual:<bytes>`", check: check::<Buffers> },
        "port",
        &["port", "shared:12MB", "dual:200KB"],
        Substrates::MK,
        "Output buffers of a switch: one per port, one shared by all ports, or two per port served round robin",
        |n, v| put(&mut n.buffers, v.parsed()),
    )
    .linux(&[Knob::Builtin(|_, n: &NetworkSettings| match n.buffers {
        Buffers::Shared(_) => Err("no queue discipline shares a buffer among devices; the model does"),
        Buffers::Port | Buffers::Dual(_) => Ok(()),
    })])
    .needs("shared and dual need a topology with a switch, and queue.kind = fifo"),
    P::new(
        "topology",
        ValueKind::Text {
            form: "`pair`, `dumbbell:<n>`, `star:<n>`, `racks:<storage>x<worker>` or `file:<toml>`",
            check: check::<Shape>,
        },
        "pair",
        &["pair", "dumbbell:2", "star:2", "racks:3x3"],
        Substrates::MKH,
        "Hosts and links: a sender and a receiver (`pair`); n senders and n receivers behind two switches, whose link is the \
         bottleneck (`dumbbell`); n senders and one receiver at a switch, whose port to the receiver is the bottleneck \
         (`star`); racks of storage hosts, which send, and of workers; or those of a file (docs/plan.md)",
        |n, v| put(&mut n.shape, v.parsed()),
    )
    .linux(&[Knob::Builtin(|_, _| Ok(()))]),
    P::new(
        "rack.hosts",
        ValueKind::Int { min: 1, max: 256 },
        "4",
        &["4", "16"],
        Substrates::MKH,
        "Hosts of each rack (topology racks)",
        |n, v| put(&mut n.rack_hosts, v.int()),
    )
    .linux(&[Knob::Builtin(|_, _| Ok(()))]),
    P::new(
        "rack.fanout",
        ValueKind::Int { min: 1, max: 256 },
        "1",
        &["1", "3"],
        Substrates::MKH,
        "Workers to which each storage host sends: sender i to receivers i, i + 1, ... modulo their number",
        |n, v| put(&mut n.rack_fanout, v.int()),
    )
    .needs("topology racks; at most all workers")
    .linux(&[Knob::Builtin(|_, _| Ok(()))]),
    P::new(
        "rack.uplink",
        ValueKind::Or(&["auto"], &ValueKind::Rate),
        "auto",
        &["auto", "40Gbit"],
        Substrates::MKH,
        "Rate between a rack's switch and the spine; auto: the sum of its hosts'",
        |n, v| n.rack_uplink = v.rate(),
    )
    .linux(&[Knob::Builtin(|_, _| Ok(()))]),
];
