"""Settings and fixtures of all Python tests."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from patience import SAFETY_NET_S
from tcpassay.errors import UserError
from tcpassay.substrate.agent import agent_program
from tcpassay.trust import consent
from tcpassay.trust.consent import Consent

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOST = Path(__file__).parent / "host"
HOW_CHROMIUM = "`make test` installs it as root; else: apt-get install chromium"

LONGEST = (
    "test_plans.py", "site/test_pages.py", "testbed/test_remote.py", "kernel/test_kernel_run.py",
    "kernel/test_kernel_isolate.py", "testbed/test_failures.py", "testbed/test_kills.py",
    "quality/test_coverage_plan.py", "kernel/test_fidelity.py",
    "kernel/test_kernel_compare.py", "isolate/test_isolate.py", "report/test_browser.py", "script/test_drawn.py",
    "script/test_script.py", "isolate/test_find_dctcp_bug.py", "stacks/test_check.py",
)  # fmt: skip
"""Files that take longest. They come first, so that at the end no process waits for another one."""

# The duration of an example depends on the machine, not on the tested code.
NO_CLOCK = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same examples in each run, so that a new failure is caused by a change. `pytest --hypothesis-profile=search`
# uses new examples.
settings.register_profile("search", **NO_CLOCK)
settings.register_profile("tcpassay", **NO_CLOCK, derandomize=True)
settings.load_profile("tcpassay")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of the substrate `host`, which measure in real time and must not run in parallel with others.

    The longest files come first.
    """
    for item in items:
        if HOST in item.path.parents:
            item.add_marker("realtime")
    places = {HOST.parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(autouse=True, scope="session")
def _state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the code that tests accept apart from what the user has accepted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _no_consent() -> Iterator[None]:
    """Each test begins in a process that may execute no code of plans."""
    consent.use(Consent())
    yield
    consent.use(Consent())


@pytest.fixture
def agent() -> None:
    """Skips the test, with the reason, if no agent is built."""
    try:
        agent_program()
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def chromium() -> Iterator["Browser"]:
    """A real browser: Debian's Chromium, controlled by Playwright, which does not download another one.

    It is one for all tests of a process: a second driver cannot run beside it.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium")
    if found is None:
        pytest.skip(f"there is no `chromium` to open the report with; {HOW_CHROMIUM}")
    arguments = ["--no-sandbox", "--disable-background-networking", "--no-first-run"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=arguments, timeout=SAFETY_NET_S * 1000
        )
        yield browser
        browser.close()
