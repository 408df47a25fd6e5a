"""`python -m tcpassay`, which is the command `tcpassay`."""

import gc
import os
import signal

# Until the command has begun an interrupt ends the process without a word: there is nothing to put in order.
_interrupt = signal.getsignal(signal.SIGINT)
if _interrupt is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Imports the command line, and runs it."""
    from tcpassay import guard  # noqa: PLC0415 - after the interrupt is dealt with

    guard.prepare()
    # numpy starts threads for linear algebra, which nothing here has and which wait busily.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # What is imported stays: to look through it again and again for what may go is a seventh of the start.
    gc.disable()
    guard.guarded(_command)


def _command() -> None:
    from tcpassay import cli  # noqa: PLC0415 - slow

    gc.freeze()
    gc.enable()
    if _interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    cli.main()


if __name__ == "__main__":
    main()
