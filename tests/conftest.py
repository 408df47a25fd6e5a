"""Settings that all Python tests share."""

from hypothesis import settings

# A deadline for one example fails on a busy machine and says nothing about the code.
settings.register_profile("tcpassay", deadline=None)
settings.load_profile("tcpassay")
