"""Decide every network on sequences in a directory of checkpoints: data/adders.csv.

    python experiments/adders.py DIR [--keep OUT] [--only TEXT] [--seconds N] [--unchecked]
    python experiments/adders.py --table        # what docs/sequences.md shows of data/adders.csv
    python experiments/adders.py --counts       # how many are right, in sentences

DIR has clones of the repositories that adders.toml names, each as OWNER/NAME, or any checkpoints
that `quadlens import` reads. Of a program that has its weights in its text (a path in adders.toml
that ends in .py) the numbers are read from the text, and nothing in it is executed. Each checkpoint
is read, decided by `quadlens certify` and, where that wrote a certificate, checked by `quadlens
check`, one process each; seconds are of the processor, in this run. --keep leaves models,
certificates and what was found in OUT, so that a run goes on where it was stopped. Rows of networks
that are not in DIR stay.
"""

import argparse
import ast
import contextlib
import csv
import dataclasses
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np

from quadlens.base.errors import BadFile
from quadlens.base.numbers import at_least, at_most
from quadlens.network.native import load_file
from quadlens.network.sequence_forward import answered_right, sequence_config
from quadlens.network.sequence_task import expand
from quadlens.readers.registry import checkpoints_in

FACTS = Path(__file__).with_suffix(".toml")
DATA = Path(__file__).parent / "data" / "adders.csv"
FIELDS = ("repository", "path", "stated", "verdict", "margin_proved", "margin_attained",
          "wrong_at_least", "wrong_at_most", "drawn", "drawn_wrong", "input", "answer", "seconds",
          "checked", "check_seconds", "check_megabytes", "certificate_megabytes")  # fmt: skip
DRAWN = 20_000
# A network that answers at least this share of random inputs right is counted as nearly right: the
# board's own rule.
NEARLY = 0.99
HEADER = ("checkpoint", "stated", f"right of {DRAWN:,} random", "verdict",
          "margin, or an input and its answer", "wrong inputs", "seconds to decide",
          "to check")  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """A command's exit code, what it printed, its processor seconds and the most memory it had."""

    code: int
    out: str
    err: str
    seconds: float
    megabytes: float = 0.0


def quadlens(*words: str, limit: float) -> Ran:
    """Run a command in a process of its own; the code is -9 after `limit` seconds."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "quadlens", *words], stdout=out, stderr=err
        )
        timer = threading.Timer(limit, process.kill)
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        said = out.read().decode(), err.read().decode()
    return Ran(process.returncode, *said, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def facts_of(path: Path, facts: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """What adders.toml says of a file, by the end of its path; nothing where it is silent."""
    for fact in facts:
        name = fact["repository"].partition("/")[2]
        if str(path).endswith(fact["path"]) and name in str(path):
            return fact
    return {}


def several(n: int, up: bool = True) -> str:
    """An exact count; four digits and a power of ten where it is long, rounded up or down."""
    power = len(str(n)) - 4
    if n < 10**6:
        return f"{n:,}"
    digits = n // 10**power + (1 if up and n % 10**power else 0)
    return f"{digits / 1000:.3f}·10^{power + 3}"


def facts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What `quadlens certify` found, as fields."""
    least, most = summary["wrong_inputs"]
    row = {"verdict": summary["verdict"], "wrong_at_least": least, "wrong_at_most": most}
    row |= {
        "margin_proved": summary["margin_lower_bound"],
        "margin_attained": summary["margin_attained"],
    }
    example = summary["counter_example"]
    if example is None:
        return row
    asked, tokens = example["input"], example["answered"]
    if summary["task"].startswith("add:"):
        digits = list(itertools.takewhile(lambda token: token < 10, tokens))
        answer = str(sum(digit * 10**i for i, digit in enumerate(digits)))
        return row | {"input": f"{asked[0]} + {asked[1]}", "answer": answer}
    return row | {"input": str(asked), "answer": str(tokens)}


def weights_in_text(program: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a dictionary of torch.tensor([...]) in a program's text, in float32."""
    tensors: dict[str, np.ndarray] = {}
    for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(value, ast.Call) and value.args:
                tensors[str(key.value)] = np.array(
                    ast.literal_eval(value.args[0]), dtype=np.float32
                )
    return tensors


def with_weights(path: Path, saved: Path) -> Path:
    """Return the file itself, or where the weights in a program's text are saved."""
    if path.suffix != ".py":
        return path
    np.savez(saved, **weights_in_text(path))  # type: ignore[arg-type]
    return saved


def checkpoints(directory: Path, known: Sequence[Mapping[str, str]]) -> list[Path]:
    """Return the checkpoints below a directory and its programs of adders.toml.

    Such a program has its weights in it.
    """
    programs = [path for path in sorted(directory.rglob("*.py")) if facts_of(path, known)]
    with contextlib.suppress(*([BadFile] if programs else [])):
        return [*checkpoints_in(directory), *programs]
    return programs


def drawn(model: Path) -> dict[str, int]:
    """Count wrong answers to DRAWN random inputs in float64; a proof should agree with it."""
    weights = load_file(model)
    words = expand(sequence_config(weights)).random_words(DRAWN, 0)
    return {"drawn": DRAWN, "drawn_wrong": int((~answered_right(weights, words)).sum())}


def once(result: Path, *words: str, limit: float) -> Ran:
    """As `quadlens`, but what was found before, and is still there, is not computed again."""
    if result.is_file():
        return Ran(**json.loads(result.read_text(encoding="utf-8")))
    run = quadlens(*words, "--json", "--quiet", limit=limit)
    result.write_text(json.dumps(dataclasses.asdict(run)), encoding="utf-8")
    return run


def rows(directory: Path, kept: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row for each checkpoint that is read."""
    known = tomllib.loads(FACTS.read_text(encoding="utf-8"))["adder"]
    for path in checkpoints(directory, known):
        if given.only not in str(path):
            continue
        fact, name = facts_of(path, known), str(path.relative_to(directory))
        model, certificate, read_as, decided_as, checked_as = (
            kept / f"{name.replace('/', '_')}.{end}"
            for end in ("safetensors", "cert.json", "read", "decided", "checked")
        )
        hints = [
            word
            for key in ("task", "activation")
            if key in fact
            for word in (f"--{key}", fact[key])
        ]
        source = with_weights(path, model.with_suffix(".npz"))
        read = once(read_as, "import", str(source), "-o", str(model), *hints, limit=given.seconds)
        row: dict[str, Any] = {
            "repository": fact.get("repository", ""),
            "path": fact.get("path", name),
        }
        row |= {"stated": fact.get("claimed", "–")}
        if read.code != 0:
            yield row | {"verdict": f"not read: {read.err.strip()[:200]}"}
            continue
        decided = once(
            decided_as, "certify", str(model), "-o", str(certificate), limit=given.seconds
        )
        row |= {
            "seconds": round(decided.seconds, 1),
            "verdict": f"not decided: {decided.err.strip()[-200:]}",
        }
        if decided.out:
            row |= facts(json.loads(decided.out)) | drawn(model)
        if certificate.is_file():
            row |= {"certificate_megabytes": round(certificate.stat().st_size / 1e6, 2)}
        if certificate.is_file() and not given.unchecked:
            limits = ("--max-seconds", f"{given.seconds:g}")
            checked = once(
                checked_as, "check", str(certificate), str(model), *limits, limit=given.seconds + 10
            )
            said = json.loads(checked.out)["verdict"] if checked.out else "FAILED"
            row |= {"checked": said, "check_seconds": round(checked.seconds, 1)}
            row |= {"check_megabytes": round(checked.megabytes) or ""}
        yield row


def name_of(row: Mapping[str, str]) -> str:
    """Return what tables call a network."""
    short = row["path"] if row["path"].endswith("/best.pt") else Path(row["path"]).name
    return f"{row['repository'].partition('/')[0]}: `{short}`" if row["repository"] else row["path"]


def line(row: Mapping[str, str]) -> str:
    """One line of the table."""
    name = name_of(row)
    verdict, most = "wrong", row["wrong_at_most"]
    shown, wrong = (
        f"{row['input']} → {row['answer']}",
        f"at least {several(int(row['wrong_at_least'] or 0), up=False)}",
    )
    if row["verdict"] == "CERTIFIED":
        proved = Decimal(row["margin_proved"]).normalize(Context(prec=4, rounding=ROUND_FLOOR))
        shown, wrong = f"≥ {proved:f}, attained {float(row['margin_attained']):.4g}", "0"
        verdict = "**right on all**"
    elif row["verdict"] != "WRONG":
        verdict, shown, wrong = row["verdict"], "", f"at most {several(int(most))}" if most else "–"
    elif most:
        wrong = f"{several(int(row['wrong_at_least']), up=False)} … {several(int(most))}"
    checked = row["check_seconds"] if row["checked"] == "VERIFIED" else row["checked"]
    right = f"{int(row['drawn']) - int(row['drawn_wrong']):,}" if row["drawn"] else "–"
    cells = (name, row["stated"], right, verdict, shown, wrong, row["seconds"], checked)
    return f"| {' | '.join(cell or '–' if cell is not shown else cell for cell in cells)} |"


def table(data: Path = DATA) -> str:
    """The table of docs/sequences.md."""
    with data.open(encoding="utf-8", newline="") as file:
        lines = [line(row) for row in csv.DictReader(file)]
    return "\n".join([f"| {' | '.join(HEADER)} |", f"|{'---|' * len(HEADER)}", *lines])


def counts(data: Path = DATA) -> dict[str, float]:
    """Return how many networks are right everywhere, of those that are nearly right at random."""
    with data.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    failing = [int(row["drawn_wrong"]) / int(row["drawn"]) for row in rows]
    nearly = [row for row, share in zip(rows, failing, strict=True) if share <= 1 - NEARLY]
    wrong = [row for row in nearly if row["verdict"] == "WRONG"]
    stated = [row for row in wrong if re.match(r"100(\.0+)? %", row["stated"])]
    others = [share for share in failing if share > 1 - NEARLY]
    return {
        "networks": len(rows),
        "nearly_right": len(nearly),
        "right": sum(row["verdict"] == "CERTIFIED" for row in nearly),
        "wrong": len(wrong),
        "wrong_stated_100": len(stated),
        "others": len(others),
        "others_fail_least": min(others, default=0.0),
        "others_fail_most": max(others, default=0.0),
    }


def sentences(data: Path = DATA) -> str:
    """Return what README and docs/sequences.md say of the counts."""
    found = counts(data)
    low, high = (
        at_least(100 * found["others_fail_least"], 0),
        at_most(100 * found["others_fail_most"], 0),
    )
    return (
        f"Of {found['networks']} public networks of other groups, {found['nearly_right']} answer "
        f"at least {100 * NEARLY:g} % of {DRAWN:,} random inputs right. **Of these, "
        f"{found['right']} are right on all inputs and {found['wrong']} are not**, each with an "
        f"input that it answers wrong; {found['wrong_stated_100']} of the {found['wrong']} are "
        f"published as 100 %. The other {found['others']} fail on {low}–{high} % of random inputs."
    )


def update(row: Mapping[str, Any], data: Path = DATA) -> None:
    """Put a row in its place, or at the end."""
    found: list[Mapping[str, Any]] = []
    if data.is_file():
        with data.open(encoding="utf-8", newline="") as file:
            found = list(csv.DictReader(file))
    key = (row["repository"], row["path"])
    places = [i for i, one in enumerate(found) if (one["repository"], one["path"]) == key]
    whole = dict.fromkeys(FIELDS, "") | {
        name: "" if value is None else value for name, value in row.items()
    }
    found = [whole if i in places else one for i, one in enumerate(found)] + (
        [] if places else [whole]
    )
    with data.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


def main() -> None:
    """Rows of the data file as networks are decided, and their lines of the table on stdout."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--table", action="store_true", help="Only print the table.")
    parser.add_argument("--counts", action="store_true", help="Only print how many are right.")
    parser.add_argument("--keep", type=Path, help="Where models and certificates are left.")
    parser.add_argument("--only", default="", help="Only checkpoints with this in their path.")
    parser.add_argument(
        "--seconds", type=float, default=600, help="For each command, by the clock."
    )
    parser.add_argument("--unchecked", action="store_true", help="Do not run the checker.")
    given = parser.parse_args()
    if given.table or given.counts or given.directory is None:
        print(sentences() if given.counts else table())
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as scratch:
        kept = given.keep or Path(scratch)
        kept.mkdir(parents=True, exist_ok=True)
        for row in rows(given.directory, kept, given):
            update(row)
            with DATA.open(encoding="utf-8", newline="") as file:
                print(
                    *(line(one) for one in csv.DictReader(file) if one["path"] == row["path"]),
                    sep="\n",
                    flush=True,
                )


if __name__ == "__main__":
    main()
