"""What is said of MLPs as people write them: with output biases, embeddings and norms."""

from typing import Any

import numpy as np
import pytest

import quadlens
from quadlens.analysis.explanation.words import summarise
from quadlens.analysis.spectrum.of_study import no_waves
from quadlens.network.config import Config, Hidden
from quadlens.network.norm import Norm, Norms
from quadlens.network.weights import Weights


def random_mlp(**facts: Any) -> Weights:
    config = Config.mlp(7, 12, "relu", bias=True, **facts)
    rng = np.random.default_rng(0)
    return Weights(
        config, **{name: rng.normal(size=shape) for name, shape in config.shapes.items()}
    )


def test_an_mlp_has_no_skip_connection() -> None:
    study = quadlens.study(random_mlp())
    explanation = study.explanation
    assert study.skip_shares is None
    words = summarise(explanation)
    assert "skip connection" not in words
    assert "The output bias makes " in words
    share = explanation.to_dict()["residual_variance_share"]
    assert 0 < share < 1
    logits = np.stack([study.logits(a) for a in range(7)])
    assert share == pytest.approx(study.model.b_out.var() / logits.var())
    assert explanation.logits is not None
    assert "output bias' share of variance" in explanation.logits.measures().to_csv()
    with pytest.raises(quadlens.QuadlensError, match="or it is an MLP"):
        quadlens.figures.residual(study)


def test_a_transformer_has_one() -> None:
    study = quadlens.study("pizza")
    assert study.skip_shares is not None
    assert "The skip connection makes " in summarise(study.explanation)


@pytest.mark.parametrize(("activation", "layers"), [(None, 1), ("relu", 2)])
def test_a_norm_is_no_layer(activation: Any, layers: int) -> None:
    """An embedding and a LayerNorm before one hidden layer; and two hidden layers."""
    norms = Norms(mlp=Norm("layer", 1e-5))
    study = quadlens.study(random_mlp(hidden=(Hidden(5, activation),), norms=norms))
    said = f"{summarise(study.explanation)} {study.once(no_waves)} {study.config!r} {study.model!r}"
    assert ("2 layers" in said) == (layers == 2)
    assert ("the last reads" in said) == (layers == 2)
    assert "a LayerNorm before the MLP" in said
