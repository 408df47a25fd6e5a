"""Repeats the runs of the model in a result folder, for oracles that read logs which no folder has."""

from dataclasses import replace

from tcpassay.errors import UserError
from tcpassay.judge.folders import Repeats
from tcpassay.messages import Answer, CaseRequest
from tcpassay.result_format import RunRow
from tcpassay.results import Results
from tcpassay.run.pool import Pool
from tcpassay.run.replay import request_again, spec_of, within
from tcpassay.run.settings import limits_of


def repeats(results: Results, oracles: list[str], jobs: int) -> Repeats:
    """The findings of `oracles` in the repetition of each run of the model that has a recording.

    A run that cannot be repeated identically, for example because another version made it, has the reason instead.
    """
    spec, _ = spec_of(results)
    made = Repeats()
    runs: list[RunRow] = []
    requests: list[CaseRequest] = []
    for run in results.runs:
        if run.get("substrate", "model") != "model" or run.get("recording") is None:
            continue
        try:
            within(run, results)
            asked = request_again(results.folder, run, spec, results.place_of(run))
        except UserError as error:
            made.reasons[run["case"], run["seed"]] = f"the run cannot be repeated: {error}"
            continue
        runs.append(run)
        requests.append(replace(asked, oracles=oracles, keep=False, keep_found=False, keep_events=False))
    for answers in Pool(jobs, limits_of(spec)).run(requests):
        for index, answer in answers:
            key = runs[index]["case"], runs[index]["seed"]
            if differs := _difference(runs[index], answer):
                made.reasons[key] = f"the repetition is not the same run: {differs}"
            else:
                made.findings[key] = [one.of(*key) for one in answer.findings]
    return made


def _difference(run: RunRow, answer: Answer) -> str:
    """How the repetition differs from the original; empty for the same run."""
    told = (("outcome", run["outcome"], answer.outcome), ("trace", run.get("trace"), answer.trace))
    checksums = ("checksums", run.get("digest"), answer.digest)
    return "; ".join(
        f"{name} {before} before, {now} now"
        for name, before, now in (*told, checksums)
        if before and before != now
    )
