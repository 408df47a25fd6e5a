"""The list of experiments, and the plan of an experiment on a substrate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tcpassay.errors import Place, UserError
from tcpassay.experiments.readings import READINGS
from tcpassay.interface import METRICS
from tcpassay.kernel import modules, series, store
from tcpassay.plan import document, experiment_table, model, read, write
from tcpassay.plan.read import Plan

FOLDER: Final = Path("plans") / "papers"
MODEL: Final = "model"
KERNEL: Final = "kernel"
Where = Literal["model", "kernel"]
_SOURCE: Final = Path(__file__).parents[3]
"""The source tree, if the package is used from one."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A plan that compares its runs with a paper."""

    plan: Plan
    told: experiment_table.Experiment

    @property
    def name(self) -> str:
        """The name of the plan."""
        return self.plan.spec.name

    @property
    def substrates(self) -> tuple[Where, ...]:
        """The substrates that can run it."""
        return (MODEL,) if self.told.not_on_kernel else (MODEL, KERNEL)

    def slower_by(self, substrate: Where) -> float:
        """How many times slower the network of a substrate is than that of the plan."""
        factor = self.told.kernel.slower_by if substrate == KERNEL else None
        return 1.0 if factor is None else float(factor)

    def planted(self, substrate: Where) -> bool:
        """Whether the fault of the experiment is planted on a substrate."""
        return substrate == KERNEL and self.told.kernel.planted

    def on(self, substrate: Where) -> Plan:
        """The plan on a substrate. Raises `UserError` if it cannot run there."""
        if substrate == MODEL:
            return self.plan
        if self.told.not_on_kernel:
            raise UserError(f"`{self.name}` cannot run on `{substrate}`: {self.told.not_on_kernel}")
        file = self.plan.file
        text = write.toml(self._changed(substrate), f"{self.name} on {substrate}.")
        return read.read(text, file.with_name(f"{self.name}-{substrate}.toml"))

    def kernel(self) -> str:
        """The name of the kernel with the modules of the experiment. Raises `UserError` if it is not built."""
        wanted = self.told.kernel.modules
        name = store.find().name
        if set(wanted) <= set(store.find().modules):
            return name
        name = series.kernel_name(name, modules.read([Path(one) for one in wanted]))
        if store.read(name) is None:
            asked = " ".join(f"--module {one}" for one in wanted)
            raise UserError(
                f"`{self.name}` needs the kernel `{name}`: `tcpassay kernel build --debian 6.1 {asked}`"
            )
        return name

    def _changed(self, substrate: Where) -> model.PlanFile:
        """The plan without its checks, which are for the model, and with its changes for the substrate."""
        spec, told = self.plan.spec, self.told.kernel
        kernel = f"{substrate}:{self.kernel()}" if told.modules else substrate
        gone = {*told.leave_out, *told.fixed, *told.axes}
        groups = {
            name: {
                level: {path: value for path, value in triples.items() if path not in told.leave_out}
                for level, triples in levels.items()
            }
            for name, levels in spec.groups.items()
        }
        update: dict[str, object] = {
            "substrates": [kernel],
            "fixed": {path: value for path, value in spec.fixed.items() if path not in gone} | told.fixed,
            "axes": {path: axis for path, axis in spec.axes.items() if path not in gone} | told.axes,
            "groups": groups | told.groups,
            "check": [],
            "seeds": told.seeds or spec.seeds,
            "scripts": [] if told.without_scripts else spec.scripts,
        }
        return spec.model_copy(update=update)


def folder(given: Path | None) -> Path:
    """The folder of the plans: the given one, `plans/papers` here, or that of the source tree. Raises `UserError`."""
    places = [given] if given is not None else [FOLDER, _SOURCE / FOLDER]
    for place in places:
        if place.is_dir():
            return place
    raise UserError("there is no folder of experiments; `--plans DIR` names one", Place(places[0]))


def names(place: Path) -> list[str]:
    """The names of all experiments in a folder."""
    return sorted(file.stem for file in place.glob("*.toml"))


def experiment(place: Path, name: str) -> Experiment:
    """An experiment by its name, or by the path of its plan. Raises `UserError`."""
    if name.endswith(".toml") and Path(name).is_file():
        return _of(Path(name))
    known = names(place)
    if name not in known:
        hint = document.suggest(name, known) or "; `tcpassay experiments list` lists them"
        raise UserError(f"`{name}`: there is no such experiment{hint}", Place(place))
    return _of(place / f"{name}.toml")


def _of(file: Path) -> Experiment:
    plan = read.read_file(file)
    told = plan.spec.experiment
    if told is None:
        raise UserError("the plan has no table [experiment]", Place(file))
    columns = [column for table in told.table for column in table.column]
    known = [*METRICS, *READINGS]
    for one in (*told.claim, *told.quote, *columns):
        if one.metric not in known:
            hint = document.suggest(one.metric, known) or (
                "; `tcpassay metrics` and `tcpassay experiments readings` list them"
            )
            raise UserError(
                f"[experiment]: `{one.metric}` is neither a metric nor a reading{hint}", Place(file)
            )
    return Experiment(plan, told)


def every(place: Path) -> list[Experiment]:
    """All experiments of a folder, in the order of their names. Raises `UserError`."""
    return [experiment(place, name) for name in names(place)]
