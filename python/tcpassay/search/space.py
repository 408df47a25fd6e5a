"""The space of a search: values of the genes, the cases that they give, and the reasons for refused values."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tcpassay import _native
from tcpassay.errors import Place
from tcpassay.plan import constraint_parser, fields, model, table
from tcpassay.plan.constraints import Constraint
from tcpassay.plan.expand import SUBSTRATE, Case, name_of, show
from tcpassay.search.genes import Gene, genes
from tcpassay.substrate import substrate_of

Values = dict[str, fields.Scalar]
"""A value for each axis and group."""
TRIES: Final = 1000
"""Maximum number of combinations that are tried for one case."""


@dataclass
class SearchSpace:
    """The fixed and varied settings of a search, and the constraints on its cases."""

    spec: model.PlanFile
    base: str
    """The folder of relative file names."""
    constraints: tuple[Constraint, ...]
    genes: list[Gene]
    """What varies."""
    constant: Values
    """Axes and groups with one value."""
    refused: int = 0
    """Number of combinations that the data plane refused."""
    refusal: str = ""
    """The reason for the first refusal."""
    unmet: int = 0
    """Number of combinations that a constraint excludes."""

    @classmethod
    def of(cls, spec: model.PlanFile, base: Path) -> "SearchSpace":
        """The space of a plan.

        `base` is the folder of relative file names in values. The plan must have been checked.
        """
        varying = genes(spec)
        names = {gene.name for gene in varying}
        constant: Values = {
            path: one[0] for path, one in spec.axes.items() if path not in names and isinstance(one, list)
        }
        constant |= {name: next(iter(sets)) for name, sets in spec.groups.items() if name not in names}
        constraints = tuple(constraint_parser.parse(text, Place(base)) for text in spec.constraints)
        return cls(spec, str(base), constraints, varying, constant)

    def case(self, values: Mapping[str, fields.Scalar]) -> Case | None:
        """The case with these values; `None` if the constraints or the data plane do not allow it."""
        said = {**self.constant, **values}
        whole = {name: said[name] for name in (*self.spec.axes, *self.spec.groups)}
        triples, groups = dict(self.spec.fixed), self.spec.groups
        for name, value in whole.items():
            triples |= groups[name][str(value)] if name in groups else {name: value}
        if not all(self._holds(one, whole, triples) for one in self.constraints):
            self.unmet += 1
            return None
        substrate = self.spec.substrates[0]
        try:
            named = substrate_of(substrate).check(triples, self.base)
        except _native.CaseError as error:
            self.refused += 1
            path, _, _, why = error.args[0][0]
            value = f"`{path}` = `{show(triples[path])}`" if path in triples else f"`{path}`"
            self.refusal = self.refusal or f"{value}: {why}"
            return None
        where = {} if substrate == "model" else {SUBSTRATE: substrate}
        return Case(name_of(named | where), triples, whole, substrate=substrate)

    def new(self, make: Callable[[], Values], known: Iterable[str]) -> Case | None:
        """The first new and allowed case that `make` returns; `None` if there is none in a thousand attempts."""
        before = frozenset(known)
        for _ in range(TRIES):
            case = self.case(make())
            if case is not None and case.id not in before:
                return case
        return None

    def draw(self, rng: Random) -> Values:
        """Values of all genes, drawn independently of each other."""
        return {gene.name: gene.draw(rng) for gene in self.genes}

    def values(self, case: Case) -> Values:
        """The values of the genes in a case."""
        return {gene.name: case.varied[gene.name] for gene in self.genes}

    def _holds(
        self, constraint: Constraint, whole: Mapping[str, fields.Scalar], triples: Mapping[str, fields.Scalar]
    ) -> bool:
        return constraint.holds({name: _value(name, whole, triples) for name in constraint.parameters})


def _value(
    name: str, whole: Mapping[str, fields.Scalar], triples: Mapping[str, fields.Scalar]
) -> fields.Scalar:
    """The value of a name in a constraint: that of a group, of a parameter of the case, or a default."""
    plain = name.rpartition("/")[2]
    for said, key in ((whole, name), (triples, name), (triples, plain)):
        if key in said:
            return said[key]
    row = table.parameters().get(plain)
    return row.default if row else ""
