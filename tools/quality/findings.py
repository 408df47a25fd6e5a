"""How findings of two runs are compared."""


def known_as(oracle: str, title: str) -> tuple[str, str]:
    """What identifies a finding in the comparison of two runs: its oracle and the end of its title."""
    return oracle, title.rpartition(": ")[2]
