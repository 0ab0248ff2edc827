"""Thousands of models, every strategy on each: python soundness_marathon.py KIND NUMBER [FIRST].

KIND `small`: constant attention, addition, relu and |x|, from random to exactly tied; every
strategy against exact truth. `any`: task × attention × activation × strategy against logits that
are exact or enclosed to 200 bits; every certificate through the checker, and mutants of it;
`middle`: the same with n = 24 to 120. `trained` (p = 59 to 113) and `large` (p = 127 to 257):
models as training leaves them, `thin` and `moments` against exact truth, their certificates through
the checker, and mutants.

A mutant is rejected by the checker, or what it claims is true; one whose claims contradict its
words, its model or its task is rejected. Where the proved checker is built (`make proved`), it gets
every certificate and every mutant as well: what it verifies is true, and what the other verifies it
verifies too where its theorem is about it. NUMBER models are drawn, the same every time, after the
first FIRST; what was found is printed as it grows.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings

from any_model import network
from enclosed_truth import Truth, check_enclosed, enclosed_margins
from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.analysis.spectrum.cluster import neuron_spectra
from quadlens.base.errors import BadConfig, BadFile
from quadlens.network import load
from quadlens.network.handmade import Recipe, build_transformer
from quadlens.network.native import save, sha256
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.arcs import ArcsStrategy
from quadlens.proofs.pairs.certificate import Certificate, operation
from quadlens.proofs.pairs.moments import MomentsStrategy
from quadlens.proofs.pairs.moments_large import prove_large
from quadlens.proofs.pairs.produce import STRATEGIES, Prover
from quadlens.proofs.pairs.thin import Thin
from quadlens.proofs.proved import check_proved
from quadlens_checker.verdict import check_here, statement
from small_models import small_models
from soundness import check_complete, check_sound, quick_margins, true_margins

Margins = list[list[Fraction]]
BUNDLED = ("pizza", "mismatched")
# Moduli of `trained` and `large`, and how often each is drawn: p = 113 takes ten times as long as
# 59.
TRAINED_MODULI = {59: 30, 61: 45, 71: 13, 83: 4, 97: 3, 101: 3, 113: 2}
LARGE_MODULI = {127: 8, 151: 6, 193: 4, 211: 3, 251: 2, 257: 2}
SMALLEST_TRAINED = min(TRAINED_MODULI)  # that of the bundled models
# Of the size of the weights: from nothing to what breaks most of a model's answers.
NOISES = (0.0, 0.003, 0.01, 0.03, 0.1)
MUTANTS = 2
KEPT = (
    0.3,
    0.3,
    0.2,
    0.1,
    0.1,
)  # how often 96, 128, 192, 256 or all of a bundled model's neurons are kept
SECONDS = 1e6  # of a check, by the wall clock: no limit
# Mutants that may happen to claim what is true; all others contradict themselves, the model or the
# task.
MAYBE_TRUE = ("margin", "input", "arcs", "coefficient", "order")


def check_every_strategy(model: Weights) -> None:
    """Arcs say exactly what is true; the others never more."""
    truth = true_margins(model)
    arcs = ArcsStrategy().prove(model)
    check_sound(arcs, truth)
    check_complete(arcs, truth)
    check_sound(MomentsStrategy().prove(model), truth)
    if model.config.activation == "relu":
        check_sound(Thin().prove(model), truth)
        if not model.config.has_stream:
            check_sound(
                prove_large("moments", model.collapse(), neuron_spectra(model.collapse())), truth
            )


def small(number: int, first: int) -> Counter[str]:
    """Look for a counter-example among this many models, the same ones every time."""
    quiet = settings(
        max_examples=number,
        deadline=None,
        derandomize=first == 0,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    quiet(given(small_models)(check_every_strategy))()
    return Counter(models=number)


def networks(
    number: int, first: int, folder: Path, sizes: tuple[int, int] = (2, 6)
) -> Iterator[Counter[str]]:
    """Yield what was found for each model of any task, attention and activation.

    Every strategy runs on it; its certificate and mutants of that are checked.
    """
    smallest, largest = sizes
    for n in range(first, first + number):
        rng = np.random.default_rng((20_000 if smallest == 2 else 30_000, n))
        model = network(rng, largest, smallest)
        truth, prover, config = enclosed_margins(model), Prover(Anatomy(model)), model.config
        found = Counter({f"{config.attention_kind} {config.activation}": 1})
        for strategy in STRATEGIES:
            one = prover.certify(strategy)
            check_enclosed(one.proof, truth, config.task.answers)
            found[f"{strategy} {one.verdict}"] += 1
            if strategy != "auto":
                found += checked(one, model, lows(truth), rng, folder)
        yield found


def lows(truth: Truth) -> Margins:
    """The lowest that each margin can be."""
    return [[low for low, _ in row] for row in truth]


def like_trained(rng: np.random.Generator, moduli: dict[int, int]) -> Weights:
    """Draw a model as training leaves it, with noise.

    It is a bundled model with all or a share of its neurons, some of them drawn again, or a
    hand-built one.
    """
    noise = float(rng.choice(NOISES))
    p = int(rng.choice(list(moduli), p=np.array(list(moduli.values())) / sum(moduli.values())))
    if p == SMALLEST_TRAINED:
        model = load(str(rng.choice(BUNDLED)))
        assert isinstance(model, Weights)
        every, kept = (
            model.config.d_mlp,
            int(rng.choice([96, 128, 192, 256, model.config.d_mlp], p=KEPT)),
        )
        drawn = rng.permutation(every)[:kept]
        again = rng.random(kept) < rng.choice([0.0, 0.05, 0.3])
        drawn[again] = rng.integers(0, every, int(again.sum()))
        config = replace(model.config, d_mlp=kept)
        weights = {
            **model.tensors,
            "W_in": model.W_in[:, drawn],
            "b_in": model.b_in[drawn],
            "W_out": model.W_out[drawn] * np.float32(every / kept),
        }
    else:
        keys = rng.choice(np.arange(1, (p + 1) // 2), int(rng.integers(3, 9)), replace=False)
        neurons, jitter = int(2 ** rng.uniform(5, 9)), float(rng.choice([0.0, 0.02, 0.1]))
        recipe = Recipe(
            p, tuple(int(k) for k in keys), neurons, jitter=jitter, seed=int(rng.integers(1 << 30))
        )
        built = build_transformer(recipe)
        config, weights = built.config, dict(built.tensors)
    sizes = {name: noise * float(np.abs(array).mean()) for name, array in weights.items()}
    noisy = {
        n: (w + sizes[n] * rng.standard_normal(w.shape)).astype(np.float32)
        for n, w in weights.items()
    }
    return Weights(config, **noisy)


def mutant(
    one: Certificate, rng: np.random.Generator, truth: Margins
) -> tuple[dict[str, Any], str, bool]:
    """The certificate with one thing changed, which thing, and whether it may still be true."""
    changed = json.loads(json.dumps(one.to_json()))
    about, hints, p = changed["model"], changed["hints"], one.p
    kinds: dict[str, Callable[[], object]] = {
        "margin": lambda: stronger(changed["claims"], rng),
        "statement": lambda: None,
        "gates": lambda: hints.update(gates=[[0]]),
        "strategy": lambda: changed.update(
            strategy="thin" if one.proof.strategy != "thin" else "brute"
        ),
        "witness": lambda: changed["witnesses"].append(false_witness(one, rng, truth)),
        "answers": lambda: about.update(answers=rng.permutation(one.config.task.answers).tolist()),
        "task": lambda: about.update(task="subtract" if about["task"] != "subtract" else "add"),
        "attention": lambda: about.update(
            attention="softmax" if about["attention"] != "softmax" else "mixture"
        ),
    }
    if changed["uncertified"]:
        kinds["input"] = lambda: changed["uncertified"].pop(
            int(rng.integers(len(changed["uncertified"])))
        )
    if "arcs" in hints:
        kinds["arcs"] = lambda: hints["arcs"].__setitem__(int(rng.integers(p * p)), [])
    if hints.get("clusters"):
        kinds["order"] = hints["clusters"][int(rng.integers(len(hints["clusters"])))][
            "neurons"
        ].reverse
    if tables := [
        hints[name] for name in ("coefficients", "basis", "directions", "means") if hints.get(name)
    ]:
        kinds["coefficient"] = lambda: nudge(tables[int(rng.integers(len(tables)))], rng)
    if "answers" in about:
        kinds["no answers"] = lambda: about.pop("answers")
    else:
        kinds["superfluous answers"] = lambda: about.update(
            answers=one.config.task.answers.tolist()
        )
    kind = str(rng.choice(sorted(kinds)))
    kinds[kind]()
    consistent(changed, operation(one.config.task))
    if kind == "statement":
        changed["statement"] = changed["statement"].replace("exceeds", "exceeds or equals")
    same = (
        changed["model"] == one.to_json()["model"]
        and changed["witnesses"] == one.to_json()["witnesses"]
    )
    return changed, kind, kind in MAYBE_TRUE or (same and kind in ("answers", "witness"))


def stronger(claims: dict[str, Any], rng: np.random.Generator) -> None:
    """A larger margin."""
    margin = Fraction(claims["margin"]) * Fraction(int(rng.integers(10**6 + 1, 2 * 10**6)), 10**6)
    claims["margin"] = f"{margin.numerator}/{margin.denominator}"


def nudge(table: list[list[int]], rng: np.random.Generator) -> None:
    """Change one number."""
    row = table[int(rng.integers(len(table)))]
    if row:
        row[int(rng.integers(len(row)))] += int(rng.choice([-(10**6), -1, 1, 10**6]))


def false_witness(one: Certificate, rng: np.random.Generator, truth: Margins) -> list[int]:
    """An input that is answered right, called wrong."""
    right = [(a, b) for a, row in enumerate(truth) for b, margin in enumerate(row) if margin > 0]
    a, b = right[int(rng.integers(len(right)))]
    return [a, b, (int(one.config.task.answers[a, b]) + 1) % one.p]


def consistent(certificate: dict[str, Any], words: str) -> None:
    """Give the certificate words and flags that fit its claims.

    Then only the theorem can be false.
    """
    claims, p = certificate["claims"], certificate["model"]["p"]
    claims["certified_inputs"] = p * p - len(certificate["uncertified"])
    margin = Fraction(claims["margin"])
    error = None if claims["float32_error"] is None else Fraction(claims["float32_error"])
    claims["float32_certified"] = error is not None and margin > 2 * error
    certificate["statement"] = statement(p, claims["certified_inputs"], margin, error, words)
    certificate["verdict"] = "PARTLY" if certificate["uncertified"] else "CERTIFIED"


def holds(certificate: dict[str, Any], truth: Margins) -> bool:
    """Whether what the certificate claims is true, by every margin."""
    left_out, margin = (
        {tuple(pair) for pair in certificate["uncertified"]},
        Fraction(certificate["claims"]["margin"]),
    )
    return all(
        m >= margin
        for a, row in enumerate(truth)
        for b, m in enumerate(row)
        if (a, b) not in left_out
    )


def checked(
    one: Certificate,
    model: Weights,
    truth: Margins,
    rng: np.random.Generator,
    folder: Path,
    mutants: int = MUTANTS,
) -> Counter[str]:
    """Assert that the certificate is verified, and each mutant rejected or true.

    A certificate about a model with other gates is rejected or true as well.
    """
    found: Counter[str] = Counter()
    if one.proof.margin is None or one.obstacle:
        return found
    certificate, weights = folder / "c.json", folder / "m.safetensors"

    def verdict(value: dict[str, Any]) -> str:
        certificate.write_text(json.dumps(value))
        outcome = check_here(str(certificate), str(weights), SECONDS).verdict
        proved = by_proved_checker(certificate, weights)
        if proved == "VERIFIED" and value["model"] == one.to_json()["model"]:
            assert holds(value, truth), (one, "the proved checker")
        if outcome == "VERIFIED":
            assert proved in ("VERIFIED", "outside", "not built"), (one, proved)
        found[f"proved checker {proved} ({outcome})"] += 1
        return outcome

    save(model, weights)
    assert verdict(one.to_json()) == "VERIFIED", one
    found[f"{one.proof.strategy} VERIFIED"] += 1
    for _ in range(mutants):
        value, kind, maybe = mutant(one, rng, truth)
        outcome = verdict(value)
        assert outcome == "REJECTED" or (outcome == "VERIFIED" and maybe and holds(value, truth)), (
            one,
            kind,
            outcome,
        )
        found[f"mutant {kind} {outcome}"] += 1
    if model.config.attention_kind != "constant" and one.p < SMALLEST_TRAINED:
        other = other_gates(model, rng)
        save(other, weights)
        value = one.to_json()
        value["model"]["sha256"] = sha256(other)
        outcome = verdict(value)
        assert outcome == "REJECTED" or holds(value, lows(enclosed_margins(other))), (
            one,
            "other gates",
        )
        found[f"mutant other gates {outcome}"] += 1
    return found


def by_proved_checker(certificate: Path, weights: Path) -> str:
    """Return the verdict of the proved checker on the two files.

    It is `outside` where the checker's theorem is not about them.
    """
    try:
        return check_proved(str(certificate), str(weights)).verdict
    except BadConfig:
        return "not built"
    except BadFile:
        return "outside"


def other_gates(model: Weights, rng: np.random.Generator) -> Weights:
    """The model with other scores or another scale of its softmax."""
    assert isinstance(model, Weights)
    assert model.W_Q is not None
    softmax = model.config.softmax
    assert softmax is not None
    factor = float(rng.choice([-1.0, 0.5, 1 + 2.0**-20, 2.0]))
    if rng.random() < 0.5:
        return model.replace(W_Q=(model.W_Q * factor).astype(model.W_Q.dtype))
    return model.replace(
        replace(model.config, softmax=replace(softmax, scale=softmax.scale * factor))
    )


def trained(
    number: int, first: int, moduli: dict[int, int], folder: Path
) -> Iterator[Counter[str]]:
    """Models as training leaves them; what was found, by kind."""
    for n in range(first, first + number):
        rng = np.random.default_rng((min(moduli), n))
        model = like_trained(rng, moduli)
        truth, prover = quick_margins(model), Prover(Anatomy(model))
        found = Counter({f"p = {model.config.p}": 1})
        for strategy in ("thin", "moments"):
            one = prover.certify(strategy)
            check_sound(one.proof, truth)
            found[f"{strategy} {one.verdict}"] += 1
            found += checked(one, model, truth, rng, folder, mutants=1)
        yield found


def main(kind: str, number: str, first: str = "0") -> None:
    """Run one of the kinds and print what was found so far.

    It prints after every model, but with `any` after every hundredth.
    """
    found, models = Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        runs: dict[str, Callable[[int, int], Iterable[Counter[str]]]] = {
            "small": lambda number, first: [small(number, first)],
            "any": lambda number, first: networks(number, first, Path(folder)),
            "middle": lambda number, first: networks(number, first, Path(folder), (24, 120)),
            "trained": lambda number, first: trained(number, first, TRAINED_MODULI, Path(folder)),
            "large": lambda number, first: trained(number, first, LARGE_MODULI, Path(folder)),
        }
        for one in runs[kind](int(number), int(first)):
            found, models = found + one, models + 1
            if kind != "any" or models % 100 == 0 or models == int(number):
                sys.stdout.write(f"{kind}: {models} models: {json.dumps(found, sort_keys=True)}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
