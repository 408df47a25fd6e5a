"""tcpassay puts a TCP to the test in every environment that matters.

This package is the control plane: it reads plans, runs their cases on the data plane (`tcpassay._native`) and
shows what came of them. The command is `tcpassay`; its entry is `tcpassay.cli`.
"""

from tcpassay._native import __version__

__all__ = ["__version__"]
