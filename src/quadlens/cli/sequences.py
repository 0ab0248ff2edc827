"""`quadlens certify` and `evaluate` of a network on sequences: what is shown of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from quadlens.cli.output import Output, key_value_table, weight_facts, weight_table

if TYPE_CHECKING:
    from rich.console import Console

    from quadlens.model.weights import Weights


def certified_words(
    out: Output, model: str, loaded: "Weights", digest: str, strategy: str, output: Path | None
) -> bool:
    """Whether it is a network on sequences: then it is decided, and the certificate written."""
    if not loaded.config.on_sequences:
        return False
    from quadlens.model.atomic import check_writable
    from quadlens.numbers import decimals, significant
    from quadlens.sequences.certificate import certify_sequence, check_strategy

    check_strategy(strategy)
    if output is not None:
        check_writable(output)
    certificate = certify_sequence(loaded, digest, out.note)
    value = certificate.summary()
    if output is not None and certificate.verdict != "UNPROVED":
        certificate.save(output)
        value["output"] = str(output)

    def render(console: "Console") -> None:
        console.print(f"{value['verdict']}: {value['statement']}", markup=False)
        shown: dict[str, Any] = {key: item for key, item in value.items() if key not in ("verdict", "statement")}
        shown["accuracy_lower_bound"] = significant(value["accuracy_lower_bound"], "down")
        shown["margin_lower_bound"] = significant(value["margin_lower_bound"], "down")
        shown["margin_attained"] = decimals(value["margin_attained"], 6, "up")
        shown["seconds"] = f"{value['seconds']:.2f}"
        example = shown.pop("counter_example")
        if example is not None:
            shown |= {f"counter-example: {name}": item for name, item in example.items()}
        key_value_table(console, f"{model}: proof", shown)

    out.emit(value, render)
    if certificate.verdict != "CERTIFIED":
        raise typer.Exit(1)
    return True


def evaluated_words(
    out: Output, model: str, loaded: "Weights", digest: str, sample: int | None, seed: int, exact: bool
) -> bool:
    """Whether it is a network on sequences: then some words are tried in float64."""
    if not loaded.config.on_sequences:
        return False
    from dataclasses import asdict

    from quadlens.errors import BadConfig
    from quadlens.model.sequence_forward import sequence_config
    from quadlens.numbers import significant
    from quadlens.sequences.evaluate import evaluate_sequence

    if exact:
        raise BadConfig("all inputs of a network on sequences are more than --exact could try; use quadlens certify")
    result = evaluate_sequence(loaded, sample, seed)
    config = sequence_config(loaded).to_dict()
    value = asdict(result) | {"sha256": digest, "config": config} | weight_facts(loaded)

    def render(console: "Console") -> None:
        shown = asdict(result) | {
            "min_margin": significant(result.min_margin, "down"),
            "accuracy": significant(result.accuracy, "down"),
            "wrong": ", ".join(map(str, result.wrong[:3])) or "none",
        }
        key_value_table(console, f"{model}: answers on {result.tried:,} of {result.inputs:,} inputs", shown)
        weight_table(console, f"{value['parameters']} numbers", value["tensors"], digest)

    out.emit(value, render)
    return True
