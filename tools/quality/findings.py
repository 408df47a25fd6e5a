"""Comparison of the findings of two runs."""


def known_as(oracle: str, title: str) -> tuple[str, str]:
    """The key of a finding in the comparison of two runs: its oracle and the end of its title."""
    return oracle, title.rpartition(": ")[2]
