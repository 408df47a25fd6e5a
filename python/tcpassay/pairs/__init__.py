"""Metamorphic and differential comparison: runs that differ in one thing, of which the result is known beforehand.

A shorter delay, a larger buffer or a path without loss must not degrade the result without an explanation, and the same
case must come to about the same on the model and on a kernel. No expected number is needed: a run is compared with its
partner, which differs in one setting. Partners are runs of the same result folder, or are made (`make_partners`).

`relation.py` has the settings and the direction that must not degrade, `partner.py` finds and makes pairs, `verdict.py`
compares two runs and names what explains a difference, `show.py` prints.
"""

from tcpassay.pairs.partner import among, made
from tcpassay.pairs.verdict import Pair, Verdict

__all__ = ["Pair", "Verdict", "among", "made"]
"""What the commands use."""
