//! The parameters of a controller, checked against what it declares.

use crate::controller::{ParamInfo, Params};
use crate::error::BuildError;

/// A controller's parameters, each with the value asked for or its default, checked against its range.
#[derive(Clone, PartialEq, Debug)]
pub struct Values {
    infos: &'static [ParamInfo],
    values: Vec<f64>,
}

impl Values {
    /// Checks what was asked against what the controller declares.
    ///
    /// # Errors
    ///
    /// It lacks one of the parameters; or a value is out of range or not a number.
    pub fn resolve(
        controller: &'static str,
        infos: &'static [ParamInfo],
        params: &Params,
    ) -> Result<Values, BuildError> {
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
        Ok(Values { infos, values })
    }

    /// The value of a parameter. Panics when the controller does not declare it.
    pub fn get(&self, name: &str) -> f64 {
        let at = self.infos.iter().position(|info| info.name == name);
        self.values[at.expect("a rule reads only parameters that it declares")]
    }
}
