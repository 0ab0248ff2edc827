"""What the proofs of one model share is computed once."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from quadlens.model.handmade import Recipe, build_transformer
from quadlens.model.params import Params
from quadlens.proofs.frontier import frontier
from quadlens.proofs.produce import STRATEGIES, Prover, certify
from quadlens.spectrum import anatomy as anatomy_module
from quadlens.spectrum.anatomy import Anatomy


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a model was taken apart, by name."""
    counts: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        return call

    monkeypatch.setattr(Params, "collapse", counted("collapse", Params.collapse))
    for name in ("collapse_exactly", "integer_model", "neuron_spectra", "find_clusters"):
        monkeypatch.setattr(anatomy_module, name, counted(name, getattr(anatomy_module, name)))
    return counts


ONCE = {"collapse": 1, "collapse_exactly": 1, "integer_model": 1, "neuron_spectra": 1, "find_clusters": 1}


def test_all_strategies_share_one_anatomy(computed: Counter[str]) -> None:
    prover = Prover(Anatomy(build_transformer(Recipe(11, (1, 2, 4), 48, noise=0.02))))
    for name in STRATEGIES:
        prover.certify(name)
    assert computed == ONCE


def test_the_frontier_takes_a_model_apart_once(computed: Counter[str]) -> None:
    assert len(frontier(build_transformer(Recipe(11, (1, 2, 4), 48, noise=0.02))).waterfall) > 0
    assert computed == ONCE


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_anatomy_proves_what_its_model_proves(strategy: str) -> None:
    model = build_transformer(Recipe(7, (1, 2), 24, noise=0.02))
    assert certify(Anatomy(model), strategy).to_bytes() == certify(model, strategy).to_bytes()
