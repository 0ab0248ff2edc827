"""The program `quadlens`."""

import gc
import os
import signal


def _stop_at_once(number: int, frame: object) -> None:
    """End on Ctrl-C while libraries load or the process ends, when there is nothing to save."""
    os.write(2, b"stopped\n")
    os._exit(130)


def main() -> None:
    """Run the command line.

    The handler comes before all imports, so that Ctrl-C is not a stack trace at any moment.
    """
    signal.signal(signal.SIGINT, _stop_at_once)
    # What libraries make while they load stays; looking through it again takes time.
    gc.set_threshold(50_000, 20, 50)
    from quadlens.cli.main import main as command_line

    try:
        command_line()
    finally:
        signal.signal(signal.SIGINT, _stop_at_once)


# Worker processes import this file again; they must not run the command again.
if __name__ == "__main__":
    main()
