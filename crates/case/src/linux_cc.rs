//! Parameters of controllers (`stack.cc.<name>`) as parameters of the modules of Linux's controllers.
//! `tcpassay_cc` declares each of them with its module parameter. A kernel has one instance of a module, so
//! hosts with the same controller must have the same values.

use crate::params::HostSettings;
use tcpassay_cc::LinuxParam;

/// The file below `/sys/module` and the text for each value of a host's controller.
///
/// # Errors
/// The first value that Linux does not support, with the reason.
pub(crate) fn module_parameters(host: &HostSettings) -> Result<Vec<(&'static str, String)>, String> {
    let known = tcpassay_cc::params(host.cc.name());
    let text = |(name, value): (&String, &f64)| {
        let declared =
            known.iter().find(|info| info.name == name).map_or(LinuxParam::Absent, |info| info.linux);
        let text = match declared {
            LinuxParam::Module { file, form } => {
                form.text(*value).map(|text| (file, text)).map_err(str::to_owned)
            }
            LinuxParam::Constant(why) => Err(why.to_owned()),
            LinuxParam::Absent => Err(format!("Linux's {} has no such parameter", host.cc)),
        };
        text.map_err(|why| format!("stack.cc.{name} = {value}: {why}; the model supports this value"))
    };
    host.cc_values.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use crate::params::{Substrate, Value};
    use crate::{Asked, Case, Change};

    fn case(rows: &[(&str, &str)]) -> Case {
        let triples = rows.iter().map(|(path, value)| ((*path).to_owned(), Value::from(*value))).collect();
        let no_files = |_: &str| Err(std::io::Error::other("none"));
        Case::on(Substrate::Kernel, &triples, &no_files).unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    #[test]
    fn values_of_a_controller_become_parameters_of_its_module() {
        let modules = |rows: &[(&str, &str)]| -> Vec<(&str, String)> {
            let module = |asked: Asked| match asked.change {
                Change::Module { file, value, absent: "" } => Some((file, value)),
                _ => None,
            };
            case(rows).changes(0).into_iter().filter_map(module).collect()
        };
        let rows = [("stack.cc", "cubic"), ("stack.cc.beta", "0.8"), ("stack.cc.fast_convergence", "0")];
        assert_eq!(
            modules(&rows),
            [
                ("tcp_cubic/parameters/beta", "819".to_owned()),
                ("tcp_cubic/parameters/fast_convergence", "0".to_owned())
            ]
        );
        let rows = [("stack.cc", "vegas"), ("stack.cc.alpha", "3"), ("stack.cc.gamma", "2")];
        assert_eq!(
            modules(&rows),
            [("tcp_vegas/parameters/alpha", "3".to_owned()), ("tcp_vegas/parameters/gamma", "2".to_owned())]
        );
        assert!(modules(&[("stack.cc", "cubic")]).is_empty());
    }

    #[test]
    fn an_unsupported_value_is_reported_with_the_reason() {
        for (rows, why) in [
            (
                &[("stack.cc", "dctcp"), ("stack.ecn", "dctcp"), ("stack.cc.g", "0.1")][..],
                "stack.cc.g = 0.1: Linux takes powers of two, 1 to 1/1024 (dctcp_shift_g); the model supports this value",
            ),
            (
                &[("stack.cc", "vegas"), ("stack.cc.alpha", "1.5")],
                "stack.cc.alpha = 1.5: Linux takes whole packets; the model supports this value",
            ),
            (
                &[("stack.cc", "cubic"), ("stack.cc.c", "0.8")],
                "stack.cc.c = 0.8: Linux fixes C when it starts (bic_scale); the model supports this value",
            ),
            (
                &[("stack.cc", "cubic"), ("stack.cc.beta_ecn", "0.85")],
                "stack.cc.beta_ecn = 0.85: Linux's cubic has no such parameter; the model supports this value",
            ),
            (
                &[("stack.cc", "reno"), ("stack.cc.beta", "0.7")],
                "stack.cc.beta = 0.7: Linux's reno has no such parameter; the model supports this value",
            ),
        ] {
            let found = case(rows).unsupported_controller_values();
            assert!(found.iter().all(|one| one.why == why && one.path == "stack.cc"), "{found:?}");
            assert_eq!(found.len(), 2, "both hosts: {found:?}");
        }
    }

    #[test]
    fn two_hosts_cannot_have_different_values_of_one_controller() {
        let rows = [("stack.cc", "vegas"), ("receiver/stack.cc.alpha", "3")];
        let found = case(&rows).unsupported_controller_values();
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].why,
            "a kernel has one set of parameters of this controller, and sender has other values"
        );
        let rows = [("stack.cc", "vegas"), ("receiver/stack.cc", "cubic"), ("receiver/stack.cc.beta", "0.8")];
        assert!(case(&rows).unsupported_controller_values().is_empty());
    }
}
