"""`quadlens certify`: prove what a model answers, for every input at once."""

from pathlib import Path
from typing import Annotated, Any

import typer

from quadlens.cli.options import Command, ModelArgument
from quadlens.cli.output import Output
from quadlens.cli.sequences import certified_words


class Help(Command):
    """The help, with the strategies as they describe themselves; they are loaded when it is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Add one sentence per strategy to the command's own text."""
        from quadlens.proofs import STRATEGIES

        known = [f"{facts.name}: {facts.description}" for facts in (one.facts for one in STRATEGIES.values())]
        self.help = "\n\n".join([(self.help or "").strip(), "Strategies:", *known])
        super().format_help(ctx, formatter)


def command(
    out: Output,
    model: ModelArgument = "pizza",
    strategy: Annotated[
        str,
        typer.Option("--strategy", help="How to prove it; the strategies are listed above."),
    ] = "auto",
    all_strategies: Annotated[
        bool, typer.Option("--all", help="Run every strategy; -o is a directory, for CSV, JSON and figures.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="CERT|DIR", help="Where to write the certificate (JSON)."),
    ] = None,
) -> None:
    """Prove that a model answers its task (a + b mod p, say) on all inputs, and write the proof to a certificate.

    Verdict and exit code: CERTIFIED 0 (all inputs proved right), PARTLY 1 (some), UNPROVED 1 (none). A network on
    sequences is decided on every word of its task, however many there are; WRONG 1 comes with an input that it
    answers wrong.
    """
    if all_strategies:
        from quadlens.cli.frontier import every_strategy

        every_strategy(model, strategy, output, out)
        return
    import time

    from rich.console import Console

    from quadlens.cli.output import key_value_table
    from quadlens.model.atomic import check_writable
    from quadlens.model.bundled import resolve
    from quadlens.model.native import load_with_sha256
    from quadlens.numbers import bound, cost, significant
    from quadlens.proofs.certificate import summary
    from quadlens.proofs.produce import certify, find_strategy

    loaded, digest = load_with_sha256(resolve(model))
    if certified_words(out, model, loaded, digest, strategy, output):
        return
    find_strategy(strategy)
    if output is not None:
        check_writable(output)
    out.note(f"proving {model} with strategy {strategy}")
    began = time.perf_counter()
    certificate = certify(loaded, strategy, digest, checkable=output is not None)
    value = {**summary(certificate), "seconds": time.perf_counter() - began}
    if output is not None and certificate.verdict != "UNPROVED":
        certificate.save(output)
        value["output"] = str(output)
    elif output is not None:
        out.note(f"nothing is proved, so {output} is not written")

    def render(console: Console) -> None:
        console.print(f"{value['verdict']}: {certificate.statement}", markup=False)
        if value["reason"]:
            console.print(f"reason: {value['reason']}", markup=False)
        if value["float32_reason"]:
            console.print(f"nothing is claimed about float32 execution: {value['float32_reason']}", markup=False)
        hidden = ("verdict", "statement", "reason", "float32_reason", "witnesses", "tied", "terms", "worst_inputs")
        shown = {key: item for key, item in value.items() if key not in hidden}
        shown |= {name: significant(value[name], "down") for name in ("accuracy_lower_bound", "margin_lower_bound")}
        shown["float32_error"] = bound(value["float32_error"])
        shown |= {name: cost(value[name]) for name in ("cost_share", "cost_share_beyond_collapse")}
        shown["seconds"] = f"{value['seconds']:.2f}"
        task = loaded.config.task
        for name, listed in (("proved wrong", value["witnesses"]), ("tied", value["tied"])):
            if listed or name == "proved wrong":
                words = (f"{task.question(a, b)} → {c}" for a, b, c in listed[:10])
                shown[name] = ", ".join(words) + (", …" if len(listed) > 10 else "") or "none"
        key_value_table(console, "proof", shown)
        if value["terms"]:
            terms = {name: bound(term) for name, term in value["terms"].items()}
            key_value_table(console, "error budget (worst case of each term)", terms)

    out.emit(value, render)
    if certificate.verdict != "CERTIFIED":
        raise typer.Exit(1)
