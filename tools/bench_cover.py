"""Measures the time to generate, verify and journal cases. It is run by hand and asserts nothing.

    .venv/bin/python tools/bench_cover.py

Times are CPU seconds of this process and of the generator's process, which are stable on a busy machine.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

from tcpassay.cover.generate import Family, TWay, generate
from tcpassay.cover.space import Parameter, Space
from tcpassay.cover.verify import verify_rows
from tcpassay.messages import Outcome
from tcpassay.plan import combine, coverage, read
from tcpassay.plan.constraint_parser import parse
from tcpassay.run.journal import Journal

SIZES = [5, 5, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
RULES = (
    "IF [p0] = 1 THEN [p1] IN {1, 2}",
    "IF [p2] = 3 THEN [p12] = 1",
    "IF [p6] = 2 AND [p7] = 1 THEN [p8] = 0",
    "IF NOT [p15] = 1 THEN [p16] = 0",
    "[p3] <= [p4]",
)
CHAIN = tuple(f"[p{n}] <= [p{n + 1}] OR [p{n}] >= 2" for n in range(21))
CASES = 10_000
PLAN = Path(__file__).parent.parent / "plans" / "coverage.toml"


def space(rules: tuple[str, ...], invalid: int) -> Space:
    """22 parameters with two to five levels; the first `invalid` of them also have an invalid level."""
    parameters = (
        Parameter(f"p{n}", tuple(range(size)), (99,) if n < invalid else ()) for n, size in enumerate(SIZES)
    )
    return Space(tuple(parameters), tuple(map(parse, rules)))


def cpu() -> float:
    """CPU seconds of this process and of its terminated child processes."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def say(text: str) -> None:
    """Prints a row of the table."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def cover() -> None:
    """Generation and verification, 22 parameters."""
    family = (Family("ecn", ("p0", "p1", "p2", "p6"), 4),)
    say(f"{'22 parameters':34} {'strength':>9} {'cases':>6} {'tuples':>8} {'generate':>9} {'verify':>8}")
    for name, model in (
        ("no constraint", space((), 0)),
        ("5 constraints", space(RULES, 0)),
        ("5 constraints, 3 invalid values", space(RULES, 3)),
        ("a chain through all 22", space(CHAIN, 0)),
    ):
        for strategy in (TWay(2), TWay(2, family), TWay(3), TWay(4)):
            begin = cpu()
            suite = generate(model, strategy)
            generated = cpu()
            report = verify_rows(model, suite.rows, strategy)
            verified = cpu()
            tuples = sum(line.total for line in report.lines)
            strength = f"{strategy.strength}{' + 4' if strategy.families else ''}"
            complete = "" if report.complete else "  INCOMPLETE"
            say(
                f"{name:34} {strength:>9} {len(suite):>6} {tuples:>8} {generated - begin:>7.2f} s "
                f"{verified - generated:>6.2f} s{complete}"
            )


def plan() -> None:
    """Measures plans/coverage.toml, with its constraints and negative values, at several strengths."""
    say(
        f"\n{'plans/coverage.toml':34}{'strength':>10}{'cases':>7}{'tuples':>9}{'generate':>10}{'verify':>9}{'read':>10}"
    )
    text = PLAN.read_text(encoding="utf-8")
    for strength in (2, 3, 4):
        begin = cpu()
        made = read.read(text, PLAN, strength)
        done = cpu()
        generate(made.suite.space, combine.strategy_of(made.spec), 1)
        generated = cpu()
        report = coverage.coverage(made)
        verified = cpu()
        tuples = sum(line.total for line in report.lines)
        complete = "" if report.complete else "  INCOMPLETE"
        say(
            f"{'22 factors, with a family of 4':34} {strength:>9} {len(made.cases):>6} {tuples:>8} "
            f"{generated - done:>7.2f} s {verified - generated:>6.2f} s {done - begin:>7.2f} s{complete}"
        )


def journal() -> None:
    """Measures the journal with ten thousand cases."""
    case = {f"entity.parameter{n}": "value" for n in range(22)}
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        Journal.create(Path(folder), "plan", (case for _ in range(CASES)))
        created = time.perf_counter()
        with Journal.open(Path(folder)) as book:
            while (claim := book.claim()) is not None:
                book.finish(claim, Outcome.DONE, {"metric": 1.0})
            worked = time.perf_counter()
            done = sum(entry.outcome is Outcome.DONE for entry in book.entries())
        read = time.perf_counter()
    say(
        f"\njournal, {done} cases: create {created - begin:.2f} s, claim and finish "
        f"{(worked - created) / CASES * 1e6:.0f} us a case, read {read - worked:.2f} s (wall)"
    )


if __name__ == "__main__":
    cover()
    plan()
    journal()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(f"peak memory {peak:.0f} MiB")
