"""Any plan file gives cases, or errors with message and position. `tools/fuzz_plans.py` runs longer."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import plans
from plan_fuzz import mutated, random_plans, tells

REAL = {file.stem: file.read_text(encoding="utf-8") for file in sorted(plans.PLANS.glob("*.toml"))}
FILE = plans.PLANS / "plan.toml"


@given(st.sampled_from(sorted(REAL)), st.data())
def test_no_mutation_of_a_real_plan_makes_the_reader_fail(name: str, data: st.DataObject) -> None:
    tells(data.draw(mutated(REAL[name])), FILE)


@given(random_plans())
def test_no_plan_of_right_keys_and_random_values_makes_the_reader_fail(text: str) -> None:
    tells(text, FILE)


@given(base=random_plans(), own=random_plans())
def test_no_pair_of_plans_makes_extending_fail(base: str, own: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "base.toml").write_text(base, encoding="utf-8")
        tells(f'extends = "base.toml"\n{own}', Path(folder) / "plan.toml")
