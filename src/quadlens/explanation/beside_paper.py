"""Tables with the paper's numbers below ours."""

from quadlens.explanation.value import Explanation
from quadlens.numbers import decimals
from quadlens.published import read_published
from quadlens.table import Table


def beside_paper(explanation: Explanation) -> tuple[Table, ...]:
    """Neurons, coefficients and R² with the paper's below, where the key frequencies are those of its own model."""
    paper, logits = read_published(), explanation.logits
    if logits is None or explanation.key_frequencies != tuple(k for k, _ in paper.key_neurons):
        return ()
    form, r2 = logits.forms.by_parts, logits.r2
    sizes = {one.k: len(one.neurons) for one in explanation.clusters}
    rows = [
        ("neurons", *(str(sizes[k]) for k in explanation.key_frequencies)),
        ("neurons, the paper", *(str(count) for _, count in paper.key_neurons)),
    ]
    for letter, ours, theirs in (("C", form.C, paper.C), ("D", form.D, paper.D)):
        rows.append((letter, *(decimals(float(value), 2) for value in ours)))
        rows.append((f"{letter}, the paper", *(f"{value:g}" for _, value in theirs)))
    fits = (r2.all_logits.pizza, r2.all_logits.clock, r2.abs_component.pizza, r2.abs_component.clock)
    return (
        Table("Beside the paper's model", ("k", *map(str, explanation.key_frequencies)), rows),
        Table(
            "R² beside the paper's",
            ("", "all logits: pizza", "clock", "absolute part: pizza", "clock"),
            [("ours", *map(decimals, fits)), ("the paper", *(f"{value:g}" for value in paper.r2))],
        ),
    )
