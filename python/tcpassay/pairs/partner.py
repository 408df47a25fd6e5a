"""Finds pairs among the runs of a result folder, and runs partners on the model."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from tcpassay import _native
from tcpassay.errors import Place, UserError
from tcpassay.finding import Finding, Severity
from tcpassay.messages import METRICS_ONLY, Outcome, Triples
from tcpassay.pairs.relation import RELATIONS, Relation
from tcpassay.pairs.verdict import Pair, Verdict, judged
from tcpassay.result_format import RunRow
from tcpassay.results import Results
from tcpassay.run import inputs
from tcpassay.substrate.model import held


def _done(results: Results) -> list[RunRow]:
    runs: list[RunRow] = [
        run
        for run in results.runs
        if run.get("outcome") == Outcome.DONE
        and run.get("metrics")
        and run.get("triples")
        and not run.get("script")
    ]
    if not runs:
        raise UserError("no run in this folder has settings and metrics to compare", Place(results.folder))
    return runs


def _key(triples: Triples, without: str) -> str:
    return json.dumps({path: value for path, value in triples.items() if path != without}, sort_keys=True)


def among(results: Results) -> list[Verdict]:
    """Pairs of runs in the folder that differ in one setting of `RELATIONS`, or in their substrate alone."""
    runs = _done(results)
    found = list(_findings(results.found))
    pairs: list[Pair] = []
    for relation in RELATIONS:
        pairs += _related(runs, relation)
    pairs += _substrates(runs, found)
    return [verdict for pair in pairs if (verdict := judged(pair)) is not None]


def _related(runs: list[RunRow], relation: Relation) -> Iterator[Pair]:
    groups: dict[str, dict[str, dict[int, RunRow]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        key = _key(run["triples"], relation.path) + str(run.get("substrate"))
        groups[key][str(run["case"])][int(run["seed"])] = run
    for group in groups.values():
        for case, own in group.items():
            value = next(iter(own.values()))["triples"].get(relation.path, relation.default)
            for partner, others in group.items():
                other = next(iter(others.values()))["triples"].get(relation.path, relation.default)
                seeds = tuple(sorted(own.keys() & others.keys()))
                if seeds and relation.easier(value, other):
                    first, second = (tuple(some[seed]["metrics"] for seed in seeds) for some in (own, others))
                    yield Pair(
                        relation.path,
                        str(value),
                        str(other),
                        relation.why,
                        case,
                        partner,
                        seeds,
                        first,
                        second,
                    )


def _findings(found: Iterable[Finding]) -> Iterator[tuple[str, int, str]]:
    for one in found:
        if one.severity not in {Severity.NOTE, Severity.DIFFERENCE} and one.seed is not None:
            yield one.case, one.seed, one.oracle


def _substrates(runs: list[RunRow], found: list[tuple[str, int, str]]) -> Iterator[Pair]:
    groups: dict[tuple[str, int], list[RunRow]] = defaultdict(list)
    for run in runs:
        groups[_key(run["triples"], ""), int(run["seed"])].append(run)
    for (_, seed), group in groups.items():
        model = [run for run in group if run.get("substrate", "model") == "model"]
        for run in group if model else []:
            if run is model[0] or run.get("substrate", "model") == "model":
                continue
            oracles = tuple(
                tuple(
                    sorted({oracle for case, one, oracle in found if (case, one) == (str(of["case"]), seed)})
                )
                for of in (model[0], run)
            )
            yield Pair(
                "substrate",
                "model",
                str(run["substrate"]),
                "a case has similar results on the model and on a kernel",
                str(model[0]["case"]),
                str(run["case"]),
                (seed,),
                (model[0]["metrics"],),
                (run["metrics"],),
                (oracles[0], oracles[1]),
            )


def made(
    results: Results, most: int, seeds: int, watch: Callable[[str], None] = lambda _: None
) -> Iterator[Verdict]:
    """Runs partners on the model and returns the verdicts: for each run, one partner per relation with an easier value.

    Partners are run for at most `most` cases, in the order of the folder, with `seeds` seeds if a run has random
    events. `watch` is told which case is next, before it runs.
    """
    base = str(inputs.base_of(results.folder))
    own: dict[str, RunRow] = {}
    for run in _done(results):
        if run.get("substrate", "model") == "model":
            own.setdefault(str(run["case"]), run)
    chosen = list(own.values())[:most]
    for place, run in enumerate(chosen, 1):
        watch(f"case {place} of {len(chosen)}")
        for relation in RELATIONS:
            pair = _made(run, relation, base, seeds)
            if pair and (verdict := judged(pair)):
                yield verdict


def _made(run: RunRow, relation: Relation, base: str, seeds: int) -> Pair | None:
    """The run with an easier value; `None` if there is no easier value or the data plane refuses it."""
    triples = dict(run["triples"])
    value = triples.get(relation.path, relation.default)
    amount = relation.amount(value)
    if amount is None or amount <= 0:
        return None
    other = triples | {relation.path: relation.partner(amount)}
    numbers = tuple(range(int(run["seed"]), int(run["seed"]) + seeds))
    try:
        both = [
            tuple(held(one, seed, base, METRICS_ONLY).metrics for seed in numbers) for one in (triples, other)
        ]
    except _native.CaseError:
        return None
    after = str(other[relation.path])
    return Pair(
        relation.path, str(value), after, relation.why, str(run["case"]), "", numbers, both[0], both[1]
    )
