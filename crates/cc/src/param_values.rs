//! The values of the parameters of a controller.

use crate::controller::{ParamInfo, Params};
use crate::error::BuildError;

/// The values of a controller's parameters, as given or by default, within their ranges.
#[derive(Clone, PartialEq, Debug)]
pub struct ParamValues {
    infos: &'static [ParamInfo],
    values: Vec<f64>,
}

impl ParamValues {
    /// Checks the given values against the declared parameters.
    ///
    /// # Errors
    ///
    /// An unknown parameter, or a value that is out of range or not a number.
    pub fn resolve(
        controller: &'static str,
        infos: &'static [ParamInfo],
        params: &Params,
    ) -> Result<ParamValues, BuildError> {
        for (param, &value) in &params.values {
            let Some(info) = infos.iter().find(|info| info.name == param) else {
                let allowed = infos.iter().map(|info| info.name).collect();
                return Err(BuildError::UnknownParam { controller, param: param.clone(), allowed });
            };
            if !(info.range.0..=info.range.1).contains(&value) {
                return Err(BuildError::OutOfRange {
                    controller,
                    param: info.name,
                    value,
                    range: info.range,
                });
            }
        }
        let values =
            infos.iter().map(|info| params.values.get(info.name).copied().unwrap_or(info.default)).collect();
        Ok(ParamValues { infos, values })
    }

    /// The value of a parameter. Panics when the controller does not declare it.
    pub fn get(&self, name: &str) -> f64 {
        let at = self.infos.iter().position(|info| info.name == name);
        self.values[at.expect("a rule reads only parameters that it declares")]
    }
}
