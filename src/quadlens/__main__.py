"""`python -m quadlens`, and the program `quadlens`."""

import gc
import os
import signal


def _stop_at_once(number: int, frame: object) -> None:
    """Ctrl-C while libraries load or the process ends: there is nothing to save and nobody to catch an exception."""
    os.write(2, b"stopped\n")
    os._exit(130)


def main() -> None:
    """Run the command line; Ctrl-C is not a stack trace at any moment, so the handler comes before all imports."""
    signal.signal(signal.SIGINT, _stop_at_once)
    gc.set_threshold(
        50_000, 20, 50
    )  # what libraries make while they load stays: to look through it again takes time
    from quadlens.cli.main import main as command_line

    try:
        command_line()
    finally:
        signal.signal(signal.SIGINT, _stop_at_once)


# Worker processes import this file again; they must not run the command again.
if __name__ == "__main__":
    main()
