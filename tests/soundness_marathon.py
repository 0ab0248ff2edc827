"""Thousands of models, every strategy on each: python soundness_marathon.py [SMALL] [TRAINED] [LARGE].

SMALL random models of a few tokens, every strategy against exact truth. TRAINED models as training leaves them (p = 59
to 113) and LARGE ones (p = 127 to 257): `thin` and `moments` against exact truth, their certificates through the
checker, and mutants of the certificates, which the checker must reject or which must be true.
"""

import json
import sys
import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings

from any_models import any_models
from enclosed_truth import check_enclosed, enclosed_margins
from quadlens.model import load
from quadlens.model.handmade import Recipe, build_transformer
from quadlens.model.native import save
from quadlens.model.params import MLPParams, Model, Params
from quadlens.proofs.arcs import ArcsStrategy
from quadlens.proofs.lipschitz import Lipschitz
from quadlens.proofs.moments import Moments
from quadlens.proofs.moments_large import prove_large
from quadlens.proofs.produce import STRATEGIES, Prover
from quadlens.proofs.proof import attempt
from quadlens.proofs.thin import Thin
from quadlens.spectrum.anatomy import Anatomy
from quadlens.spectrum.cluster import neuron_spectra
from quadlens_checker import check
from quadlens_checker.verdict import statement
from small_models import small_models
from soundness import check_complete, check_sound, true_margins

BUNDLED = ("mainline", "mismatched")
TRAINED_MODULI, LARGE_MODULI = (59, 61, 71, 83, 97, 101, 113), (127, 151, 193, 211, 251, 257)
# Of the size of the weights: from nothing to what breaks most of a model's answers.
NOISES = (0.0, 0.003, 0.01, 0.03, 0.1)
MUTANTS = 4
SECONDS = 600.0


def check_every_strategy(model: Model) -> None:
    """Arcs say exactly what is true; the others never more."""
    truth = true_margins(model)
    arcs = ArcsStrategy().prove(model)
    check_sound(arcs, truth)
    check_complete(arcs, truth)
    check_sound(Moments().prove(model), truth)
    if model.config.activation == "relu":
        check_sound(Lipschitz().prove(model), truth)
        check_sound(Thin().prove(model), truth)
        if isinstance(model, MLPParams):
            check_sound(prove_large("moments", model.collapse(), neuron_spectra(model.collapse())), truth)


def check_any_network(model: Model) -> None:
    """Any task, attention and activation: every strategy against logits enclosed to 200 bits."""
    truth = enclosed_margins(model)
    for strategy in STRATEGIES.values():
        check_enclosed(attempt(strategy, model), truth, model.config.task.answers)


def small(examples: int) -> None:
    """Look for a counter-example among this many models, the same ones every time; a twentieth are of any kind."""
    quiet = settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    quiet(given(small_models)(check_every_strategy))()
    settings(quiet, max_examples=max(1, examples // 20))(given(any_models())(check_any_network))()


def like_trained(rng: np.random.Generator, moduli: tuple[int, ...]) -> Params:
    """A bundled model with some neurons drawn again from its own and noise on every weight, or a hand-built one."""
    noise = float(rng.choice(NOISES))
    p = int(rng.choice(moduli))
    if p == TRAINED_MODULI[0]:
        model = load(str(rng.choice(BUNDLED)))
        assert isinstance(model, Params)
        drawn = np.arange(model.config.d_mlp)
        again = rng.random(len(drawn)) < rng.choice([0.0, 0.05, 0.3])
        drawn[again] = rng.integers(0, len(drawn), int(again.sum()))
        weights = model.tensors() | {
            "W_in": model.W_in[:, drawn],
            "b_in": model.b_in[drawn],
            "W_out": model.W_out[drawn],
        }
    else:
        keys = rng.choice(np.arange(1, (p + 1) // 2), int(rng.integers(3, 9)), replace=False)
        neurons, jitter = int(rng.integers(100, 400)), float(rng.choice([0.0, 0.02, 0.1]))
        recipe = Recipe(p, tuple(int(k) for k in keys), neurons, jitter=jitter, seed=int(rng.integers(1 << 30)))
        model = build_transformer(recipe)
        weights = model.tensors()
    sizes = {name: noise * float(np.abs(array).mean()) for name, array in weights.items()}
    noisy = {n: (w + sizes[n] * rng.standard_normal(w.shape)).astype(np.float32) for n, w in weights.items()}
    return Params(model.config, **noisy)


def mutant(certificate: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The certificate with one claim made stronger or one hint changed."""
    changed = json.loads(json.dumps(certificate))
    claims, hints, p = changed["claims"], changed["hints"], changed["model"]["p"]
    kind = rng.choice(["margin", "input", "arcs", "coefficient", "order"])
    if kind == "margin":
        margin = Fraction(claims["margin"]) * Fraction(int(rng.integers(10**6 + 1, 2 * 10**6)), 10**6)
        claims["margin"] = f"{margin.numerator}/{margin.denominator}"
    elif kind == "input" and changed["uncertified"]:
        changed["uncertified"].pop(int(rng.integers(len(changed["uncertified"]))))
        claims["certified_inputs"] += 1
    elif kind == "arcs":
        hints["arcs"][int(rng.integers(p * p))] = []
    elif kind == "coefficient":
        table = hints[
            str(rng.choice([name for name in ("coefficients", "basis", "directions", "means") if name in hints]))
        ]
        row = table[int(rng.integers(len(table)))]
        row[int(rng.integers(len(row)))] += int(rng.choice([-(10**6), -1, 1, 10**6]))
    else:
        neurons = hints["clusters"][int(rng.integers(len(hints["clusters"])))]["neurons"]
        neurons.reverse()
    return consistent(changed)


def consistent(certificate: dict[str, Any]) -> dict[str, Any]:
    """The certificate with words and flags that fit its claims, so that only the theorem can be false."""
    claims, p = certificate["claims"], certificate["model"]["p"]
    margin = Fraction(claims["margin"])
    error = None if claims["float32_error"] is None else Fraction(claims["float32_error"])
    claims["float32_certified"] = error is not None and margin > 2 * error
    certificate["statement"] = statement(p, claims["certified_inputs"], margin, error, f"a + b mod {p}")
    certificate["verdict"] = "PARTLY" if certificate["uncertified"] else "CERTIFIED"
    return certificate


def holds(certificate: dict[str, Any], truth: list[list[Fraction]]) -> bool:
    """Whether what the certificate claims is true, by every exact margin."""
    left_out, margin = {tuple(pair) for pair in certificate["uncertified"]}, Fraction(certificate["claims"]["margin"])
    return all(m >= margin for a, row in enumerate(truth) for b, m in enumerate(row) if (a, b) not in left_out)


def trained(number: int, moduli: tuple[int, ...], seed: int, folder: Path) -> Counter[str]:
    """This many models as training leaves them; what was found, by kind."""
    found: Counter[str] = Counter()
    for n in range(number):
        rng = np.random.default_rng((seed, n))
        model = like_trained(rng, moduli)
        truth, prover = true_margins(model), Prover(Anatomy(model))
        save(model, folder / "m.safetensors")
        for strategy in ("thin", "moments"):
            one = prover.certify(strategy)
            check_sound(one.proof, truth)
            found[f"{strategy} {one.verdict}"] += 1
            if one.proof.margin is None or one.obstacle:
                continue
            for m in range(MUTANTS + 1):
                value = mutant(one.to_json(), rng) if m else one.to_json()
                (folder / "c.json").write_text(json.dumps(value))
                verdict = check(str(folder / "c.json"), str(folder / "m.safetensors"), SECONDS).verdict
                found[f"{'mutant' if m else strategy} {verdict}"] += 1
                if m == 0:
                    assert verdict == "VERIFIED", (seed, n, strategy)
                elif verdict == "VERIFIED":
                    assert holds(value, truth), (seed, n, strategy, m)
    return found


def main(how_many: int = 2000, at_usual_p: int = 0, at_large_p: int = 0) -> None:
    """Run all three, and print what the second and third found."""
    small(how_many)
    with tempfile.TemporaryDirectory() as folder:
        for number, moduli in ((at_usual_p, TRAINED_MODULI), (at_large_p, LARGE_MODULI)):
            found = trained(number, moduli, moduli[0], Path(folder))
            for kind, count in sorted(found.items()):
                sys.stdout.write(f"p = {moduli[0]} … {moduli[-1]}: {kind}: {count}\n")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
