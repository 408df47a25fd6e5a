"""The numbers in the texts of experiments are those of the runs, of the setting, or of the paper."""

import re
from collections.abc import Iterator

import pytest

import plans
from tcpassay.experiments import catalogue

PAPERS = plans.PLANS / "papers"
NAMES = sorted(file.stem for file in PAPERS.glob("*.toml"))

# Names with numbers, which are not measured: RFCs, releases, figures, steps, trials, files, parameters.
NOT_MEASURED = re.compile(
    r"`[^`]*`|\{\w+\}|docs/\S+|\bRFC \d+|\b(?:Linux|kernel|of)\s+\d\.\d+\b|\b[Ff]igure \d+"
    r"|\b(?:[Ss]teps?|[Tt]rials?) \d+(?:(?:,| to| and|, and) \d+)*"
)
AMOUNT = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)\s?(%|(?:ns|us|ms|s|KB|MB|GB|[KMGk]?bit)\b)?")


def amounts(text: str) -> set[str]:
    """The numbers in a text with their units; percentages as shares."""
    made = set()
    for digits, unit in AMOUNT.findall(text):
        number = float(digits.replace(",", ""))
        made.add(f"{number / 100:g}" if unit == "%" else f"{number:g}{unit.capitalize()}")
    return made


def leaves(value: object) -> Iterator[str]:
    """All keys and values of a document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner)
    else:
        yield str(value)


def stated(one: catalogue.Experiment) -> set[str]:
    """The numbers of the plan without its explanation: parameters, the setting, and what the paper says."""
    document = one.plan.spec.model_dump(mode="json")
    told = document["experiment"]
    del told["explanation"], told["apart"]
    return {amount for text in leaves(document) for amount in amounts(text)}


@pytest.mark.parametrize("name", NAMES)
def test_an_explanation_quotes_measured_numbers_by_name(name: str) -> None:
    one = catalogue.experiment(PAPERS, name)
    assert amounts(NOT_MEASURED.sub(" ", one.told.explanation)) - stated(one) == set()
