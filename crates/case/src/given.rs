//! Parsed triples, and the selection of the most specific one for an entity.

use crate::error::CaseError;
use crate::params::{self, ParamSpec, Row, Setting, Substrate, Value};
use std::collections::BTreeMap;

/// The parsed triples of a case by full path (`link.delay`, `sender/stack.ecn`).
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct GivenTriples {
    rows: BTreeMap<String, Setting>,
    /// Values of `stack.cc.<name>`, which are not in the table, by `(address, name)`.
    controllers: BTreeMap<(String, String), f64>,
    /// The substrate on which the case runs.
    pub substrate: Substrate,
}

/// The settings as one entity sees them: its addresses, the most specific one first, then the path without
/// address unless `plain` is false.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    given: &'a GivenTriples,
    addresses: &'a [&'a str],
    plain: bool,
}

/// Splits a full path into address and path: `sender/stack.ecn` into `sender` and `stack.ecn`.
pub(super) fn split(full: &str) -> (&str, &str) {
    full.split_once('/').unwrap_or(("", full))
}

fn join(address: &str, path: &str) -> String {
    if address.is_empty() { path.to_owned() } else { format!("{address}/{path}") }
}

impl GivenTriples {
    /// Parses triples. Appends every error to `errors`, not only the first.
    pub fn parse(
        substrate: Substrate,
        triples: &BTreeMap<String, Value>,
        errors: &mut Vec<CaseError>,
    ) -> GivenTriples {
        let mut given = GivenTriples { substrate, ..GivenTriples::default() };
        for (full, value) in triples {
            let (address, path) = split(full);
            if let Some(name) = path.strip_prefix("stack.cc.") {
                match controller_value(name, value) {
                    Ok(x) => drop(given.controllers.insert((address.to_owned(), name.to_owned()), x)),
                    Err(why) => errors.push(CaseError::new(full, Some(value), why)),
                }
                continue;
            }
            match params::find(path) {
                None => errors.push(CaseError::new(full, None, unknown(path))),
                Some(row) => match given.setting(row, address, value) {
                    Ok(setting) => drop(given.rows.insert(full.clone(), setting)),
                    Err(why) => errors.push(CaseError::new(full, Some(value), why)),
                },
            }
        }
        given
    }

    fn setting(&self, row: &ParamSpec, address: &str, value: &Value) -> Result<Setting, String> {
        if !row.substrates.has(self.substrate) {
            let here = match self.substrate {
                Substrate::Model => "the model",
                Substrate::Kernel => "the substrate `kernel`",
                Substrate::Host => "the substrate `host`",
                Substrate::Remote => "the substrate `remote`",
            };
            return Err(format!("{here} does not support it; substrates that do are {}", row.substrates));
        }
        if !address.is_empty() && params::table::is_of_network(row) {
            return Err("it applies to the whole network and takes no address".to_owned());
        }
        row.kind.parse(value)
    }

    /// The settings by full path.
    pub fn settings_mut(&mut self) -> impl Iterator<Item = (&String, &mut Setting)> {
        self.rows.iter_mut()
    }

    /// Appends an error for each address that the network does not have.
    pub fn check_addresses(&self, known: &[&str], errors: &mut Vec<CaseError>) {
        let fulls = self.rows.keys().cloned();
        let controllers =
            self.controllers.keys().map(|(address, name)| join(address, &format!("stack.cc.{name}")));
        for full in fulls.chain(controllers) {
            let (address, _) = split(&full);
            if !address.is_empty() && !known.contains(&address) {
                let some = known.iter().take(MOST_LISTED).copied().collect::<Vec<_>>().join(", ");
                let more = known.len().saturating_sub(MOST_LISTED);
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                errors.push(CaseError::new(
                    &full,
                    None,
                    format!("this topology has no entity `{address}`; it has {some}{more}"),
                ));
            }
        }
    }

    /// The settings as an entity with these addresses sees them.
    pub fn scope<'a>(&'a self, addresses: &'a [&'a str], plain: bool) -> Scope<'a> {
        Scope { given: self, addresses, plain }
    }

    /// The settings of the whole network.
    pub fn whole(&self) -> Scope<'_> {
        Scope { given: self, addresses: &[], plain: true }
    }

    /// The triples that differ from the default or, with an address, from the setting of the path without
    /// address.
    pub fn to_triples(&self) -> BTreeMap<String, Value> {
        let differs = |full: &str, setting: &Setting| {
            let (address, path) = split(full);
            let row = params::find(path).expect("parsed before");
            let default = row.default_setting();
            let plain = if address.is_empty() { None } else { self.rows.get(path) };
            *setting != *plain.unwrap_or(&default)
        };
        let rows = self.rows.iter().filter(|(full, s)| differs(full, s)).map(|(full, s)| {
            let value = match s {
                Setting::Bool(b) => Value::Bool(*b),
                Setting::Int(n) => Value::Int(*n),
                Setting::Probability(p) => Value::Real(*p),
                other => Value::Text(other.to_string()),
            };
            (full.clone(), value)
        });
        let controllers = self
            .controllers
            .iter()
            .map(|((address, name), x)| (join(address, &format!("stack.cc.{name}")), Value::Real(*x)));
        rows.chain(controllers).collect()
    }
}

/// Entities of a topology that an error lists.
const MOST_LISTED: usize = 24;

fn unknown(path: &str) -> String {
    match params::nearest(path) {
        Some(known) => format!("no such parameter; did you mean `{known}`?"),
        None => "no such parameter; `tcpassay params` lists all".to_owned(),
    }
}

fn controller_value(name: &str, value: &Value) -> Result<f64, String> {
    let known: Vec<&str> =
        tcpassay_cc::names().into_iter().flat_map(tcpassay_cc::params).map(|info| info.name).collect();
    if !known.contains(&name) {
        return Err(format!("no controller has a parameter `{name}`; there are {}", known.join(", ")));
    }
    #[expect(clippy::cast_precision_loss, reason = "ranges of controllers are far below 2^53")]
    let x = match value {
        Value::Int(n) => *n as f64,
        Value::Real(x) => *x,
        Value::Text(t) => t.parse().map_err(|_| "allowed is a number".to_owned())?,
        Value::Bool(_) => return Err("allowed is a number".to_owned()),
    };
    Ok(x)
}

impl Scope<'_> {
    /// The substrate on which the case runs.
    pub fn substrate(&self) -> Substrate {
        self.given.substrate
    }

    /// The setting of a row, and the full path at which it was given (or the plain path of a default).
    pub fn of(&self, row: &ParamSpec) -> (Setting, String) {
        let plain = if self.plain { Some("") } else { None };
        for address in self.addresses.iter().copied().chain(plain) {
            let full = join(address, row.path);
            if let Some(setting) = self.given.rows.get(&full) {
                return (setting.clone(), full);
            }
        }
        (row.default_setting(), row.path.to_owned())
    }

    /// Applies the settings of rows in their order.
    pub fn apply<S>(&self, rows: &[Row<S>], settings: &mut S) {
        for row in rows {
            (row.set)(settings, &self.of(&row.spec).0);
        }
    }

    /// Like [`Scope::of`], by path. Panics if the table does not contain the path.
    pub fn find(&self, path: &str) -> (Setting, String) {
        self.of(params::find(path).unwrap_or_else(|| panic!("{path} is not in the table")))
    }

    /// The full path at which `path` was set, for error messages.
    pub fn place(&self, path: &str) -> String {
        self.find(path).1
    }

    /// Whether the case sets `path` itself instead of leaving it to the profile.
    pub fn sets(&self, path: &str) -> bool {
        self.find(path).0 != Setting::Word("profile")
    }

    /// The parameters of controllers that apply to this entity.
    pub fn controller_values(&self) -> BTreeMap<String, f64> {
        let mut values = BTreeMap::new();
        let plain = if self.plain { Some("") } else { None };
        let order: Vec<&str> = self.addresses.iter().copied().chain(plain).collect();
        // The most specific address is last, so that its value replaces the others.
        for address in order.into_iter().rev() {
            for ((at, name), x) in &self.given.controllers {
                if at == address {
                    values.insert(name.clone(), *x);
                }
            }
        }
        values
    }
}
