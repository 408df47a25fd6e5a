//! Offloads of the devices of a host: segmentation (TSO), receive merging (GRO).

use crate::netns::topology::{NETNS_FOLDER, NetnsTopology, VethDevice};
use crate::system::{Failure, write_and_check};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use tcpassay_case::params::linux::{Offload, TSO};
use tcpassay_case::{Case, Change};
use tcpassay_linux::sys;

/// Sets the offloads of a device: segmentation where a NIC does it, and what the parameters of the NIC of the host change.
pub fn apply(case: &Case, topology: &NetnsTopology, dev: &VethDevice) -> Result<(), Failure> {
    let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(|e| format!("a socket: {e}"))?;
    let switch = |offload: Offload, on: bool| {
        let Offload { name, set, get } = offload;
        confirmed(name, &dev.name, on, sys::offload(socket.as_fd(), &dev.name, set, get, on))
    };
    if dev.test_link.is_some() {
        // The offloads of a test interface are changed, and restored, by the supervisor.
        return Ok(());
    }
    switch(TSO, !dev.segments)?;
    let Some(host) = topology.namespaces[dev.netns].host else { return Ok(()) };
    for asked in case.changes(host) {
        match asked.change {
            Change::Offload(offload, on) => switch(offload, on)?,
            Change::DeviceFile(file, value) => {
                let sys_of = format!("{NETNS_FOLDER}/.sys-{}", dev.netns);
                fs::create_dir_all(&sys_of).map_err(|e| format!("{sys_of}: {e}"))?;
                sys::mount("sysfs", &sys_of, "sysfs", 0).map_err(|e| format!("{sys_of}: {e}"))?;
                write_and_check(&format!("{sys_of}/class/net/{}/{file}", dev.name), &value)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The result of switching the offload `name` of a device to `on`, from the state that the kernel reads back.
fn confirmed(name: &str, device: &str, on: bool, read_back: io::Result<bool>) -> Result<(), Failure> {
    match read_back {
        Ok(is) if is == on => Ok(()),
        Ok(_) => Err(format!("{name} of {device} did not take effect")),
        Err(e) => Err(format!("{name} of {device}: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offload_that_the_kernel_did_not_switch_is_an_error_with_its_name_and_device() {
        assert_eq!(confirmed("tso", "h0", true, Ok(true)), Ok(()));
        assert_eq!(confirmed("gro", "h0", false, Ok(false)), Ok(()));
        assert_eq!(confirmed("tso", "h0", true, Ok(false)), Err("tso of h0 did not take effect".to_owned()));
        assert_eq!(
            confirmed("gro", "h1", true, Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))),
            Err("gro of h1: Operation not supported (os error 95)".to_owned())
        );
    }
}
