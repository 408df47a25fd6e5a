//! Offloads of the devices of a host: segmentation (TSO), receive merging (GRO).

use crate::netns::topology::{NETNS_FOLDER, NetnsTopology, VethDevice};
use crate::system::{Failure, write_and_check};
use std::fs;
use std::os::fd::AsFd;
use tcpassay_case::Case;
use tcpassay_linux::sys;

/// Sets the offloads of a device: segmentation where a NIC does it, receive merging as the case says.
pub fn apply(case: &Case, topology: &NetnsTopology, dev: &VethDevice) -> Result<(), Failure> {
    // ETHTOOL_STSO, GTSO, SGRO, GGRO (linux/ethtool.h).
    const TSO: (u32, u32) = (0x1f, 0x1e);
    const GRO: (u32, u32) = (0x2c, 0x2b);
    let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(|e| format!("a socket: {e}"))?;
    let switch = |name: &str, (set, get): (u32, u32), on: bool| match sys::offload(
        socket.as_fd(),
        &dev.name,
        set,
        get,
        on,
    ) {
        Ok(is) if is == on => Ok(()),
        Ok(_) => Err(format!("{name} of {} did not take effect", dev.name)),
        Err(e) => Err(format!("{name} of {}: {e}", dev.name)),
    };
    switch("segmentation", TSO, !dev.segments)?;
    let Some(host) = topology.namespaces[dev.netns].host else { return Ok(()) };
    let nic = &case.hosts[host].nic;
    switch("receive merging", GRO, nic.gro)?;
    if nic.gro && !nic.gro_timeout.is_zero() {
        let sys_of = format!("{NETNS_FOLDER}/.sys-{}", dev.netns);
        fs::create_dir_all(&sys_of).map_err(|e| format!("{sys_of}: {e}"))?;
        sys::mount("sysfs", &sys_of, "sysfs", 0).map_err(|e| format!("{sys_of}: {e}"))?;
        let path = format!("{sys_of}/class/net/{}/gro_flush_timeout", dev.name);
        write_and_check(&path, &nic.gro_timeout.as_nanos().to_string())?;
    }
    Ok(())
}
