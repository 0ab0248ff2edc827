"""`quadlens evaluate`, `explain`, `bounds` and `lens`.

They show a model's answers, its neurons, its rules and its integrals.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quadlens.cli.options import ModelArgument, Natural, Positive
from quadlens.cli.output import PATIENCE, Output, key_value_table

if TYPE_CHECKING:
    from rich.console import Console

    from quadlens.network.weights import Weights


def evaluate(
    out: Output,
    model: ModelArgument = "pizza",
    sample: Positive | None = None,
    seed: int = 0,
    exact: bool = False,
) -> None:
    """Show accuracy, margins and loss (float64); config, shapes and hash.

    They are over all inputs, or over a sample where these are too many.

    Options:
        sample (N): Try N random inputs: of pairs instead of all p², of sequences instead of 10,010.
        seed: Seed of the sample.
        exact: Also compute every logit in exact arithmetic and show the agreement.
    """
    import dataclasses
    from fractions import Fraction

    import numpy as np

    from quadlens.base.errors import BadConfig
    from quadlens.base.numbers import significant
    from quadlens.network.bundled import resolve
    from quadlens.network.evaluate import MAX_OPERATIONS, model_facts
    from quadlens.network.evaluate import evaluate as evaluate_layer
    from quadlens.network.exact import agreement
    from quadlens.network.native import load_with_sha256

    loaded, digest = load_with_sha256(resolve(model))
    if loaded.config.on_sequences:
        _evaluate_words(out, model, loaded, digest, sample, seed, exact)
        return
    p, d_mlp = loaded.config.p, loaded.config.d_mlp
    if sample is None and float(p) ** 3 * d_mlp > MAX_OPERATIONS:
        raise BadConfig(
            f"all {p * p} pairs of this model take {float(p) ** 3 * d_mlp:.1e} multiplications; "
            "try a sample, for example --sample 10000"
        )
    pairs = None if sample is None else np.random.default_rng(seed).integers(0, p, size=(sample, 2))
    layer = loaded.collapse()
    with out.step_line(PATIENCE) as step:
        result = evaluate_layer(
            layer, pairs, lambda done: step(f"evaluated {done:,} of {sample or p * p:,} pairs")
        )
    config = loaded.config.to_dict()
    value = (
        dataclasses.asdict(result)
        | model_facts(loaded, layer)
        | {"sha256": digest, "config": config}
    )
    value |= _weight_facts(loaded)
    if exact:
        out.note(f"computing all {p**3} logits exactly")
        value["agreement"] = dataclasses.asdict(agreement(loaded))

    def render(console: "Console") -> None:
        rows = {name: value[name] for name in dataclasses.asdict(result)}
        task = loaded.config.task
        rows["task"] = task.words
        # Only perfection reads as 100 %.
        share = Fraction(100 * result.correct, result.pairs)
        rows["accuracy"] = f"{significant(share, 'down')} %"
        rows["min_margin"] = significant(result.min_margin, "down")
        rows |= {name: significant(value[name]) for name in ("median_margin", "loss")}
        a, b = result.min_margin_pair
        rows["min_margin_pair"] = f"a = {a}, b = {b}" + (
            f": {task.question(a, b)}" if task.on_units else ""
        )
        sign = "+" if task.is_addition else "∘"
        rows["wrong"] = ", ".join(f"{a}{sign}{b}→{c}" for a, b, c in result.wrong[:10]) or "none"
        key_value_table(console, f"{model}: answers on {result.pairs} pairs", rows)
        if exact:
            agreed = value["agreement"]
            rows = {
                "logits compared": f"{p**3}",
                "largest difference": (
                    f"{agreed['max_error']:.3g} (largest logit {agreed['largest_logit']:.6g})"
                ),
                "correct, exactly": f"{agreed['correct']:.0f} of {p * p}",
                "min_margin, exactly": significant(agreed["min_margin"], "down"),
            }
            key_value_table(console, "exact arithmetic on the stored weights", rows)
        key_value_table(console, "config", config)
        _weight_table(console, f"{value['parameters']} weights", value["tensors"], digest)

    out.emit(value, render)


def _evaluate_words(
    out: Output,
    model: str,
    loaded: "Weights",
    digest: str,
    sample: int | None,
    seed: int,
    exact: bool,
) -> None:
    """Show answers of a network on sequences on every word, or on a sample of them (float64)."""
    from dataclasses import asdict

    from quadlens.base.errors import BadConfig
    from quadlens.base.numbers import significant
    from quadlens.network.sequence_forward import sequence_config
    from quadlens.proofs.sequences.evaluate import evaluate_sequence

    if exact:
        raise BadConfig(
            "all inputs of a network on sequences are more than --exact could try; use quadlens "
            "certify"
        )
    result = evaluate_sequence(loaded, sample, seed)
    config = sequence_config(loaded).to_dict()
    value = asdict(result) | {"sha256": digest, "config": config} | _weight_facts(loaded)

    def render(console: "Console") -> None:
        rows = asdict(result) | {
            "min_margin": significant(result.min_margin, "down"),
            "accuracy": significant(result.accuracy, "down"),
            "wrong": ", ".join(map(str, result.wrong[:3])) or "none",
        }
        key_value_table(
            console, f"{model}: answers on {result.tried:,} of {result.inputs:,} inputs", rows
        )
        _weight_table(console, f"{value['parameters']} numbers", value["tensors"], digest)

    out.emit(value, render)


def _weight_facts(weights: "Weights") -> dict[str, Any]:
    """How many numbers a network has, and the shape and type of every tensor."""
    tensors = weights.tensors
    return {
        "parameters": sum(array.size for array in tensors.values()),
        "tensors": {
            name: {"shape": list(x.shape), "dtype": str(x.dtype)} for name, x in tensors.items()
        },
    }


def _weight_table(
    console: "Console", title: str, tensors: Mapping[str, Mapping[str, Any]], digest: str
) -> None:
    """The tensors of `_weight_facts`, and the hash of the file."""
    shapes = {
        name: f"{'x'.join(map(str, about['shape']))} {about['dtype']}"
        for name, about in tensors.items()
    }
    key_value_table(console, title, shapes)
    # One line however narrow the terminal, so that the hash can be copied.
    console.print(f"sha256 {digest}", soft_wrap=True)


def explain(
    out: Output,
    model: ModelArgument = "pizza",
    neurons: Path | None = None,
    no_logits: bool = False,
    seed: Natural | None = None,
) -> None:
    """Show what neurons read and write: frequencies, phases, clusters.

    Then come secondary frequencies, clock/pizza regressions and the identity part.

    A model whose attention depends on the tokens, or whose task has no frequencies, gets what can
    be said of it; a network on sequences, what each step reads and with which weight.

    Options:
        neurons (FILE): Also write one row per neuron, as .csv or .parquet.
        no_logits: Only the neurons: fast at any p, no pass over the p³ logits.
        seed: Draw 1,000 triples for gradient symmetricity, not Zhong et al.'s 100.
    """
    import numpy as np

    from quadlens.analysis.explanation import explain as explain_anatomy
    from quadlens.analysis.explanation import needs_outline
    from quadlens.analysis.spectrum.anatomy import Anatomy
    from quadlens.base.errors import BadConfig
    from quadlens.network import load
    from quadlens.network.evaluate import model_facts

    if neurons is not None:
        from quadlens.analysis.explanation.frame import check_frame_path

        check_frame_path(neurons)
    anatomy = Anatomy(load(model))
    if anatomy.model.config.on_sequences:
        if neurons is not None or no_logits or seed is not None:
            raise BadConfig(
                "a network on sequences has no --neurons, --no-logits and --seed; leave them out"
            )
        from quadlens.proofs.sequences.explain import explain_sequence

        steps = explain_sequence(anatomy.model)
        out.emit({"model": model, **steps.to_dict()} if out.json else {}, steps.render)
        return
    if neurons is not None and needs_outline(anatomy.model):
        raise BadConfig(
            "--neurons needs constant attention and a task that is addition after renaming"
        )
    drawn = None if seed is None else np.random.default_rng(seed)
    with out.step_line(PATIENCE) as step:
        explanation = explain_anatomy(anatomy, logits=not no_logits, rng=drawn, progress=step)
    if neurons is not None:
        from quadlens.analysis.explanation.frame import write_neurons

        write_neurons(explanation, neurons)
        out.note(f"wrote {neurons}: {explanation.d_mlp} neurons")
    facts = model_facts(anatomy.model, anatomy.layer)
    out.emit(
        {"model": model, **facts, **explanation.to_dict()} if out.json else {}, explanation.render
    )


def bounds(
    out: Output,
    model: ModelArgument = "pizza",
    moments: Positive = 20,
    table_format: Literal["text", "csv", "latex"] = "text",
    phases: Literal["all", "attention"] = "all",
) -> None:
    """Show the error of each cluster as a quadrature rule: the paper's bounds, and the exact value.

    Options:
        moments (M): Harmonics used by the moment bound.
        table_format (--format): How to print the tables.
        phases: Of all that a neuron reads, or of attention's path alone, as the paper seems to.
    """
    from quadlens.analysis.infinite_width.chains import chains_of
    from quadlens.analysis.quadrature import bounds as bound_clusters
    from quadlens.analysis.quadrature import (
        papers_cells,
        papers_cells_by_relu_rule,
        tables,
        text_table,
        to_json,
    )
    from quadlens.base.numbers import counted
    from quadlens.network import load

    result = bound_clusters(load(model), moments, phases=phases)
    value, views = to_json(result), tables(result)
    chains = chains_of(tuple(cluster.k for cluster in result.clusters), result.p)
    value["chains"] = [list(chain) for chain in chains]

    def render(console: "Console") -> None:
        for table in views if result.bounded else ():
            if table_format == "text":
                text_table(table).print(console)
                console.print()
            else:
                text = (
                    text_table(table, None).to_csv()
                    if table_format == "csv"
                    else text_table(table, 2, marks=False).to_latex()
                )
                console.print(text, soft_wrap=True, markup=False)
        if result.bounded and table_format == "text":
            console.print(
                "= exact (enclosed)   ≤ proved upper bound   ≈ float64 estimate; proofs: page "
                "`quadrature`"
            )
        if (same := papers_cells(views)) and table_format == "text":
            console.print(
                f"These are the paper's frequencies: {same[0]} of the {same[1]} numbers that it "
                "prints for them, baselines aside, are ours to its two digits. With ReLU bounds "
                f"by the paper's rule {_from_to(papers_cells_by_relu_rule(result))} are. Page "
                "`quadrature` of the documentation (§10) has the reasons for the others."
            )
        for none in result.unbounded:
            console.print(
                f"k = {none.k} ({counted(none.neurons, 'neuron')}): no bound: {none.reason}",
                markup=False,
            )
        for chain in chains:
            console.print(
                f"k = {' → '.join(map(str, chain))}: each is twice the one before, so that these "
                "rules need not be even one by one; `quadlens lens` reads them together.",
                markup=False,
            )
        if not result.clusters:
            console.print(
                "no cluster: no neuron reads and writes the same frequency, so there is no "
                "quadrature rule"
            )

    out.emit(value, render)


def _from_to(counts: tuple[int, ...]) -> str:
    return " to ".join(map(str, dict.fromkeys((min(counts), max(counts)))))


def lens(
    out: Output,
    model: ModelArgument = "pizza",
) -> None:
    """Read the hidden layer as integrals.

    Shows what the neurons share, what the integral explains, and what is left.
    """
    from quadlens.analysis.infinite_width.of_study import whole_lens
    from quadlens.network.study import study_of

    found = study_of(model).once(whole_lens)
    out.emit({"model": model, **found.to_dict()}, found.render)
