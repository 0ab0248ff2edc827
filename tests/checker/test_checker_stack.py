"""The checker on several layers and norms: it encloses 200 bits, and it rejects."""

import copy
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, fmpq

from balls import BALLS, drawn, precise
from quadlens.network.activation import ACTIVATIONS
from quadlens.network.config import Config, Hidden, Softmax
from quadlens.network.evaluate import all_pairs
from quadlens.network.forward import forward
from quadlens.network.native import to_bytes
from quadlens.network.norm import Norm, Norms
from quadlens.network.task import task_from_table
from quadlens.network.weights import Weights
from quadlens.proofs.pairs.produce import certify
from quadlens_checker.model_file import read_model
from quadlens_checker.reading import Rejected
from quadlens_checker.stack import F, Stack, read_stack
from quadlens_checker.verdict import check_here

LAYER, RMS = Norm("layer", 1e-5), Norm("rms", 1e-3)
PLACES = (Norms(), Norms(LAYER, None, RMS, LAYER), Norms(attention=RMS), Norms(final=RMS))
SOFTMAX = (None, Softmax(1.0, 2.0), Softmax(-0.7, 3.0, causal=False))


def transformer(
    norms: Norms, layers: int, softmax: Softmax | None, activation: Any = "relu"
) -> Config:
    return Config(
        4, 6, 7, 2, 3, 6, 6, 3, (0.3, 0.2, 0.1), 1 + layers % 2, activation, softmax=softmax,
        n_layers=layers,
        norms=norms,
    )  # fmt: skip


def networks() -> list[Config]:
    found = [transformer(*kind) for kind in product(PLACES, (1, 2, 3), SOFTMAX)]
    found += [transformer(PLACES[1], 2, SOFTMAX[1], activation) for activation in ACTIVATIONS]
    deep = (Hidden(4, None), Hidden(6, "gelu", LAYER), Hidden(3, "square"))
    found += [
        Config.mlp(4, 7, "silu", hidden=deep, norms=Norms(mlp=RMS, final=LAYER)),
        Config.mlp(4, 7, hidden=(Hidden(5),)),
        Config.mlp(4, 7, norms=Norms(final=LAYER)),
    ]
    return [config for config in found if config.no_tables is not None]


def stack_of(model: Weights) -> Stack:
    return read_stack(*read_model(to_bytes(model)), {}, lambda operations: None)


def certified(config: Config, seed: int = 0) -> tuple[Weights, dict[str, Any]]:
    """A network asked for what it answers, one answer aside, and its certificate."""
    model = drawn(config, np.random.default_rng(seed), dtype=np.float32)
    answers = model.forward(all_pairs(config.p)).argmax(axis=1).reshape(config.p, config.p)
    answers[1, 2] = (answers[1, 2] + 1) % config.p
    model = model.asked(task_from_table(answers))
    return model, json.loads(certify(model, "brute", checkable=True).to_bytes())


def verdict(folder: Path, model: bytes, certificate: Any) -> tuple[str, str]:
    (folder / "model").write_bytes(model)
    (folder / "certificate").write_text(json.dumps(certificate))
    report = check_here(str(folder / "certificate"), str(folder / "model"), 60)
    return report.verdict, report.reason


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.1, 0.5, 3.0])
def test_integers_enclose_200_bits(size: float) -> None:
    rng = np.random.default_rng(0)
    for config in networks():
        model, pairs = drawn(config, rng, size, np.float32), all_pairs(config.p)[::5]
        stack = stack_of(model)
        with precise():
            truth = forward(model, pairs, BALLS)
            for (a, b), row in zip(pairs.tolist(), truth, strict=True):
                scores, error = stack.logits(a, b)
                off = [abs(arb(fmpq(x, 1 << F)) - y) for x, y in zip(scores, row, strict=True)]
                assert all(bool(x <= arb(fmpq(error, 1 << F))) for x in off), (config, a, b)


@pytest.mark.slow
@pytest.mark.parametrize("config", networks()[::3], ids=str)
def test_certificates_are_verified(config: Config, tmp_path: Path) -> None:
    model, certificate = certified(config)
    assert certificate["verdict"] == "PARTLY"
    assert verdict(tmp_path, to_bytes(model), certificate)[0] == "VERIFIED"


def _more(certificate: Any) -> None:
    top, bottom = map(int, certificate["claims"]["margin"].split("/"))
    certificate["claims"]["margin"] = f"{top * 2 + bottom}/{bottom * 2}"


def _all(certificate: Any) -> None:
    certificate["uncertified"] = []
    certificate["claims"]["certified_inputs"] += 1
    certificate["verdict"] = "CERTIFIED"


MUTANTS: dict[str, Callable[[Any], None]] = {
    "a larger margin": _more,
    "no input left out": _all,
    "moments": lambda c: c.update(strategy="moments"),
    "arcs": lambda c: c.update(strategy="arcs"),
    "hints": lambda c: c["hints"].update(basis=[]),
    "another witness": lambda c: c["witnesses"].append([0, 0, 1]),
    "float32": lambda c: c["claims"].update(float32_error="1/1000000"),
    "another file": lambda c: c["model"].update(sha256="0" * 64),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_rejected(name: str, tmp_path: Path) -> None:
    model, good = certified(transformer(PLACES[1], 2, SOFTMAX[1]))
    bad = copy.deepcopy(good)
    MUTANTS[name](bad)
    if name in ("a larger margin", "no input left out"):
        # With the words that fit the claims, as a forger would write them.
        reason = verdict(tmp_path, to_bytes(model), bad)[1]
        bad["statement"] = reason.partition("it should read: ")[2]
        assert bad["statement"]
    assert verdict(tmp_path, to_bytes(model), bad)[0] == "REJECTED"


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["norms"].pop("mlp"),
        lambda c: c["norms"].update(query_key={"kind": "rms", "eps": 1e-5}),
        lambda c: c["norms"]["mlp"].update(kind="batch"),
        lambda c: c["norms"]["mlp"].update(eps=0),
        lambda c: c["norms"]["mlp"].update(eps=True),
        lambda c: c.update(n_layers=5),
        lambda c: c.update(n_layers=1),
        lambda c: c.update(hidden=[]),
    ],
)
def test_malformed_configs_are_rejected(change: Callable[[Any], None]) -> None:
    content = to_bytes(drawn(transformer(PLACES[1], 2, None), np.random.default_rng(0)))
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    about = json.loads(header["__metadata__"]["quadlens"])
    read_model(content)
    change(about["config"])
    header["__metadata__"]["quadlens"] = json.dumps(about)
    text = json.dumps(header).encode()
    with pytest.raises(Rejected):
        read_model(len(text).to_bytes(8, "little") + text + content[8 + length :])


def test_an_mlp_with_biases_is_exact(tmp_path: Path) -> None:
    """The collapse of one hidden layer has the biases, in every strategy and for float32."""
    config = Config.mlp(5, 7, bias=True)
    model = drawn(config, np.random.default_rng(3), dtype=np.float32)
    model = model.asked(task_from_table(model.forward(all_pairs(5)).argmax(axis=1).reshape(5, 5)))
    for strategy in ("brute", "arcs", "moments"):
        made = certify(model, strategy, checkable=True)
        if made.proof.margin is not None:
            assert verdict(tmp_path, to_bytes(model), json.loads(made.to_bytes()))[0] == "VERIFIED"
    assert certify(model, "brute").certified_inputs == 25
