"""Small models to break proofs with: random, adversarial, nearly tied, exactly tied, wrong."""

import numpy as np
from hypothesis import strategies as st

from quadlens.network.config import Config
from quadlens.network.handmade import Recipe, build_mlp, build_transformer
from quadlens.network.weights import Weights
from strategies import configs, seeds

# Mostly the smallest: a counter-example that exists at all exists there, and many can be tried.
small_moduli = st.sampled_from([3, 3, 3, 5, 5, 7, 9, 11, 13])


@st.composite
def random_mlps(draw: st.DrawFn) -> Weights:
    """Gaussian weights: almost always wrong somewhere."""
    config = Config.mlp(
        draw(small_moduli), draw(st.integers(1, 8)), draw(st.sampled_from(["relu", "abs"]))
    )
    rng = np.random.default_rng(draw(seeds))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return Weights(
        config, **{n: rng.standard_normal(s).astype(dtype) for n, s in config.shapes.items()}
    )


@st.composite
def tied_mlps(draw: st.DrawFn) -> Weights:
    """Draw models with tiny integer weights.

    Many pre-activations are exactly 0, and many logits are exactly equal.
    """
    config = Config.mlp(
        draw(small_moduli), draw(st.integers(1, 6)), draw(st.sampled_from(["relu", "abs"]))
    )
    rng = np.random.default_rng(draw(seeds))
    largest = draw(st.integers(0, 2))
    return Weights(
        config,
        **{
            n: rng.integers(-largest, largest + 1, s).astype(np.float32)
            for n, s in config.shapes.items()
        },
    )


@st.composite
def adders(draw: st.DrawFn) -> Weights:
    """Hand-built models that add, from perfect to broken."""
    p = draw(st.sampled_from([5, 5, 7, 9, 11, 13]))
    keys = draw(st.lists(st.integers(1, (p - 1) // 2), min_size=1, max_size=3, unique=True))
    recipe = Recipe(
        p,
        tuple(keys),
        neurons=draw(st.integers(8, 40)),
        jitter=draw(st.sampled_from([0.0, 0.05])),
        noise=draw(st.sampled_from([0.0, 0.02, 0.1, 0.5])),
        missing=draw(st.sampled_from([0.0, 0.2])),
        seed=draw(st.integers(0, 1000)),
    )
    return build_mlp(recipe) if draw(st.booleans()) else build_transformer(recipe)


@st.composite
def nearly_tied_adders(draw: st.DrawFn) -> Weights:
    """Draw a table look-up that answers right by one part in 2^20 or not at all.

    Neuron n = a·p + b fires for (a, b) only. It reads 1 from a = n // p and 1 from b = n mod p,
    less 1 (folded into b), and writes its answer.
    """
    p = draw(st.sampled_from([3, 3, 5]))
    rng = np.random.default_rng(draw(seeds))
    n = np.arange(p * p)
    W_a = (np.arange(p)[:, None] == n // p).astype(np.float32)
    W_b = (np.arange(p)[:, None] == n % p).astype(np.float32) - 1
    answers = ((n // p + n % p) % p)[:, None] == np.arange(p)
    slips = draw(st.sampled_from([0, 1, 3]))
    W_out = answers * (1 + 2.0**-20 * rng.integers(-1, 2, (p * p, 1)))
    rival = rng.integers(0, p, p * p)
    W_out[n, rival] = np.where(answers[n, rival], W_out[n, rival], 1.0)
    W_out[rng.integers(0, p * p, slips)] = 0.0
    return Weights.mlp(Config.mlp(p, p * p), W_a, W_b, W_out.astype(np.float32))


@st.composite
def random_transformers(draw: st.DrawFn) -> Weights:
    """Every attention, offset, bias and activation a config allows."""
    config = draw(configs())
    rng = np.random.default_rng(draw(seeds))
    return Weights(
        config=config,
        **{n: rng.standard_normal(s).astype(np.float32) for n, s in config.shapes.items()},
    )


small_models = st.one_of(random_mlps(), tied_mlps(), adders(), nearly_tied_adders())
