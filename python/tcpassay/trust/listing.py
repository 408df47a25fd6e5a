"""What a plan or result folder needs and would execute, for `tcpassay inspect`."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tcpassay._native import __version__
from tcpassay.errors import Place, UserError
from tcpassay.kernel import store
from tcpassay.plan import document, extends, words
from tcpassay.plan.model import PlanFile
from tcpassay.results import Results, load
from tcpassay.run.environment import table_version
from tcpassay.testbed import file as testbeds
from tcpassay.trust import accepted, needs
from tcpassay.trust.needs import Needed, Needs


@dataclass(frozen=True, slots=True)
class Listed:
    """The needs of a plan or result folder, compared with this machine."""

    path: Path
    needs: Needs
    accepted: frozenset[str]
    """The digests that the user has accepted or run."""
    made_by: dict[str, str]
    """Versions with which the runs were made."""
    notes: list[str]

    def is_accepted(self, one: Needed) -> bool:
        """Whether the user has accepted or run a file with this content."""
        return one.sha256 in self.accepted

    @property
    def testbeds(self) -> dict[str, bool]:
        """Names of testbeds, and whether the user's settings have them."""
        return {name: (testbeds.settings() / f"{name}.toml").is_file() for name in self.needs.named("remote")}

    @property
    def kernels(self) -> dict[str, bool]:
        """Names of kernels, and whether they are built."""
        built = {kernel.name for kernel in store.kernels()}
        return {name: name in built for name in self.needs.named("kernel")}

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""

        def rows(files: list[Needed]) -> list[dict[str, object]]:
            return [
                {
                    "is": one.words,
                    "name": one.name,
                    "file": str(one.file),
                    "sha256": one.sha256,
                    "accepted": self.is_accepted(one),
                }
                for one in files
            ]

        return {
            "path": str(self.path),
            "made_by": self.made_by,
            "this_version": {"tcpassay": __version__, "tables": table_version()},
            "substrates": self.needs.substrates,
            "code": rows(self.needs.code),
            "outside": rows(self.needs.outside),
            "testbeds": self.testbeds,
            "kernels": self.kernels,
            "notes": self.notes,
        }


def listed(path: Path) -> Listed:
    """Reads a plan or result folder; nothing of it is executed. Raises `UserError`."""
    if path.is_dir():
        return _of_folder(load(path))
    doc = extends.load(document.read_text(path), path)
    try:
        spec = PlanFile.model_validate(doc.data)
    except ValidationError as error:
        raise UserError.several(words.problems(error, doc)) from None
    try:
        needed = needs.of_plan(spec, path.parent)
    except ValueError as error:
        raise UserError(str(error), Place(path)) from None
    return Listed(path, needed, accepted.known(), {}, [])


def _of_folder(results: Results) -> Listed:
    needed = needs.of_folder(results.folder)
    with_versions = {name: results.environment.get(name) for name in ("tcpassay", "tables")}
    made_by = {name: said for name, said in with_versions.items() if isinstance(said, str)}
    return Listed(
        results.folder, needed, accepted.known(), made_by, [str(problem) for problem in results.noted]
    )
