"""Settings that all Python tests share."""

from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine, and nothing about the code.
NO_CLOCK = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same examples every time: what fails has been broken by what was changed. To look for more, draw others:
# `pytest --hypothesis-profile=search`.
settings.register_profile("search", **NO_CLOCK)
settings.register_profile("tcpassay", **NO_CLOCK, derandomize=True)
settings.load_profile("tcpassay")
