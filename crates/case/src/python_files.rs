//! The files of controllers in Python, and their checksums.

use crate::error::CaseError;
use crate::files::ReadFile;
use crate::given::{GivenTriples, split};
use crate::params::python_controller::{self, PythonController};
use crate::params::{Setting, Value};

/// The parameter.
const PATH: &str = "stack.cc";

/// Reads the files of all values, and appends their checksums. Returns the controllers.
pub(crate) fn read(
    given: &mut GivenTriples,
    read: ReadFile,
    errors: &mut Vec<CaseError>,
) -> Vec<PythonController> {
    let mut found: Vec<PythonController> = Vec::new();
    for (full, setting) in given.settings_mut() {
        let Setting::Text(text) = setting else { continue };
        if split(full).1 != PATH {
            continue;
        }
        if python_controller::check(text).is_err() {
            continue;
        }
        let mut controller = PythonController::named(text);
        let mut wrong =
            |why: String| errors.push(CaseError::new(full, Some(&Value::Text(text.clone())), why));
        let source = match read(&controller.file) {
            Ok(source) => source,
            Err(why) => {
                wrong(format!("cannot read `{}`: {why}", controller.file));
                continue;
            }
        };
        let digest = tcpassay_measure::checksum(source.as_bytes());
        if !controller.digest.is_empty() && controller.digest != digest {
            wrong(format!("`{}` has changed: its checksum is {digest}", controller.file));
            continue;
        }
        controller.source = source.into();
        digest.clone_into(&mut controller.digest);
        *text = format!("python:{}:{}@{digest}", controller.file, controller.class);
        found.push(controller);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Case;
    use crate::params::Substrate;
    use std::collections::BTreeMap;

    fn case(substrate: Substrate, value: &str) -> Result<Case, Vec<CaseError>> {
        let triples = BTreeMap::from([("stack.cc".to_owned(), Value::from(value))]);
        Case::on(substrate, &triples, &|name| match name {
            "mine/aimd.py" => Ok("class Aimd: pass\n".to_owned()),
            _ => Err(std::io::Error::other("there is none")),
        })
    }

    #[test]
    fn a_case_has_the_source_and_its_checksum() {
        let case = case(Substrate::Model, "python:mine/aimd.py:Aimd").unwrap();
        let python = case.hosts[0].python.as_ref().unwrap();
        assert_eq!((python.file.as_str(), python.class.as_str()), ("mine/aimd.py", "Aimd"));
        assert_eq!(&*python.source, "class Aimd: pass\n");
        let text = case.to_triples()["stack.cc"].to_string();
        assert_eq!(text, format!("python:mine/aimd.py:Aimd@{}", python.digest));
        // The value that the case prints can be read again.
        assert_eq!(PythonController::named(&text).digest, python.digest);
    }

    #[test]
    fn a_file_that_has_changed_is_refused() {
        let errors = case(Substrate::Model, "python:mine/aimd.py:Aimd@0123456789abcdef").unwrap_err();
        assert!(errors[0].why.starts_with("`mine/aimd.py` has changed: its checksum is "), "{errors:?}");
    }

    #[test]
    fn a_file_that_is_not_there_and_a_value_of_another_form_are_refused() {
        let errors = case(Substrate::Model, "python:none.py:Aimd").unwrap_err();
        assert_eq!(errors[0].why, "cannot read `none.py`: there is none");
        for wrong in ["python:mine/aimd.py", "python:aimd.txt:Aimd", "python:a.py:1x", "python:a.py:A@12"] {
            assert!(
                case(Substrate::Model, wrong).unwrap_err()[0].why.contains("`python:<file>.py:<Class>`"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn kernels_refuse_python() {
        for substrate in [Substrate::Kernel, Substrate::Host] {
            let errors = case(substrate, "python:mine/aimd.py:Aimd").unwrap_err();
            assert!(errors[0].why.starts_with("a controller in Python runs only on the model"), "{errors:?}");
        }
    }
}
