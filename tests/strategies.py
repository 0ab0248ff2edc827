"""Hypothesis strategies for small models of every shape."""

import numpy as np
from hypothesis import strategies as st

from quadlens.network.config import Config
from quadlens.network.weights import Weights

odd_moduli = st.integers(1, 8).map(lambda n: 2 * n + 1)
seeds = st.integers(0, 2**32 - 1)
attention_weights = st.floats(-2, 2, allow_subnormal=False)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    p = draw(odd_moduli)
    positions = draw(st.sampled_from([2, 3]))
    offset = draw(st.sampled_from([0, p]))
    spare = draw(st.integers(0, 2))
    return Config(
        p=p,
        d_model=draw(st.integers(1, 9)),
        d_mlp=draw(st.integers(1, 12)),
        n_heads=draw(st.integers(1, 3)),
        d_head=draw(st.integers(1, 4)),
        d_vocab=p + offset + positions - 2 + spare,
        d_vocab_out=p + draw(st.integers(0, 2)),
        n_ctx=positions + draw(st.integers(0, 1)),
        attention=tuple(draw(st.lists(attention_weights, min_size=positions, max_size=positions))),
        read_position=draw(st.integers(0, positions - 1)),
        activation=draw(st.sampled_from(["relu", "abs", "square"])),
        b_token_offset=offset,
    )


@st.composite
def transformers(draw: st.DrawFn, dtype: type[np.floating] = np.float32) -> Weights:
    """Random weights of random scale, every bias included."""
    config = draw(configs())
    rng = np.random.default_rng(draw(seeds))
    scale = draw(st.sampled_from([1e-3, 1.0, 30.0]))
    shapes = config.shapes
    return Weights(
        config=config,
        **{n: (scale * rng.standard_normal(s)).astype(dtype) for n, s in shapes.items()},
    )


@st.composite
def mlps(draw: st.DrawFn, dtype: type[np.floating] = np.float32) -> Weights:
    config = Config.mlp(
        draw(odd_moduli), draw(st.integers(1, 12)), draw(st.sampled_from(["relu", "abs", "square"]))
    )
    rng = np.random.default_rng(draw(seeds))
    shapes = config.shapes
    return Weights(
        config=config, **{n: rng.standard_normal(s).astype(dtype) for n, s in shapes.items()}
    )
