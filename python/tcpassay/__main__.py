"""`python -m tcpassay`, which is the command `tcpassay`."""

import gc
import os


def main() -> None:
    """Imports the command line, and runs it."""
    # numpy starts threads for linear algebra, which nothing here has and which wait busily.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # What is imported stays: to look through it again and again for what may go is a seventh of the start.
    gc.disable()
    from tcpassay import cli  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    cli.main()


if __name__ == "__main__":
    main()
