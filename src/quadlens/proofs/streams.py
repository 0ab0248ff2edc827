"""What the tokens bring to the MLP's input, exactly: the residual stream after attention, and what it costs."""

from dataclasses import dataclass

from quadlens.model.config import Config
from quadlens.model.dyadic import Dyadic
from quadlens.model.weights import Weights
from quadlens.proofs.operations import Operations


@dataclass(frozen=True, eq=False)
class Streams:
    """X_a and X_b: what the tokens a and b bring to the MLP's input; everything constant is in X_b."""

    X_a: Dyadic
    X_b: Dyadic


def residual_streams(model: Weights, ops: Operations) -> Streams:
    """X_a and X_b exactly; a token's way through attention is computed once where a and b share their tokens."""
    config, p = model.config, model.config.p
    W_V = [Dyadic.from_floats(model.W_V[h]) for h in range(config.n_heads)]
    W_O = [Dyadic.from_floats(model.W_O[h]) for h in range(config.n_heads)]

    def mix(x: Dyadic) -> Dyadic:
        rows = x.shape[0]
        ops.include(mixing_cost(config, rows))
        if _by_heads(config, rows):
            return _total([x @ V @ out for V, out in zip(W_V, W_O, strict=True)])
        return x @ _total([V @ out for V, out in zip(W_V, W_O, strict=True)])

    offset = config.b_token_offset
    tokens = [Dyadic.from_floats(model.W_E[:p]), Dyadic.from_floats(model.W_E[offset : offset + p])]
    mixed = [mix(tokens[0])]
    mixed.append(mixed[0] if offset == 0 else mix(tokens[1]))
    places = [Dyadic.from_floats(model.W_pos[n : n + 1]) for n in range(len(config.attention))]
    parts = []
    for n, alpha in enumerate(config.attention):
        if n < len(tokens):
            stream = tokens[n] + places[n].repeated(p)
            attended = mixed[n] + mix(places[n]).repeated(p)
            ops.additions += 2 * p * config.d_model
        else:
            stream = Dyadic.from_floats(model.W_E[config.equals_token : config.equals_token + 1]) + places[n]
            attended = mix(stream)
            ops.additions += config.d_model
        rows = attended.shape[0]
        ops.multiplications += rows * config.d_model
        ops.additions += rows * config.d_model if n == config.read_position else 0
        part = attended.scaled(alpha)
        parts.append(part + stream if n == config.read_position else part)
    bias = _total([Dyadic.from_floats(model.b_V[h][None]) @ W_O[h] for h in range(config.n_heads)])
    ops.count_product(1, config.n_heads * config.d_head, config.d_model)
    ops.multiplications += len(config.attention) * config.d_model
    ops.additions += len(config.attention) * config.d_model + (len(parts) - 1) * p * config.d_model
    constant = _total([Dyadic.from_floats(model.b_O[None]), *(bias.scaled(alpha) for alpha in config.attention)])
    return Streams(parts[0], _total([parts[1], *(x.repeated(p) for x in (constant, *parts[2:]))]))


def stream_rows(config: Config) -> list[int]:
    """How many rows go through attention together, one number a time."""
    tokens = [config.p] if config.b_token_offset == 0 else [config.p, config.p]
    return tokens + [1] * len(config.attention)


def _by_heads(config: Config, rows: int) -> bool:
    """Whether head by head is cheaper than forming Σ_h W_V W_O first."""
    inner, d = config.n_heads * config.d_head, config.d_model
    return 2 * rows * d * inner <= d * inner * d + rows * d * d


def mixing_cost(config: Config, rows: int) -> Operations:
    """Operations of so many rows on their way through attention."""
    ops, inner, d = Operations(), config.n_heads * config.d_head, config.d_model
    if _by_heads(config, rows):
        ops.count_product(rows, d, inner)
        ops.count_product(rows, inner, d)
    else:
        ops.count_product(d, inner, d)
        ops.count_product(rows, d, d)
    return ops


def _total(terms: list[Dyadic]) -> Dyadic:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
