"""Genes: drawn, changed and combined values are values that the plan allows."""

from fractions import Fraction
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tcpassay import _native
from tcpassay.plan import fields, model
from tcpassay.plan.quantity import quantity
from tcpassay.search.genes import Amounts, Gene, genes

AXES = {
    "link.delay": {"from": "1ms", "to": "100ms", "scale": "log"},
    "app.flows": {"from": 1, "to": 8},
    "link.loss": {"from": "0%", "to": "5%"},
    "link.loss_model": {"sequence": "losses", "most": 5, "among": 40},
    "stack.cc": ["reno", "cubic"],
    "queue.limit": ["auto", "30KB", "1MB"],
    "app.request": {"from": "1KB", "to": "1MB", "steps": 4, "scale": "log"},
}


def of() -> dict[str, Gene]:
    groups = {"offload": {"none": {}, "both": {"nic.tso": True, "nic.gro": True}}}
    spec = model.PlanFile.model_validate({"name": "x", "axes": AXES, "groups": groups})
    return {gene.name: gene for gene in genes(spec)}


def amount(value: fields.Scalar) -> Fraction:
    made = quantity(value).amount
    assert isinstance(made, Fraction)
    return made


@given(st.integers(0, 2**32), st.sampled_from([*AXES, "offload"]))
def test_a_value_that_was_changed_often_is_one_that_the_data_plane_accepts(seed: int, name: str) -> None:
    gene, rng = of()[name], Random(seed)  # noqa: S311
    value = gene.draw(rng)
    for _ in range(20):
        value = gene.cross(gene.mutate(value, rng), gene.draw(rng), rng)
        if name != "offload":
            _native.check_case({name: value}, ".")
    if name == "link.delay":
        assert 10**6 <= amount(value) <= 10**8
    if name == "app.flows":
        assert value in range(1, 9)
    if name == "link.loss_model" and value != "bernoulli":
        lost = [int(n) for n in str(value).removeprefix("list:").split(",")]
        assert lost == sorted(set(lost))
        assert len(lost) <= 5
        assert 1 <= lost[0] <= lost[-1] <= 40
    if name == "queue.limit":
        assert value in {"auto", "30KB", "1MB"}


def test_small_changes_are_as_likely_as_large_ones() -> None:
    gene = of()["link.delay"]
    assert isinstance(gene, Amounts)
    rng = Random(1)  # noqa: S311
    ratios = [amount(gene.mutate("10ms", rng)) / 10**7 for _ in range(1000)]
    near = sum(Fraction(95, 100) < ratio < Fraction(105, 100) for ratio in ratios)
    # Of 900 steps between 0.001 and 1 of two orders of magnitude, those below 0.0106: ln 10.6 / ln 1000.
    assert 270 < near < 350
    assert max(ratios) == 10
    assert min(ratios) == Fraction(1, 10)


def test_the_end_of_one_list_of_losses_follows_the_beginning_of_another() -> None:
    gene = of()["link.loss_model"]
    made = {gene.cross("list:1,2", "list:30,31", Random(seed)) for seed in range(200)}  # noqa: S311
    assert {"list:1,2,30,31", "list:1,2,31", "list:1,30,31"} <= made


def test_a_gene_gives_the_same_values_on_every_machine() -> None:
    rng = Random("1 generation 0")  # noqa: S311
    drawn = {name: gene.draw(rng) for name, gene in of().items()}
    assert drawn == {
        "link.delay": "58.39ms",
        "app.flows": 3,
        "link.loss": "0.3126%",
        "link.loss_model": "bernoulli",
        "stack.cc": "reno",
        "queue.limit": "1MB",
        "app.request": "10KB",
        "offload": "none",
    }
