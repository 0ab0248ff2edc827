"""Check a certificate against a model file, from scratch, with the standard library only.

python -m quadlens_checker CERTIFICATE MODEL
python -m quadlens_checker --write checker.pyz     (the checker as one file: python checker.pyz CERTIFICATE MODEL)
"""

import argparse
import sys

from quadlens_checker import limits
from quadlens_checker.archive import archive
from quadlens_checker.verdict import Report, check


def parser() -> argparse.ArgumentParser:
    """The words this program understands."""
    words = argparse.ArgumentParser(
        prog="quadlens_checker", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("certificate", metavar="CERTIFICATE", nargs="?", help="a file that `quadlens certify` wrote")
    words.add_argument("model", metavar="MODEL", nargs="?", help="the model file it is about")
    words.add_argument("--max-seconds", type=float, default=limits.DEFAULT_SECONDS, help="give up after this many")
    words.add_argument("--write", metavar="FILE", help="write this checker as one file that Python runs")
    return words


def said(report: Report) -> str:
    """A report in words, the verdict first."""
    text = f"{report.verdict}: {report.reason} ({report.seconds:.1f} s)\n"
    return f"{text}{report.statement}\n" if report.statement else text


def main(arguments: list[str]) -> int:
    """Print the verdict; exit 0 verified, 1 rejected, 2 usage or missing files."""
    words = parser()
    asked = words.parse_args(arguments)
    if (asked.write is None) == (asked.model is None):
        words.error("give a certificate and a model file, or --write and a file name")
    try:
        if asked.write is not None:
            with open(asked.write, "wb") as stream:
                stream.write(archive())
            return 0
        report = check(asked.certificate, asked.model, asked.max_seconds)
    except (OSError, ValueError) as error:
        words.error(str(error))
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(said(report).encode(encoding, "backslashreplace").decode(encoding))  # a verdict always prints
    return 0 if report.verdict == "VERIFIED" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
