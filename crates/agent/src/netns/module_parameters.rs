//! Parameters of Linux's controllers: `stack.cc.<name>` as parameters of modules, which a kernel has once.
//!
//! They are a guest's own; those of this machine's kernel belong to the machine. Beta of CUBIC does not reach the slope of its
//! Reno-friendly region, which Linux computes from it when it starts (`cubictcp_register`).

use crate::system::{Failure, write_and_check};
use std::fs;
use tcpassay_case::{Case, Change, HostSettings};

/// A parameter of a module: its path below `/sys/module`, and a value.
type Parameter = (&'static str, String);

/// What of a host's controller Linux can be told, or the value that it cannot and why.
pub fn parameters(host: &HostSettings) -> Result<Vec<Parameter>, String> {
    let mut all = Vec::new();
    for (name, value) in &host.cc_values {
        all.extend(
            parameter(&host.cc, name, *value)
                .map_err(|why| format!("stack.cc.{name} = {value}: {why}; the model has this value"))?,
        );
    }
    Ok(all)
}

fn parameter(cc: &str, name: &str, value: f64) -> Result<Option<Parameter>, String> {
    let thousandths = || scaled(value * 1024.0).to_string();
    let whole = || {
        if value.fract() == 0.0 {
            Ok(format!("{value:.0}"))
        } else {
            Err("Linux takes whole packets".to_owned())
        }
    };
    Ok(Some(match (cc, name) {
        ("cubic", "beta") => ("tcp_cubic/parameters/beta", thousandths()),
        ("cubic", "fast_convergence") => {
            ("tcp_cubic/parameters/fast_convergence", u8::from(value != 0.0).to_string())
        }
        ("dctcp", "g") => {
            // g = 1 / 2^shift.
            let shift = (0..=10).find(|shift| 0.5_f64.powi(*shift).to_bits() == value.to_bits());
            let shift = shift.ok_or("Linux takes powers of two, 1 to 1/1024 (dctcp_shift_g)")?;
            ("tcp_dctcp/parameters/dctcp_shift_g", shift.to_string())
        }
        ("dctcp", "alpha") => ("tcp_dctcp/parameters/dctcp_alpha_on_init", thousandths()),
        ("vegas", "alpha") => ("tcp_vegas/parameters/alpha", whole()?),
        ("vegas", "beta") => ("tcp_vegas/parameters/beta", whole()?),
        ("vegas", "gamma") => ("tcp_vegas/parameters/gamma", whole()?),
        ("cubic", "c") => return Err("Linux fixes C when it starts (bic_scale)".to_owned()),
        _ => return Err(format!("Linux's {cc} has no such parameter")),
    }))
}

#[expect(clippy::cast_possible_truncation, reason = "shares of 1024")]
fn scaled(value: f64) -> i64 {
    value.round() as i64
}

/// A host before this one that has the same controller and other parameters: a kernel has them once.
pub fn conflict(case: &Case, host: usize) -> Option<usize> {
    let of = |i: usize| (&case.hosts[i].cc, &case.hosts[i].cc_values);
    (0..host).find(|i| of(*i).0 == of(host).0 && of(*i) != of(host))
}

/// Sets the parameters of modules that the hosts ask for, and reads them back.
pub fn set(case: &Case) -> Result<(), Failure> {
    for (i, host) in case.hosts.iter().enumerate() {
        for (path, value) in parameters(host)? {
            write_and_check(&format!("/sys/module/{path}"), &value)?;
        }
        for asked in case.changes(i) {
            let Change::Module { file, value, absent } = asked.change else { continue };
            let path = format!("/sys/module/{file}");
            if value != absent || fs::exists(&path).unwrap_or(false) {
                write_and_check(&path, &value)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_units_of_the_module() {
        let one = |cc, name, value| parameter(cc, name, value).map(|p| p.expect("one").1);
        assert_eq!(one("cubic", "beta", 0.7).as_deref(), Ok("717"));
        assert_eq!(one("dctcp", "g", 0.0625).as_deref(), Ok("4"));
        assert_eq!(one("dctcp", "g", 1.0).as_deref(), Ok("0"));
        assert_eq!(one("dctcp", "alpha", 0.5).as_deref(), Ok("512"));
        assert_eq!(one("vegas", "beta", 6.0).as_deref(), Ok("6"));
    }

    #[test]
    fn what_linux_cannot_be_told_is_refused_with_the_reason() {
        for (cc, name, value, why) in [
            ("dctcp", "g", 0.1, "powers of two"),
            ("vegas", "alpha", 1.5, "whole packets"),
            ("cubic", "c", 0.8, "bic_scale"),
            ("cubic", "beta_ecn", 0.85, "no such parameter"),
            ("reno", "beta", 0.7, "no such parameter"),
        ] {
            let told = parameter(cc, name, value).expect_err("refused");
            assert!(told.contains(why), "{cc} {name}: {told}");
        }
    }
}
