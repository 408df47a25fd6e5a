"""An executor without worker processes, for tests that run a plan many times."""

from collections.abc import Generator, Iterable

from tcpassay.messages import Answer, CaseRequest
from tcpassay.run.pool import Limits
from tcpassay.run.worker import work


class Here:
    """Runs requests in this process."""

    name = "here"
    jobs = 1

    def run(self, requests: Iterable[CaseRequest], limits: Limits) -> Generator[list[tuple[int, Answer]]]:
        """Answers each request."""
        del limits
        for number, request in enumerate(requests):
            yield [(number, work(request))]
