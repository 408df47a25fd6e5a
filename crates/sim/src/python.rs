//! Controllers in Python, which only a program with an interpreter can create.

use tcpassay_case::PythonController;
use tcpassay_cc::Controller;
use tcpassay_units::Stream;

/// Creates a controller from a class in Python, with the random stream of its connection.
pub type BuildPython = fn(&PythonController, Stream) -> Box<dyn Controller>;
