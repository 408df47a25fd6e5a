"""Metamorphic and differential comparison: runs that differ in one setting with a known effect.

A shorter delay, a larger buffer or a path without loss must not degrade the result without an explanation, and a case
must have similar results on the model and on a kernel. No expected number is needed: a run is compared with its
partner, which differs in one setting. Partners are runs of the same result folder, or additional runs
(`make_partners`).

`relation.py` lists the settings with the direction that must not degrade the result, `partner.py` finds and runs
partners, `verdict.py` compares two runs and names the counters that explain a difference, `show.py` prints.
"""

from tcpassay.pairs.partner import among, made
from tcpassay.pairs.verdict import Pair, Verdict

__all__ = ["Pair", "Verdict", "among", "made"]
"""The functions for commands."""
