"""The examples of `docs/plan.md` have the described results, and every key is documented."""

import re
from pathlib import Path

import jsonschema
import pytest

import plans
from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.plan import coverage, experiment_table, model, read, schema

TEXT = (plans.REPOSITORY / "docs" / "plan.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split("\n")[0])
def test_an_example_is_a_plan_or_part_of_one(example: str) -> None:
    named = example if "name = " in example else f'name = "example"\n{example}'
    plan = read.read(named, plans.PLANS / "example.toml")
    assert plan.cases
    assert plan.spec.strategy.kind != "t-way" or coverage.coverage(plan).complete
    jsonschema.Draft202012Validator(schema.schema()).validate(_native.read_toml(named)[0])


def test_the_refusal_is_the_one_that_is_shown() -> None:
    (example,) = [text for text in EXAMPLES if "constraints = [" in text]
    with pytest.raises(UserError) as caught:
        read.read('name = "x"\n' + re.sub(r"\n    'IF \[stack.cc\].*", "", example), Path("plan.toml"))
    (shown,) = re.findall(r"```text\n(.*?)\n```", TEXT, re.DOTALL)
    assert shown in str(caught.value)


def test_the_numbers_of_the_example_plan_are_the_ones_that_are_shown() -> None:
    sizes = coverage.sizes(read.read_file(plans.PLANS / "coverage.toml"))
    assert (
        f"    {sizes.factors} factors with {sizes.product:,} combinations; the constraints allow {sizes.allowed:,}\n"
        f"    strategy t-way: {sizes.cases:,} cases, {sizes.refused} of which must be refused\n"
    ) in TEXT


def test_every_key_of_a_plan_is_explained() -> None:
    said = set(re.findall(r"[A-Za-z_]+", " ".join(re.findall(r"`[^`\n]+`", TEXT)) + " ".join(EXAMPLES)))
    models = [model.PlanFile, model.Limits, model.Keep, model.Collect, model.Check, model.Family, model.Range]
    models += [
        *model.AXES.values(),
        *model.STRATEGIES.values(),
        model.Scripts,
        model.Timeline,
        model.Sequence,
        model.Distribution,
        model.Diagram,
        experiment_table.Experiment,
        experiment_table.Changes,
        experiment_table.Claim,
        experiment_table.Exhibit,
        experiment_table.Column,
        experiment_table.Excerpt,
    ]
    for one in models:
        for name, field in one.model_fields.items():
            assert (field.alias or name) in said, (one.__name__, name)
    for kind in model.STRATEGIES:
        assert f"| `{kind}` |" in TEXT
