"""The measured numbers in the explanation of an experiment."""

import re
from collections.abc import Mapping
from typing import Final

from tcpassay import terminal
from tcpassay.experiments import verdict
from tcpassay.experiments.catalogue import Experiment
from tcpassay.experiments.measured import Numbers, unit
from tcpassay.plan import experiment_table

NONE: Final = "-"
_NOT_RUN: Final = "(not run)"


def explanation(one: Experiment, ran: Mapping[str, Numbers]) -> str:
    """The explanation with its quoted numbers, which are those of the runs on each substrate."""
    known = {quote.name: quote for quote in one.told.quote}

    def quoted(found: re.Match[str]) -> str:
        quote = known[found[1]]
        numbers = ran.get(quote.on)
        return _NOT_RUN if numbers is None else text(quote, numbers)

    return experiment_table.QUOTED.sub(quoted, one.told.explanation.strip())


def text(quote: experiment_table.Quote, numbers: Numbers) -> str:
    """A quoted number with its unit."""
    if quote.count:
        return str(
            sum(value is not None and verdict.holds(value, quote.count) for value in numbers.values(quote))
        )
    value = numbers.value(quote)
    if quote.percent:
        return NONE if value is None else f"{float(f'{value * 100:.2g}'):g} %"
    return number(value, "1" if quote.relative_to is not None else unit(quote.metric))


def number(value: float | None, unit_: str) -> str:
    """A number with three significant digits."""
    return NONE if value is None else terminal.number(float(f"{value:.3g}"), unit_)
