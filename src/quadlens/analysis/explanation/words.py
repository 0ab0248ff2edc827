"""An explanation in one paragraph of plain language; every number comes from the value."""

from fractions import Fraction

import numpy as np

from quadlens.analysis.explanation.logits import LogitExplanation
from quadlens.analysis.explanation.neurons import NeuronExplanation
from quadlens.analysis.explanation.overview import Overview
from quadlens.analysis.explanation.value import Explanation
from quadlens.analysis.integration import CLEAR_RELATION, alone
from quadlens.base.numbers import at_least, at_most, counted, decimals, fit, neglected, percent
from quadlens.network.activation import NONLINEARITIES
from quadlens.network.task import Task

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
MANY, FEW = 12, 4


def summarise(explanation: Explanation) -> str:
    """The paragraph, sentence by sentence in the order of the paper's observations."""
    sentences = []
    if (neurons := explanation.neurons) is not None:
        sentences += [_opening(explanation, neurons), _matching(neurons)]
        if neurons.clusters:
            sentences += [_variance(neurons), _phases(neurons), _secondary(neurons)]
        if neurons.doubled_keys:
            sentences.append(_doubled_keys(neurons))
    if explanation.logits is not None:
        sentences += _logits(explanation.logits)
    if explanation.overview is not None:
        sentences += [_answers(explanation, explanation.overview), *_overview(explanation.overview)]
    return " ".join(sentence for sentence in sentences if sentence)


def _opening(explanation: Explanation, neurons: NeuronExplanation) -> str:
    keys = neurons.key_frequencies
    count = NUMBERS[len(keys)] if len(keys) < len(NUMBERS) else str(len(keys))
    noun = "frequency" if len(keys) == 1 else "frequencies"
    listed = ", ".join(map(str, keys[:MANY])) + (", …" if len(keys) > MANY else "")
    using = f"{count} {noun}" + (f": {listed}" if keys else "")
    task = explanation.task
    if explanation.logits is None:
        opening = f"This model works modulo {task.modulus or task.n} with {using}.{_renaming(task)}"
        if NONLINEARITIES[explanation.activation].odd_slope is not None:
            return opening
        return (
            f"{opening} Its logits are not taken apart: the odd part of {explanation.activation} "
            "is not linear."
        )
    correct, inputs = explanation.logits.parts.correct, explanation.p**2
    if correct == inputs:
        does = (
            f"adds modulo {explanation.p}"
            if task.name == "add"
            else f"answers {task.words} everywhere"
        )
        return f"This model {does} with {using}.{_renaming(task)}"
    questions = (
        f"additions modulo {explanation.p}" if task.name == "add" else f"inputs of {task.words}"
    )
    return (
        f"This model answers {correct:,} of {inputs:,} {questions} right; it has "
        f"{using}.{_renaming(task)}"
    )


def _renaming(task: Task) -> str:
    """Say what the frequencies are about, where the task is not addition itself."""
    if task.is_addition or task.cyclic is None:
        return ""
    root = task.cyclic.root
    by = "" if root is None else f" by their logarithms to the primitive root {root}"
    return (
        f" Its elements are renamed{by} so that the task is addition; frequencies are those of the "
        "new names."
    )


def _matching(neurons: NeuronExplanation) -> str:
    roles = neurons.roles
    matching, constant, dead = (
        int(roles.matching.sum()),
        int(roles.constant.sum()),
        int(roles.dead.sum()),
    )
    mismatching = int(roles.mismatching.sum())
    same = "reads and writes" if matching == 1 else "read and write"
    words = f"{matching} of {counted(len(roles.dead), 'neuron')} {same} the same frequency"
    if mismatching:
        words += (
            f", {mismatching} "
            f"{'reads one and writes' if mismatching == 1 else 'read one and write'} another"
        )
    if constant:
        words += f", {constant} {'is' if constant == 1 else 'are'} mostly constant"
        words += f" ({'dead' if constant == 1 else f'{dead} of them dead'})" if dead else ""
    verdict = (
        "a good model in the paper's sense"
        if neurons.good_model
        else "not a good model in the paper's sense"
    )
    clear = (
        ""
        if neurons.clear_clusters
        else " There are no clear clusters; read what follows with care."
    )
    return f"{words}: {verdict}.{clear}"


def _variance(neurons: NeuronExplanation) -> str:
    roles = neurons.roles
    alive = ~roles.dead
    reads, writes = (
        percent(float(np.median(shares[alive])), towards="down")
        for shares in (roles.variance_input, roles.variance_output)
    )
    return (
        f"A neuron's largest frequency explains {reads} of the variance of what it reads and "
        f"{writes} of what it "
        "writes (medians)."
    )


def _phases(neurons: NeuronExplanation) -> str:
    key_phases = [phases for phases in neurons.phases if phases.k in neurons.key_frequencies]
    values = [phases.r2 for phases in key_phases if phases.r2 is not None]
    evenly_spread = sum(phases.spacing.roughly_uniform for phases in key_phases)
    follow = ""
    if values:
        smallest_r2 = fit(min(values))
        follow = f"Output phases follow twice the input phases with R² of at least {smallest_r2}; "
        if min(values) < CLEAR_RELATION:
            follow = (
                f"Output phases do not all follow twice the input phases (least R² {smallest_r2}); "
            )
    keys = "1 key frequency" if len(key_phases) == 1 else f"{len(key_phases)} key frequencies"
    return f"{follow}input phases cover the circle roughly evenly for {evenly_spread} of {keys}."


def _secondary(neurons: NeuronExplanation) -> str:
    doubling = neurons.doubling
    if doubling.share is None:
        return "No neuron has a secondary frequency."
    phase, r2 = "", doubling.phase_r2
    if r2 is not None:
        relation = f"2φ + π (R² {fit(r2)})"
        phase = (
            f", with phase {relation}"
            if r2 >= CLEAR_RELATION
            else f"; their phase does not follow {relation}"
        )
    return (
        f"The secondary frequency is the double of the primary one for {doubling.doubled} "
        f"of {counted(doubling.neurons, 'neuron')}{phase}."
    )


def _doubled_keys(neurons: NeuronExplanation) -> str:
    """Name key frequencies that are the double of another; count them where they are many."""
    doubles = neurons.doubled_keys
    pairs = ", ".join(f"{double} of {k}" for k, double in doubles[:FEW])
    if len(doubles) == 1:
        return f"One key frequency is another's double modulo {neurons.harmonics.p}: {pairs}."
    more = f", and {len(doubles) - FEW} more" if len(doubles) > FEW else ""
    return (
        f"{len(doubles)} key frequencies are another's double modulo {neurons.harmonics.p}: "
        f"{pairs}{more}."
    )


def _logits(logits: LogitExplanation) -> list[str]:
    whole, even, form = logits.r2.all_logits, logits.r2.abs_component, logits.forms.by_parts
    if whole.clock is None or whole.pizza is None or form.r2 is None or logits.skip_share is None:
        return ["The logits do not vary at all."]
    sentences = [
        f"The logits fit the clock form with R² {whole.clock:.3f} and the pizza form with "
        f"{whole.pizza:.3f};"
    ]
    if even.clock is None or even.pizza is None:
        sentences[0] = sentences[0][:-1] + "."
    else:
        sentences.append(
            f"the absolute-value part of the MLP alone fits them with {even.clock:.3f} and "
            f"{even.pizza:.3f}."
        )
    right = (
        f"{form.correct:,} of {form.inputs:,} inputs right ({logits.forms.pizza_only.correct:,} "
        "without D_k)"
    )
    sentences.append(
        "The two-term form Σ_k (C_k|cos u| + D_k cos 2u) cos(kw(a+b-c)) has R² "
        f"{form.r2:.3f}{alone(form.r2, right)}."
    )
    if logits.skip_share > 0:
        what = "output bias" if logits.parts.skip_is_bias else "skip connection"
        sentences.append(
            f"The {what} makes {neglected(logits.skip_share)} of the logits' variance."
        )
    return [*sentences, logits.algorithm.sentence()]


def _answers(explanation: Explanation, overview: Overview) -> str:
    answers = overview.evaluation
    last = f" of the last of {overview.layers} layers" if overview.neuron_layers > 1 else ""
    return (
        f"{explanation.d_mlp} neurons{last} answer {explanation.task.words}: {answers.correct:,} "
        f"of {answers.pairs:,} "
        f"inputs are right, with a smallest margin of {at_least(answers.min_margin, 3)}."
    )


def _overview(overview: Overview) -> list[str]:
    sentences, deep = [], overview.layers > 1
    if gated := overview.attention in ("softmax", "mixture"):
        widest = max(overview.attention_ranges, key=lambda ranges: ranges.high - ranges.low)
        place = f" of layer {widest.layer}" if deep else ""
        sentences.append(
            f"Attention is a {overview.attention}; the weight that varies most, of head "
            f"{widest.head}{place} on "
            f"{('a', 'b', 'the = sign')[widest.position]}, {_range(widest.low, widest.high)}."
        )
    if overview.norms is not None:
        sentences.append(overview.norms.sentence(overview.evaluation.pairs))
    if gated or deep or overview.norms is not None:
        rest = neglected(1 - overview.additive_share)
        sentences.append(f"Of what neurons read, {rest} is not a part of a plus a part of b.")
    if overview.key_frequencies is None:
        sentences.append(
            "No renaming of the elements makes the task addition, so there are no frequencies."
        )
    else:
        named = ", ".join(map(str, overview.key_frequencies)) or "none"
        do = "write" if deep else "read and write"
        sentences.append(
            f"Key frequencies: {named} ({sum(overview.key_neurons)} neurons {do} one of them)."
        )
    sentences.append(_irreps(overview))
    if overview.algorithm is not None:
        sentences.append(overview.algorithm.sentence())
    return sentences


def _irreps(overview: Overview) -> str:
    if overview.irreps is None:
        return "Its table is not a group's, so there are no irreps."
    named = ", ".join(
        f"{share.irrep.name} {decimals(100 * share.share_W_L, 1)} %"
        for share in overview.key_irreps
    )
    room = overview.key_irreps_rank
    return (
        f"W_L is made of {named or 'no irrep in particular'} (those with at least 1 % each), which "
        "have room "
        f"for {room} directions; to hold 99.9 % of W_L takes {overview.rank}"
        + (", so that the rest is spread over fainter ones." if overview.rank > room else ".")
    )


def _range(low: float, high: float) -> str:
    """Say from where to where a weight goes, or that it stays where it is.

    >>> _range(0.1, 0.9), _range(0.9966, 0.9974)
    ('goes from 0.100 to 0.900', 'stays at 0.997, varying by at most 0.00080')
    """
    first, last = decimals(low), decimals(high)
    if first != last:
        return f"goes from {first} to {last}"
    if low == high:
        return f"stays at {first}"
    return f"stays at {first}, varying by at most {at_most(Fraction(high) - Fraction(low), 5)}"
