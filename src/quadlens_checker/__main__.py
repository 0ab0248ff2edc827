"""Check a certificate against a model file, from scratch, with the standard library only.

python -m quadlens_checker CERTIFICATE MODEL
python -m quadlens_checker --write checker.pyz     (the checker as one file: python checker.pyz
CERTIFICATE MODEL)
"""

import argparse
import json
import sys
from dataclasses import asdict

from quadlens_checker import limits
from quadlens_checker.archive import archive
from quadlens_checker.guard import check
from quadlens_checker.verdict import CheckReport


def parser() -> argparse.ArgumentParser:
    """The words this program understands."""
    words = argparse.ArgumentParser(
        prog="quadlens_checker",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument(
        "certificate", metavar="CERTIFICATE", nargs="?", help="a file that `quadlens certify` wrote"
    )
    words.add_argument("model", metavar="MODEL", nargs="?", help="the model file it is about")
    words.add_argument(
        "--time-limit",
        "--max-seconds",
        dest="max_seconds",
        type=float,
        default=limits.DEFAULT_SECONDS,
        help="give up after this many",
    )
    words.add_argument(
        "--max-memory", type=int, metavar="MB", default=limits.DEFAULT_MEMORY_BYTES // 10**6
    )
    words.add_argument("--json", action="store_true", help="the report as JSON")
    words.add_argument(
        "--write", metavar="FILE", help="write this checker as one file that Python runs"
    )
    return words


def in_words(report: CheckReport) -> str:
    """A report in words, the verdict first."""
    proved = f"{report.inputs}; " if report.inputs else ""
    lines = [f"{report.verdict}: {proved}{report.reason} ({report.seconds:.1f} s)"]
    lines += [report.statement] if report.statement else []
    lines += (
        [f"Nothing is claimed about float32 execution: {report.float32}."] if report.float32 else []
    )
    lines += [report.cost_words] if report.cost_words else []
    return "".join(f"{line}\n" for line in lines)


def main(arguments: list[str]) -> int:
    """Print the verdict and return the exit code.

    0: all inputs are verified. 1: rejected, timed out, or some inputs are open. 2: wrong usage or
    no file.
    """
    words = parser()
    options = words.parse_args(arguments)
    if (options.write is None) == (options.model is None):
        words.error("give a certificate and a model file, or --write and a file name")
    try:
        if options.write is not None:
            with open(options.write, "wb") as stream:
                stream.write(archive())
            return 0
        report = check(
            options.certificate, options.model, options.max_seconds, options.max_memory * 10**6
        )
    except (OSError, ValueError) as error:
        words.error(str(error))
    encoding = sys.stdout.encoding or "utf-8"
    text = json.dumps(asdict(report)) + "\n" if options.json else in_words(report)
    sys.stdout.write(
        text.encode(encoding, "backslashreplace").decode(encoding)
    )  # a verdict always prints
    return report.exit_code


def run() -> int:
    """Check what the command line names; the installed command `quadlens-check`."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
