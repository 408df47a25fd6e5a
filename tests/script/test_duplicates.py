"""Acknowledgements of data that arrived twice (RFC 2018, RFC 2883), on the model and on a real Linux."""

import json

import duplicates
import pytest
from duplicates import Segment

from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.kernel import store
from tcpassay.script import linux
from tcpassay.substrate.agent import agent_program

# Cases of one connection: their data fit into a receive buffer that is read.
BATCH = 60


def batches(cases: list[list[Segment]]) -> list[list[list[Segment]]]:
    return [cases[at : at + BATCH] for at in range(0, len(cases), BATCH)]


def without_fin() -> list[list[list[Segment]]]:
    cases = [*duplicates.every_overlap(fins=False), *duplicates.drawn(1, 300, fins=False)]
    assert len(cases) > 400
    return batches(cases)


def with_fin() -> list[list[list[Segment]]]:
    every = [case for case in duplicates.every_overlap(fins=True) if any(one.fin for one in case)]
    cases = [*every, *duplicates.drawn(2, 300, fins=True)]
    assert len(cases) > 400
    return [[case] for case in cases]


def before(text: str, line: int | None) -> str:
    """The end of a script up to a line."""
    return "\n".join(text.splitlines()[: line or 0][-8:])


def failures(texts: list[str], profile: str) -> list[str]:
    reports = [json.loads(_native.run_script(text, profile, loose=False, options=[])) for text in texts]
    return [
        f"{report['line']}: {report['reason']} {report['details'][:3]}\n{before(text, report['line'])}"
        for text, report in zip(texts, reports, strict=True)
        if report["status"] != "pass"
    ]


def test_the_first_block_names_what_had_been_delivered_and_not_what_was_queued() -> None:
    # RFC 2883 section 4.2: the smallest case. 1-1000 delivered, 2001-3000 queued, then 501-2500.
    text = duplicates.OPENING + (
        "+.4 < P. 1:1001(1000) ack 1 win 32792\n"
        "+0~+.2 > . 1:1(0) ack 1001\n"
        "+.4 < P. 2001:3001(1000) ack 1 win 32792\n"
        "+0 > . 1:1(0) ack 1001 <nop,nop,sack 2001:3001>\n"
        "+.4 < P. 501:2501(2000) ack 1 win 32792\n"
        "+0 > . 1:1(0) ack 3001 <nop,nop,sack 501:1001>\n"
    )
    for profile in (
        "linux",
        "linux-6.1",
        "linux-7.3",
        "linux-4.6",
        "freebsd",
        "freebsd-rack",
        "freebsd-12",
        "rfc",
    ):
        assert not failures([text], profile)


@pytest.mark.parametrize("profile", ["linux", "linux-6.1", "linux-4.6"])
def test_the_model_of_linux_reports_every_overlap_of_old_new_and_queued_data(profile: str) -> None:
    # Linux 4.6 sends a window update when a read has opened the window.
    reads = profile != "linux-4.6"
    texts = [duplicates.script(cases, reads=reads) for cases in without_fin() + with_fin()]
    wrong = failures(texts, profile)
    assert not wrong, wrong[0]


def test_the_model_of_the_rfcs_reports_every_overlap_without_a_fin() -> None:
    # It delays an ACK up to 200 ms where nothing is missing.
    texts = [duplicates.script(cases, linux=False, delay=".21", reads=False) for cases in without_fin()]
    wrong = failures(texts, "rfc")
    assert not wrong, wrong[0]


def test_a_wrong_report_is_found() -> None:
    texts = [duplicates.script(cases, linux=False) for cases in without_fin()]
    assert failures(texts, "linux")


def test_linux_reports_every_overlap_of_old_new_and_queued_data() -> None:
    try:
        agent_program()
        store.find()
    except UserError as error:
        pytest.skip(f"no script can be run on a kernel: {error}")
    # Each script needs a process of the guest; therefore only a sample of the cases with a FIN is used.
    texts = [duplicates.script(cases) for cases in without_fin() + with_fin()[::12]]
    requests = [linux.request(text, loose=False, options=(), limit_s=linux.VIRTUAL_LIMIT_S) for text in texts]
    wrong = [
        f"{report['line']}: {report['reason']} {report['details'][:3]}\n{before(text, report['line'])}"
        for text, report in zip(texts, linux.on_kernel(requests), strict=True)
        if report["status"] != "pass"
    ]
    assert not wrong, wrong[0]
