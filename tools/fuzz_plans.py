"""Fuzzes the reader of plans: every error must be a problem with a message and a position.

    PYTHONPATH=tests .venv/bin/python tools/fuzz_plans.py [examples of each kind, by default 10000]

The tests do the same for a hundred examples. A failing example is shrunk, printed, and stored in `.hypothesis` for the
next run.
"""

import sys
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plan_fuzz import mutated, random_plans, tells

PLANS = Path(__file__).parent.parent / "plans"
EXAMPLES = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
REAL = st.sampled_from([file.read_text(encoding="utf-8") for file in sorted(PLANS.glob("*.toml"))])
LONG = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

for name, strategy in (("mutations of real plans", REAL.flatmap(mutated)), ("random plans", random_plans())):
    LONG(given(strategy)(lambda text: tells(text, PLANS / "plan.toml")))()
    sys.stdout.write(f"{EXAMPLES} {name}: every error has a position\n")
    sys.stdout.flush()
