"""Decide every network on sequences in a directory of checkpoints, and print the table of docs/sequences.md.

    python experiments/adders.py DIR [--keep OUT] [--only TEXT] [--seconds N] [--unchecked]

DIR has clones of the repositories that adders.toml names, each as OWNER/NAME, or any checkpoints that `quadlens
import` reads. Each is read, decided by `quadlens certify` and, where that wrote a certificate, checked by `quadlens
check`, one process each; seconds are of the processor, in this run. --keep leaves models, certificates
and what was found in OUT, so that a run goes on where it was stopped.
"""

import argparse
import dataclasses
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any

from quadlens.model.formats.registry import checkpoints_in
from quadlens.model.native import load_file
from quadlens.model.sequence_forward import sequence_config
from quadlens.model.sequence_sample import answered_right, sample_words
from quadlens.model.sequence_task import expand

FACTS = Path(__file__).with_suffix(".toml")
TIMES = ("seconds to decide", "to check")


@dataclass(frozen=True)
class Ran:
    """A command's exit code, what it printed, and its processor seconds."""

    code: int
    out: str
    err: str
    seconds: float


def quadlens(*words: str, limit: float) -> Ran:
    """One command in a process of its own; code -1 where it took more than `limit` seconds by the clock."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        run = subprocess.run(
            [sys.executable, "-m", "quadlens", *words], capture_output=True, text=True, timeout=limit, check=False
        )
        code, out, err = run.returncode, run.stdout, run.stderr
    except subprocess.TimeoutExpired:
        code, out, err = -1, "", f"more than {limit:g} s"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = sum(getattr(after, key) - getattr(before, key) for key in ("ru_utime", "ru_stime"))
    return Ran(code, out, err, spent)


def facts_of(path: Path, facts: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """What adders.toml says of a file, by the end of its path; nothing where it is silent."""
    for fact in facts:
        name = fact["repository"].partition("/")[2]
        if str(path).endswith(fact["path"]) and name in str(path):
            return fact
    return {}


def several(n: int, up: bool = True) -> str:
    """An exact count; three digits and a power of ten where it is long, rounded up or down."""
    power = len(str(n)) - 3
    if n < 10**6:
        return f"{n:,}"
    digits = n // 10**power + (1 if up and n % 10**power else 0)
    return f"{digits / 100:.2f}·10^{power + 2}"


def told(summary: Mapping[str, Any]) -> tuple[str, str, str]:
    """Verdict; margin proved and attained, or an input with its answer; wrong inputs."""
    least, most = summary["wrong_inputs"]
    example = summary["counter_example"]
    if example is None and summary["margin_lower_bound"] is None:
        return summary["verdict"], "", "–"
    if example is None:
        proved = Decimal(summary["margin_lower_bound"]).normalize(Context(prec=4, rounding=ROUND_FLOOR))
        margin = f"≥ {proved:f}, attained {summary['margin_attained']:.4g}"
        return summary["verdict"], margin, "0" if most == 0 else f"at most {several(most)}"
    asked, tokens = example["input"], example["answered"]
    if summary["task"].startswith("add:"):
        digits = list(itertools.takewhile(lambda token: token < 10, tokens))
        shown = f"{asked[0]} + {asked[1]} → {sum(digit * 10**i for i, digit in enumerate(digits))}"
    else:
        shown = f"{asked} → {tokens}"
    return summary["verdict"], shown, f"{several(least, up=False)} … {several(most)}"


def sampled(model: Path) -> dict[str, Any]:
    """What a sample of 4,000 inputs shows of a network that was not decided: nothing, or a wrong input and how many."""
    weights = load_file(model)
    words = sample_words(expand(sequence_config(weights)), 4_000, 5)
    wrong = words[~answered_right(weights, words)]
    if not len(wrong) or not sequence_config(weights).task.name.startswith("add:"):
        return {}
    x, y = (sum(int(part) * 10**i for i, part in enumerate(side[:-1])) for side in divmod(wrong[0], 10))
    return {"verdict": "wrong, by a sample", "shown": f"{x} + {y}", "wrong": f"{len(wrong):,} of 4,000 drawn"}


def once(result: Path, *words: str, limit: float) -> Ran:
    """As `quadlens`, but what was found before, and is still there, is not computed again."""
    if result.is_file():
        return Ran(**json.loads(result.read_text(encoding="utf-8")))
    run = quadlens(*words, "--json", "--quiet", limit=limit)
    result.write_text(json.dumps(dataclasses.asdict(run)), encoding="utf-8")
    return run


def rows(directory: Path, kept: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row for each checkpoint."""
    facts = tomllib.loads(FACTS.read_text(encoding="utf-8"))["adder"]
    for path in checkpoints_in(directory):
        if given.only not in str(path):
            continue
        fact, name = facts_of(path, facts), str(path.relative_to(directory))
        model, certificate, read_as, decided_as, checked_as = (
            kept / f"{name.replace('/', '_')}.{end}"
            for end in ("safetensors", "cert.json", "read", "decided", "checked")
        )
        hints = [word for key in ("task", "activation") if key in fact for word in (f"--{key}", fact[key])]
        read = once(read_as, "import", str(path), "-o", str(model), *hints, limit=given.seconds)
        row: dict[str, Any] = {"network": name, "claimed": fact.get("claimed", "–")}
        if read.code != 0:
            yield row | {"verdict": f"not read: {read.err.strip()[:200]}"}
            continue
        row |= {"sample": json.loads(read.out)["correct"]}
        decided = once(decided_as, "certify", str(model), "-o", str(certificate), limit=given.seconds)
        row |= {"decide": decided.seconds, "verdict": "not decided", "shown": decided.err.strip()[-200:]}
        if decided.out:
            summary = json.loads(decided.out)
            row |= dict(zip(("verdict", "shown", "wrong"), told(summary), strict=True))
            row |= {"counter_example": summary["counter_example"]}
        else:
            row |= sampled(model)
        if certificate.is_file() and not given.unchecked:
            limits = ("--max-seconds", f"{given.seconds:g}")
            checked = once(checked_as, "check", str(certificate), str(model), *limits, limit=given.seconds + 10)
            row |= {
                "check": checked.seconds,
                "checked": json.loads(checked.out)["verdict"] if checked.out else "FAILED",
            }
        yield row


def line(row: Mapping[str, Any]) -> str:
    """One line of the table."""
    checked = "–" if "check" not in row else f"{row['check']:.1f} ({row['checked']})"
    decide = "–" if "decide" not in row else f"{row['decide']:.1f}"
    cells = (row["network"], row["claimed"], f"{row.get('sample', '–')} of 1,000", row["verdict"], row.get("shown", ""))
    return f"| {' | '.join((*cells, row.get('wrong', '–'), decide, checked))} |"


def main() -> None:
    """The table on stdout, line by line as networks are decided; all of it as JSON in OUT where --keep says so."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--keep", type=Path, help="Where models, certificates and table.json are left.")
    parser.add_argument("--only", default="", help="Only checkpoints with this in their path.")
    parser.add_argument("--seconds", type=float, default=600, help="For each command, by the clock.")
    parser.add_argument("--unchecked", action="store_true", help="Do not run the checker.")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    header = ("network", "stated accuracy", "sample right", "verdict", "margin, or an input", "wrong inputs", *TIMES)
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    with tempfile.TemporaryDirectory() as scratch:
        kept = given.keep or Path(scratch)
        kept.mkdir(parents=True, exist_ok=True)
        found = []
        for row in rows(given.directory, kept, given):
            found.append(row)
            print(line(row), flush=True)
            if given.keep is not None:
                (kept / "table.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
