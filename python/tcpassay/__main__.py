"""`python -m tcpassay`: the command `tcpassay`."""

import gc
import os
import signal
import sys

# Before the command starts, an interrupt ends the process without a message, because nothing needs to be cleaned up.
_interrupt = signal.getsignal(signal.SIGINT)
if _interrupt is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Imports the command line and runs it."""
    from tcpassay import guard  # noqa: PLC0415 - after the interrupt is dealt with

    guard.prepare()
    # numpy starts threads for linear algebra, which tcpassay does not use and which wait busily.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Imported modules stay in memory; excluding them from garbage collection saves a seventh of the start-up time.
    gc.disable()
    guard.guarded(_command)


def _command() -> None:
    from tcpassay import overview  # noqa: PLC0415 - after interrupts are dealt with

    if overview.is_asked(sys.argv[1:]):
        overview.show()
        # As of click, which a call without arguments is an error for.
        sys.exit(0 if sys.argv[1:] else 2)
    from tcpassay import cli  # noqa: PLC0415 - start-up time; interrupts are handled before

    gc.freeze()
    gc.enable()
    if _interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    cli.main()


if __name__ == "__main__":
    main()
