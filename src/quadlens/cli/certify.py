"""`quadlens certify`: prove what a model answers, for every input at once.

With `--all` it does so by every strategy.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from quadlens.cli.options import Command, ModelArgument, Seconds
from quadlens.cli.output import PATIENCE, Output, key_value_table

if TYPE_CHECKING:
    from rich.console import Console

    from quadlens.network.weights import Weights
    from quadlens.proofs.pairs import Certificate
    from quadlens.proofs.sequences.certificate import SequenceCertificate

    Render = Callable[[Console], None]

# What is said of each strategy, in `frontier.csv` and `frontier.json`: keys of the JSON of
# `certify`, and two more.
COLUMNS = (
    *("strategy", "verdict", "certified_share", "margin_lower_bound", "flops", "collapse_flops"),
    *("cost_share", "cost_share_beyond_collapse", "seconds", "reason"),
)


class Help(Command):
    """The help, with the strategies as they describe themselves.

    They are loaded when it is asked for.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Add one sentence per strategy to the command's own text."""
        from quadlens.proofs.pairs import STRATEGIES

        known = [
            f"{facts.name}: {facts.description}"
            for facts in (strategy.facts for strategy in STRATEGIES.values())
        ]
        words = (
            "cells: networks on sequences, whatever the strategy: each step of decoding by "
            "cells of what it reads."
        )
        self.help = "\n\n".join([(self.help or "").strip(), "Strategies:", *known, words])
        super().format_help(ctx, formatter)


def command(
    out: Output,
    model: ModelArgument = "pizza",
    strategy: str = "auto",
    all_strategies: bool = False,
    time_limit: Seconds | None = None,
    output: Path | None = None,
) -> None:
    """Prove that a model answers its task (a + b mod p, say) on all inputs.

    The proof is written to a certificate with -o.

    Verdict and exit code: CERTIFIED 0 (all inputs proved right), PARTLY 1 (some), UNPROVED 1
    (none). A network on sequences is decided on every word of its task, however many there are;
    WRONG 1 comes with an input that it answers wrong. With -o the checker's first stage, and a
    short proof, is checked before the file is written: what it rejects is said, nothing is written,
    and the exit code is 2.

    Options:
        strategy: How to prove it; the strategies are listed above.
        all_strategies (--all): Run every strategy; -o is a directory, for CSV, JSON and figures.
        time_limit (S): Stop after S seconds with what is proved so far.
        output (--output -o CERT|DIR): Where to write the certificate (JSON).
    """
    if all_strategies:
        if time_limit is not None:
            raise typer.BadParameter(
                "it is for one strategy, and --all runs each", param_hint="'--time-limit'"
            )
        _by_every_strategy(model, strategy, output, out)
        return
    from quadlens.base.atomic import check_writable
    from quadlens.network.bundled import resolve
    from quadlens.network.native import load_with_sha256
    from quadlens.proofs.long_work import watched

    file = resolve(model)
    loaded, digest = load_with_sha256(file)
    if output is not None:
        check_writable(output)
    certificate: Certificate | SequenceCertificate
    with out.step_line(PATIENCE) as step, watched(time_limit, step if out.on_terminal else None):
        if loaded.config.on_sequences:
            certificate, value, render = _certified_words(out, model, loaded, digest, strategy)
        else:
            certificate, value, render = _certified_pairs(
                out, model, loaded, digest, strategy, output is not None
            )
    if output is not None and certificate.verdict != "UNPROVED":
        content = Path(file).read_bytes()
        certificate.save(output, out.note, content)
        value["output"] = str(output)
    elif output is not None:
        out.note(f"nothing is proved, so {output} is not written")
    out.emit(value, render)
    if certificate.verdict != "CERTIFIED":
        raise typer.Exit(1)


def _certified_pairs(
    out: Output, model: str, loaded: "Weights", digest: str, strategy: str, checkable: bool
) -> "tuple[Certificate, dict[str, Any], Render]":
    """The proof about all pairs (a, b), as JSON and as tables."""
    import time

    from quadlens.base.numbers import bound, cost, significant
    from quadlens.proofs.pairs.certificate import summary
    from quadlens.proofs.pairs.produce import certify, find_strategy

    find_strategy(strategy)
    out.note(f"proving {model} with strategy {strategy}")
    began = time.perf_counter()
    certificate = certify(loaded, strategy, digest, checkable=checkable)
    value = {**summary(certificate), "seconds": time.perf_counter() - began}

    def render(console: "Console") -> None:
        console.print(f"{value['verdict']}: {certificate.statement}", markup=False)
        if value["reason"]:
            console.print(f"reason: {value['reason']}", markup=False)
        if value["float32_reason"]:
            console.print(
                f"nothing is claimed about float32 execution: {value['float32_reason']}",
                markup=False,
            )
        hidden = (
            "verdict",
            "statement",
            "reason",
            "float32_reason",
            "witnesses",
            "tied",
            "terms",
            "worst_inputs",
        )
        rows = {key: item for key, item in value.items() if key not in hidden}
        rows |= {
            name: significant(value[name], "down")
            for name in ("accuracy_lower_bound", "margin_lower_bound")
        }
        rows["float32_error"] = bound(value["float32_error"])
        rows |= {name: cost(value[name]) for name in ("cost_share", "cost_share_beyond_collapse")}
        rows["seconds"] = f"{value['seconds']:.2f}"
        task = loaded.config.task
        for name, listed in (("proved wrong", value["witnesses"]), ("tied", value["tied"])):
            if listed or name == "proved wrong":
                words = (f"{task.question(a, b)} → {c}" for a, b, c in listed[:10])
                rows[name] = ", ".join(words) + (", …" if len(listed) > 10 else "") or "none"
        key_value_table(console, "proof", rows)
        if value["terms"]:
            terms = {name: bound(term) for name, term in value["terms"].items()}
            key_value_table(console, "error budget (worst case of each term)", terms)

    return certificate, value, render


def _certified_words(
    out: Output, model: str, loaded: "Weights", digest: str, strategy: str
) -> "tuple[SequenceCertificate, dict[str, Any], Render]":
    """The decision about all words of a network on sequences, as JSON and as a table."""
    from quadlens.base.numbers import decimals, significant
    from quadlens.proofs.long_work import tell
    from quadlens.proofs.sequences.certificate import certify_sequence, check_strategy

    check_strategy(strategy)
    # A log has a line for each part of the work, a terminal the line that changes.
    certificate = certify_sequence(loaded, digest, tell if out.on_terminal else out.note)
    value = certificate.summary()

    def render(console: "Console") -> None:
        console.print(f"{value['verdict']}: {value['statement']}", markup=False)
        rows: dict[str, Any] = {
            key: item for key, item in value.items() if key not in ("verdict", "statement")
        }
        rows["accuracy_lower_bound"] = significant(value["accuracy_lower_bound"], "down")
        rows["margin_lower_bound"] = significant(value["margin_lower_bound"], "down")
        rows["margin_attained"] = decimals(value["margin_attained"], 6, "up")
        rows["seconds"] = f"{value['seconds']:.2f}"
        if rows["reason"] is None:
            del rows["reason"]
        example = rows.pop("counter_example")
        if example is not None:
            rows |= {f"counter-example: {name}": item for name, item in example.items()}
        key_value_table(console, f"{model}: proof", rows)

    return certificate, value, render


def _by_every_strategy(model: str, strategy: str, output: Path | None, out: Output) -> None:
    """Run every proof strategy on a model and draw cost against certified share and margin."""
    if strategy != "auto" or output is None:
        raise typer.BadParameter(
            "it runs every strategy, into -o DIR, and takes no other", param_hint="'--all'"
        )
    import json as json_module
    import time
    from fractions import Fraction

    from quadlens.base.atomic import check_directory, write_together
    from quadlens.base.numbers import cost, margin, significant
    from quadlens.base.table import Table, csv_text
    from quadlens.network.study import study_of
    from quadlens.proofs.pairs.certificate import summary
    from quadlens.proofs.pairs.of_study import made_proofs
    from quadlens.proofs.pairs.produce import strategies
    from quadlens.show.figures.proved import draw_strategies
    from quadlens.show.figures.style import figure_bytes

    study = study_of(model)
    check_directory(output)
    certificates, points = [], []
    for name in strategies(study.config.need_pairs()):
        out.note(f"proving with {name}")
        began = time.perf_counter()
        certificate = study.once(made_proofs).certify(name)
        certificates.append(certificate)
        facts = {
            **summary(certificate),
            "certified_share": float(certificate.proof.certified.mean()),
            "seconds": time.perf_counter() - began,
        }
        points.append({column: facts[column] for column in COLUMNS})
    value = {"p": study.p, "d_mlp": study.config.d_mlp, "points": points}
    files = {
        "frontier.csv": csv_text(COLUMNS, [tuple(point.values()) for point in points]).encode(),
        "frontier.json": (json_module.dumps(value, indent=1) + "\n").encode(),
        "frontier.svg": figure_bytes(draw_strategies(certificates), "svg"),
    }
    write_together(output, [(output / name, content) for name, content in files.items()])
    value["output"] = str(output)

    def render(console: "Console") -> None:
        rows = [
            (
                point["strategy"],
                point["verdict"],
                f"{significant(100 * Fraction(point['certified_share']), 'down')}%",
                margin(point["margin_lower_bound"]),
                f"{point['flops'] + point['collapse_flops']:.3g}",
                cost(point["cost_share"]),
                cost(point["cost_share_beyond_collapse"]),
                f"{point['seconds']:.2f}",
            )
            for point in points
        ]
        header = (
            *("strategy", "verdict", "certified", "margin", "operations"),
            *("of brute force", "both without collapse", "seconds"),
        )
        Table(f"{model}: what each strategy proves, and its cost", header, rows, left=(0, 1)).print(
            console
        )
        for point in points:
            if point["reason"]:
                console.print(f"{point['strategy']}: {point['reason']}", markup=False)
        console.print(f"wrote {output}")

    out.emit(value, render)
    if not any(certificate.verdict == "CERTIFIED" for certificate in certificates):
        raise typer.Exit(1)
