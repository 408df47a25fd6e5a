"""The files of a release: bill of materials, versions, container, workflow."""

import re
import sys
import tomllib

import pytest
import yaml

from plans import REPOSITORY
from tcpassay.kernel.build import TOOLS

sys.path.insert(0, str(REPOSITORY / "tools"))
import sbom


@pytest.fixture(scope="module")
def parts() -> dict[str, dict[str, object]]:
    return {one["purl"]: one for one in sbom.document()["components"]}


def test_the_bill_of_materials_has_each_crate_with_version_licence_and_hash(
    parts: dict[str, dict[str, object]],
) -> None:
    crates = [one for purl, one in parts.items() if purl.startswith("pkg:cargo/")]
    assert len(crates) > 60
    assert not [one["name"] for one in crates if str(one["name"]).startswith("tcpassay")]
    assert not [one["name"] for one in crates if not (one.get("licenses") and one.get("hashes"))]
    (pyo3,) = [one for one in crates if one["name"] == "pyo3"]
    locked = tomllib.loads((REPOSITORY / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    assert (pyo3["version"], pyo3["hashes"]) in [
        (one["version"], [{"alg": "SHA-256", "content": one["checksum"]}])
        for one in locked
        if one["name"] == "pyo3"
    ]


def test_the_bill_of_materials_has_each_python_package_and_echarts(
    parts: dict[str, dict[str, object]],
) -> None:
    text = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    pinned = re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    assert len(pinned) > 20
    assert [one for one in pinned if not parts[f"pkg:pypi/{one[0]}@{one[1]}"].get("hashes")] == []
    assert [purl for purl in parts if purl.startswith("pkg:npm/echarts@")]


def test_the_container_installs_what_the_build_of_a_kernel_needs() -> None:
    text = (REPOSITORY / "Containerfile").read_text(encoding="utf-8")
    built = text.partition("AS built")[2].partition("FROM")[0]
    # Each image of Debian has tar.
    assert [package for package in TOOLS.values() if package != "tar" and f" {package}" not in built] == []
    assert (REPOSITORY / ".containerignore").read_text(encoding="utf-8").split() == ["*", "!out/wheel"]


def test_the_workflow_of_a_release_has_no_address_but_that_of_its_repository() -> None:
    text = (REPOSITORY / ".github/workflows/release.yml").read_text(encoding="utf-8")
    flow = yaml.safe_load(text)
    assert flow["env"] == {
        "TCPASSAY_REPOSITORY": "${{ github.server_url }}/${{ github.repository }}/blob/${{ github.ref_name }}"
    }
    assert "://" not in text
    assert "make release" in [step.get("run") for step in flow["jobs"]["release"]["steps"]]


def test_each_version_of_the_changelog_is_listed_newest_first_and_the_first_is_that_of_the_workspace() -> (
    None
):
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    listed = re.findall(r"^## (\S+)", text, re.MULTILINE)
    assert listed[-1] == "0.1.0"
    assert next(one for one in listed if one != "Unreleased") == sbom.version()
