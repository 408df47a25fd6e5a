"""What a search found, for the page."""

from tcpassay.interface import METRICS
from tcpassay.plan.expand import show
from tcpassay.report.page_data import FoundData, SearchData
from tcpassay.result_format import RunRow, SearchRow
from tcpassay.results import Results
from tcpassay.search.show import value_text


def search_data(results: Results) -> SearchData | None:
    """The part of the page about a search; `None` for a plan whose cases do not depend on results."""
    said = results.index.get("search")
    if said is None:
        return None
    return _searched(said, results.runs)


def _searched(said: SearchRow, runs: list[RunRow]) -> SearchData:
    wanted = f"the {said['worst']} {said['metric']}" if said["metric"] else f"a finding of {said['finding']}"
    lead = f"The worst cases for {wanted} in {said['generations']} generations. {_ended(said['ended'])}"
    places: dict[str, int] = {}
    for place, run in enumerate(runs):
        places.setdefault(run["case"], place)
    best: list[FoundData] = [
        {
            "run": places[one["case"]],
            "case": one["case"],
            "value": one["value"],
            "text": value_text(said, one),
            "settings": ", ".join(
                f"{name}={show(value)}"
                for name, value in (runs[places[one["case"]]].get("varied") or {}).items()
            ),
        }
        for one in said["best"]
        if one["case"] in places
    ]
    path = [(one["runs"], one["value"]) for one in said["path"] if one["value"] is not None]
    metric = said["metric"] or "found"
    unit = METRICS[metric].unit if metric in METRICS else "1"
    return {"lead": lead, "metric": metric, "unit": unit, "runs": said["runs"], "path": path, "best": best}


def _ended(why: str) -> str:
    return f"{why[:1].upper()}{why[1:]}." if why else "It was not complete."
