"""Fixes: whether what a plan finds is gone with another setting or substrate, and whether nothing new is found.

    history = verify(plan, chosen, fixes, Work(out, jobs))

| module | content |
| --- | --- |
| `variant` | the plan with a fix, and which of its cases differ |
| `session` | runs the plan, isolates and explains its findings, and runs the cases that each fix changes |
| `page` | the page with all of it |
"""

from tcpassay.fixes.session import Fixed, History, Work, verify
from tcpassay.fixes.variant import Fix

__all__ = ["Fix", "Fixed", "History", "Work", "verify"]
