"""An explanation in one paragraph of plain language; every number comes from the value."""

import numpy as np

from quadlens.explanation.logits import LogitExplanation
from quadlens.explanation.value import Explanation
from quadlens.integration import CLEAR_RELATION, alone
from quadlens.model.activation import NONLINEARITIES
from quadlens.model.task import Task
from quadlens.numbers import counted, fit, neglected, percent

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
MANY, FEW = 12, 4


def summarise(explanation: Explanation) -> str:
    """The paragraph, sentence by sentence in the order of the paper's observations."""
    sentences = [_opening(explanation), _matching(explanation)]
    if explanation.clusters:
        sentences += [_variance(explanation), _phases(explanation), _secondary(explanation)]
    if explanation.doubled_keys:
        sentences.append(_doubled_keys(explanation))
    if explanation.logits:
        sentences += _logits(explanation.logits)
    return " ".join(sentence for sentence in sentences if sentence)


def _opening(explanation: Explanation) -> str:
    keys = explanation.key_frequencies
    count = NUMBERS[len(keys)] if len(keys) < len(NUMBERS) else str(len(keys))
    noun = "frequency" if len(keys) == 1 else "frequencies"
    listed = ", ".join(map(str, keys[:MANY])) + (", …" if len(keys) > MANY else "")
    using = f"{count} {noun}" + (f": {listed}" if keys else "")
    task = explanation.task
    if explanation.logits is None:
        told = f"This model works modulo {task.modulus or task.n} with {using}.{_renaming(task)}"
        if NONLINEARITIES[explanation.activation].odd_slope is not None:
            return told
        return f"{told} Its logits are not taken apart: the odd part of {explanation.activation} is not linear."
    correct, inputs = explanation.logits.parts.correct, explanation.p**2
    if correct == inputs:
        does = f"adds modulo {explanation.p}" if task.name == "add" else f"answers {task.words} everywhere"
        return f"This model {does} with {using}.{_renaming(task)}"
    asked = f"additions modulo {explanation.p}" if task.name == "add" else f"inputs of {task.words}"
    return f"This model answers {correct:,} of {inputs:,} {asked} right; it has {using}.{_renaming(task)}"


def _renaming(task: Task) -> str:
    """What the frequencies are about, where the task is not addition itself."""
    if task.is_addition or task.cyclic is None:
        return ""
    root = task.cyclic.root
    by = "" if root is None else f" by their logarithms to the primitive root {root}"
    return f" Its elements are renamed{by} so that the task is addition; frequencies are those of the new names."


def _matching(explanation: Explanation) -> str:
    roles = explanation.roles
    matching, constant, dead = int(roles.matching.sum()), int(roles.constant.sum()), int(roles.dead.sum())
    mismatching = int(roles.mismatching.sum())
    same = "reads and writes" if matching == 1 else "read and write"
    words = f"{matching} of {counted(explanation.d_mlp, 'neuron')} {same} the same frequency"
    if mismatching:
        words += f", {mismatching} {'reads one and writes' if mismatching == 1 else 'read one and write'} another"
    if constant:
        words += f", {constant} {'is' if constant == 1 else 'are'} mostly constant"
        words += f" ({'dead' if constant == 1 else f'{dead} of them dead'})" if dead else ""
    verdict = "a good model in the paper's sense" if explanation.good_model else "not a good model in the paper's sense"
    clear = "" if explanation.clear_clusters else " There are no clear clusters; read what follows with care."
    return f"{words}: {verdict}.{clear}"


def _variance(explanation: Explanation) -> str:
    roles = explanation.roles
    alive = ~roles.dead
    reads, writes = (
        percent(float(np.median(shares[alive])), towards="down")
        for shares in (roles.variance_input, roles.variance_output)
    )
    return (
        f"A neuron's largest frequency explains {reads} of the variance of what it reads and {writes} of what it "
        "writes (medians)."
    )


def _phases(explanation: Explanation) -> str:
    key_phases = [phases for phases in explanation.phases if phases.k in explanation.key_frequencies]
    values = [phases.r2 for phases in key_phases if phases.r2 is not None]
    even = sum(phases.spacing.roughly_uniform for phases in key_phases)
    follow = ""
    if values:
        least = fit(min(values))
        follow = f"Output phases follow twice the input phases with R² of at least {least}; "
        if min(values) < CLEAR_RELATION:
            follow = f"Output phases do not all follow twice the input phases (least R² {least}); "
    keys = "1 key frequency" if len(key_phases) == 1 else f"{len(key_phases)} key frequencies"
    return f"{follow}input phases cover the circle roughly evenly for {even} of {keys}."


def _secondary(explanation: Explanation) -> str:
    doubling = explanation.doubling
    if doubling.share is None:
        return "No neuron has a secondary frequency."
    phase, r2 = "", doubling.phase_r2
    if r2 is not None:
        found = f"2φ + π (R² {fit(r2)})"
        phase = f", with phase {found}" if r2 >= CLEAR_RELATION else f"; their phase does not follow {found}"
    return (
        f"The secondary frequency is the double of the primary one for {doubling.doubled} "
        f"of {counted(doubling.neurons, 'neuron')}{phase}."
    )


def _doubled_keys(explanation: Explanation) -> str:
    """Key frequencies that are the double of another; all of them where they are few, else how many."""
    found = explanation.doubled_keys
    pairs = ", ".join(f"{double} of {k}" for k, double in found[:FEW])
    if len(found) == 1:
        return f"One key frequency is another's double modulo {explanation.p}: {pairs}."
    more = f", and {len(found) - FEW} more" if len(found) > FEW else ""
    return f"{len(found)} key frequencies are another's double modulo {explanation.p}: {pairs}{more}."


def _logits(logits: LogitExplanation) -> list[str]:
    whole, even, form = logits.r2.all_logits, logits.r2.abs_component, logits.forms.by_parts
    if whole.clock is None or whole.pizza is None or form.r2 is None or logits.skip_share is None:
        return ["The logits do not vary at all."]
    sentences = [f"The logits fit the clock form with R² {whole.clock:.3f} and the pizza form with {whole.pizza:.3f};"]
    if even.clock is None or even.pizza is None:
        sentences[0] = sentences[0][:-1] + "."
    else:
        sentences.append(
            f"the absolute-value part of the MLP alone fits them with {even.clock:.3f} and {even.pizza:.3f}."
        )
    right = f"{form.correct:,} of {form.inputs:,} inputs right ({logits.forms.pizza_only.correct:,} without D_k)"
    sentences.append(
        f"The two-term form Σ_k (C_k|cos u| + D_k cos 2u) cos(kw(a+b-c)) has R² {form.r2:.3f}{alone(form.r2, right)}."
    )
    if logits.skip_share > 0:
        sentences.append(f"The skip connection makes {neglected(logits.skip_share)} of the logits' variance.")
    return [*sentences, logits.algorithm.sentence()]
