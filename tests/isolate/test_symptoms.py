"""Which finding a name means, where several have it."""

from typing import Any

from tcpassay.finding import Finding, Severity
from tcpassay.isolate.symptoms import Symptom, chosen

LATE = ("closed although bytes are missing", Severity.ERROR)
WRONG = ("other bytes than its peer wrote", Severity.ERROR)
SMALL = ("a warning", Severity.WARNING)
RESULTS: Any = None  # read for a message only


def found(case: str, what: tuple[str, Severity], start_ns: int) -> Finding:
    return Finding(
        "delivery", what[1], what[0], "receiver", "flow.0", start_ns, start_ns, 1, "", (), (), "", case, 1
    )


def run(case: str, triples: int, *findings: tuple[tuple[str, Severity], int]) -> Symptom:
    made = tuple(found(case, *one) for one in findings)
    return Symptom(case, 1, "model", dict.fromkeys(map(str, range(triples)), 1), {}, made)


RUNS = [
    run("aa", 9, (LATE, 100), (SMALL, 1)),
    run("bb", 9, (LATE, 900), (WRONG, 244), (SMALL, 1)),
    run("cc", 5, (WRONG, 500), (SMALL, 1)),
    run("dd", 7, (WRONG, 300)),
]


def test_an_oracle_means_the_severest_effect_that_most_runs_show_in_the_run_with_the_fewest_triples() -> None:
    symptom, effect = chosen(RUNS, "delivery", RESULTS)
    assert (symptom, effect.title) == (RUNS[2], WRONG[0])


def test_of_one_run_the_effect_comes_first_that_begins_first() -> None:
    symptom, effect = chosen(RUNS, "bb", RESULTS)
    assert (symptom, effect.title) == (RUNS[1], WRONG[0])


def test_a_part_of_the_title_chooses_among_the_effects_of_a_run() -> None:
    symptom, effect = chosen(RUNS, "bb-1/delivery: missing", RESULTS)
    assert (symptom, effect.title) == (RUNS[1], LATE[0])
