//! Captured packets as pcapng: raw IP packets, nanosecond timestamps, one interface per capture point.
//!
//! Host `n` has the address `10.x.y.z` with `n + 1` in its last three bytes; no host has the address `10.0.0.0`.

use crate::recording::{CapturePoint, PacketRecord};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError};
use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tcpassay_units::Time;
use tcpassay_wire::Layout;
use tcpassay_wire::codec::{Content, Envelope, decode, encode_as};
use tcpassay_wire::headers::{self, Extent};

/// Snapshot length: all headers with all options, and hardly any payload.
const SNAP: u32 = 128;

/// The file name in the folder of a recording.
pub(crate) const FILE: &str = "packets.pcapng";

/// The address of host `n`, for `n` up to 2^24 - 2.
pub fn host_address(n: u32) -> Ipv4Addr {
    let [_, b, c, d] = (n + 1).to_be_bytes();
    Ipv4Addr::new(10, b, c, d)
}

/// The host with this address.
pub fn host_of(address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(v4) if v4.octets()[0] == 10 => {
            let [_, b, c, d] = v4.octets();
            u32::from_be_bytes([0, b, c, d]).checked_sub(1)
        }
        _ => None,
    }
}

/// Writes the capture. A packet whose headers cannot represent its length (a super-segment above 64 KB) is shortened
/// to the longest possible length, which its comment states.
pub(crate) fn write(
    out: &mut impl Write,
    version: &str,
    interfaces: &[CapturePoint],
    packets: &[PacketRecord],
) -> Result<(), PcapError> {
    let section = SectionHeaderBlock {
        endianness: Endianness::Little,
        options: vec![SectionHeaderOption::UserApplication(Cow::Owned(format!("tcpassay {version}")))],
        ..SectionHeaderBlock::default()
    };
    let mut writer = PcapNgWriter::with_section_header(out, section)?;
    for interface in interfaces {
        writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::RAW,
            snaplen: SNAP,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(&interface.name)),
                InterfaceDescriptionOption::IfDescription(Cow::Borrowed(&interface.description)),
                InterfaceDescriptionOption::IfTsResol(9),
            ],
        })?;
    }
    let mut bytes = Vec::new();
    for packet in packets {
        bytes.clear();
        let mut comment = packet.note.clone();
        let original_len = if let Some(len) = encode_packet(packet, &mut bytes) {
            len
        } else {
            bytes.clear();
            let shortened = shorten(packet, &mut comment);
            encode_packet(&shortened, &mut bytes)
                .ok_or(PcapError::InvalidField("the options of a packet do not fit in a header"))?
        };
        writer.write_pcapng_block(EnhancedPacketBlock {
            interface_id: packet.interface,
            timestamp: Duration::from_nanos(packet.at.as_nanos()),
            original_len,
            data: Cow::Borrowed(&bytes),
            options: comment.map(EnhancedPacketOption::Comment).into_iter().collect(),
        })?;
    }
    Ok(())
}

fn encode_packet(packet: &PacketRecord, bytes: &mut Vec<u8>) -> Option<u32> {
    let address = |host, port| SocketAddr::new(IpAddr::V4(host_address(host)), port);
    let envelope = Envelope {
        from: address(packet.from, packet.from_port),
        to: address(packet.to, packet.to_port),
        ecn: packet.ecn,
        id: packet.id,
        ttl: 64,
    };
    let content = match &packet.segment {
        Some(segment) => Content::Tcp(*segment),
        None => Content::Udp { len: packet.datagram_len },
    };
    encode_as(&envelope, &content, packet.layout, SNAP as usize, bytes).ok()
}

fn shorten(packet: &PacketRecord, comment: &mut Option<Cow<'static, str>>) -> PacketRecord {
    let mut shortened = packet.clone();
    let longest = 65_535 - 60 - 20;
    if let Some(segment) = &mut shortened.segment {
        let note =
            format!("payload of {} bytes, more than the length field of a packet can represent", segment.len);
        segment.len = segment.len.min(longest);
        *comment = Some(Cow::Owned(match comment {
            Some(before) => format!("{before}; {note}"),
            None => note,
        }));
    }
    shortened
}

/// Reads a capture that [`write`] wrote. A packet of another protocol is an error.
pub(crate) fn read(input: impl Read) -> Result<(Vec<CapturePoint>, Vec<PacketRecord>), String> {
    let mut reader = PcapNgReader::new(input).map_err(|e| e.to_string())?;
    let (mut interfaces, mut packets) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        let at = packets.len() + 1;
        match block.map_err(|e| format!("after {} packets: {e}", at - 1))? {
            Block::InterfaceDescription(block) => {
                let mut interface = CapturePoint::default();
                let mut resolution = 6;
                for option in block.options {
                    match option {
                        InterfaceDescriptionOption::IfName(name) => interface.name = name.into_owned(),
                        InterfaceDescriptionOption::IfDescription(text) => {
                            interface.description = text.into_owned();
                        }
                        InterfaceDescriptionOption::IfTsResol(n) => resolution = n,
                        _ => {}
                    }
                }
                if resolution != 9 {
                    return Err(format!(
                        "interface {} does not have timestamps in nanoseconds",
                        interfaces.len()
                    ));
                }
                interfaces.push(interface);
            }
            Block::EnhancedPacket(block) => {
                packets.push(read_packet(&block).map_err(|e| format!("packet {at}: {e}"))?);
            }
            _ => {}
        }
    }
    Ok((interfaces, packets))
}

fn read_packet(block: &EnhancedPacketBlock<'_>) -> Result<PacketRecord, String> {
    let packet = decode(&block.data).map_err(|e| e.to_string())?;
    let layouts = headers::read(&block.data, Extent::of(block.original_len)).map(|found| found.layouts);
    let layout = if layouts == Ok([false, true]) { Layout::FreeBsd } else { Layout::Linux };
    let host = |a: SocketAddr| {
        host_of(a.ip()).ok_or_else(|| format!("{} is not the address of a host of a run", a.ip()))
    };
    let note = block.options.iter().find_map(|option| match option {
        EnhancedPacketOption::Comment(text) => Some(Cow::Owned(text.clone().into_owned())),
        _ => None,
    });
    let (segment, datagram_len) = match packet.content {
        Content::Tcp(segment) => (Some(segment), 0),
        Content::Udp { len } => (None, len),
    };
    Ok(PacketRecord {
        at: Time::from_nanos(u64::try_from(block.timestamp.as_nanos()).map_err(|e| e.to_string())?),
        interface: block.interface_id,
        from: host(packet.envelope.from)?,
        to: host(packet.envelope.to)?,
        from_port: packet.envelope.from.port(),
        to_port: packet.envelope.to.port(),
        ecn: packet.envelope.ecn,
        id: packet.envelope.id,
        layout,
        note,
        segment,
        datagram_len,
    })
}
