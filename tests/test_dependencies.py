"""docs/dev/dependencies.md has a row for each direct dependency, with the version in the lock files."""

import re
import tomllib

from plans import REPOSITORY

TEXT = (REPOSITORY / "docs" / "dev" / "dependencies.md").read_text(encoding="utf-8")
ROWS = {
    name: version
    for names, versions in re.findall(r"^\| ([\w\-, ]+?) \| ([\w.+\-, ]+?) \|", TEXT, re.MULTILINE)
    for name, version in zip(names.split(", "), versions.split(", "), strict=False)
}


def _crates() -> dict[str, set[str]]:
    """The direct dependencies on other projects, with their versions."""
    wanted = set()
    for folder in (REPOSITORY / "crates", REPOSITORY / "fuzz"):
        for file in folder.glob("**/Cargo.toml"):
            manifest = tomllib.loads(file.read_text(encoding="utf-8"))
            for section in ("dependencies", "dev-dependencies", "build-dependencies"):
                wanted |= set(manifest.get(section, {}))
    versions: dict[str, set[str]] = {}
    for lock in (REPOSITORY / "Cargo.lock", REPOSITORY / "fuzz" / "Cargo.lock"):
        for package in tomllib.loads(lock.read_text(encoding="utf-8"))["package"]:
            if package["name"] in wanted and "source" in package:
                versions.setdefault(package["name"], set()).add(package["version"].partition("+")[0])
    return versions


def test_each_direct_dependency_in_rust_has_a_row_with_its_locked_version() -> None:
    crates = _crates()
    assert len(crates) > 20
    wrong = {name: versions for name, versions in crates.items() if ROWS.get(name) not in versions}
    assert wrong == {}


def test_each_direct_dependency_in_python_is_listed() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = project["project"]["dependencies"] + project["build-system"]["requires"]
    for extra in project["project"].get("optional-dependencies", {}).values():
        wanted += extra
    names = {re.match(r"[\w.\-]+", one)[0] for one in wanted}
    assert len(names) >= 8
    assert [name for name in sorted(names) if re.search(rf"\b{name}\b", TEXT, re.IGNORECASE) is None] == []
