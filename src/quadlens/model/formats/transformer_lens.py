"""TransformerLens 2.x and 3.x: `HookedTransformer.state_dict()` (formats.md, 1)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from quadlens.errors import BadConfig
from quadlens.model.formats.attention import Mix
from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.formats.facts import finite_number, known_activation, known_modulus, settle_attention, whole_number
from quadlens.model.formats.protocol import Exported, Hints, Imported, Sniff
from quadlens.model.formats.uniform import uniform_softmax
from quadlens.model.formats.weights import RANKS, Weights, check_ranks, softmax_attention, take, transformer_from
from quadlens.model.native import METADATA_KEY, TRANSFORMER_NAMES
from quadlens.model.params import Model, Params

QUERY_KEY_NAMES = {
    "W_Q": "blocks.0.attn.W_Q",
    "W_K": "blocks.0.attn.W_K",
    "b_Q": "blocks.0.attn.b_Q",
    "b_K": "blocks.0.attn.b_K",
}
OPTIONAL = ("b_V", "b_O", "b_in", "b_out", "b_U", *QUERY_KEY_NAMES)
BUFFERS = ("blocks.0.attn.mask", "blocks.0.attn.IGNORE")
NAME = "transformer-lens"


def state_dict_weights(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """The weights of a TransformerLens 2/3 state dict by our short names; its buffers are dropped."""
    weights = take(checkpoint, {**TRANSFORMER_NAMES, **QUERY_KEY_NAMES}, OPTIONAL, BUFFERS)
    check_ranks(checkpoint, weights, RANKS)
    return weights


def read_by_hints(checkpoint: Checkpoint, weights: Weights, hints: Hints, format_name: str) -> Imported:
    """A model from weights alone: p, attention and activation come from the hints."""
    source = checkpoint.source
    if hints.of("normalization_type") is not None:
        raise BadConfig(f"{source}: normalization_type {hints.of('normalization_type')!r}; expected none")
    p, p_said = known_modulus(source, hints, None, (weights["W_U"].shape[1], "the width of the unembedding"))
    offset = whole_number(hints, "b_token_offset") or 0
    read_position = whole_number(hints, "read_position")
    activation, activation_said = known_activation(source, hints, None if _says_activation(hints) else "relu")

    def compute(positions: int | None) -> tuple[float, ...]:
        n_ctx = weights["W_pos"].shape[0]
        if positions is None and n_ctx != 2:
            raise BadConfig(
                f"{source}: n_ctx is {n_ctx}, which does not say whether '=' is fed; "
                "give --attention softmax:2 (a, b) or softmax:3 (a, b, '=')"
            )
        fed = positions or n_ctx
        if read_position not in (None, fed - 1):
            raise BadConfig(f"{source}: softmax is computed at the last position, but read_position is {read_position}")
        return softmax_attention(source, weights, p, offset, fed, Mix(), _divisor(hints))

    attention, attention_said = settle_attention(source, hints, None, None, compute)
    kept = {name: array for name, array in weights.items() if name not in QUERY_KEY_NAMES}
    model = transformer_from(source, kept, p, attention, activation, offset, read_position)
    notes = (
        f"p = {p}: {p_said}",
        f"attention {', '.join(f'{x:.6g}' for x in attention)}: {attention_said}",
        f"activation {activation}: {activation_said}",
    )
    return Imported(model, format_name, notes)


def _says_activation(hints: Hints) -> bool:
    return hints.activation is not None or hints.of("act_fn", "act_type", "activation") is not None


def _divisor(hints: Hints) -> float | None:
    """What scores are divided by, when a TransformerLens config says so."""
    if hints.of("use_attn_scale") is False:
        return 1.0
    scale = hints.of("attn_scale")
    if scale is None or scale == -1:
        return None
    divisor = finite_number(hints.sidecar_name, "attn_scale", scale)
    if divisor <= 0:
        raise BadConfig(f"{hints.sidecar_name}: attn_scale is {divisor:g}, expected a number above 0")
    return divisor


class TransformerLens:
    """Reads and writes state dicts; the export runs with ordinary softmax attention, made uniform by W_Q = W_K = 0."""

    name = NAME

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """W_O of rank 3 under TransformerLens' names."""
        rank = checkpoint.rank("blocks.0.attn.W_O")
        if rank != 3:
            return Sniff(
                0.0, (f"blocks.0.attn.W_O has rank {rank}" if rank else "no blocks.0.attn.W_O", "expected rank 3")
            )
        for key in ("run_config", METADATA_KEY):
            if key in checkpoint.extras:
                return Sniff(0.5, ("W_O has rank 3", f"but {key} lies beside the state dict"))
        return Sniff(1.0, ("W_O has rank 3",))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Weights from the file; p, attention and activation from flags or sidecar."""
        return read_by_hints(checkpoint, state_dict_weights(checkpoint), hints, self.name)

    def write(self, model: Model) -> Exported:
        """A state dict that `HookedTransformer.load_state_dict` takes, and the config to construct it with."""
        uniform = uniform_softmax(model, self.name)
        return Exported(state_dict_of(uniform.params), hooked_config(uniform.params), uniform.notes)


def state_dict_of(params: Params) -> dict[str, np.ndarray]:
    """The full state dict, with zero queries and keys and the two buffers in the form they have since 3.5."""
    tensors = {TRANSFORMER_NAMES[name]: array for name, array in params.tensors().items()}
    zeros = {"W_Q": np.zeros_like(params.W_V), "b_Q": np.zeros_like(params.b_V)}
    zeros |= {"W_K": zeros["W_Q"], "b_K": zeros["b_Q"]}
    tensors |= {QUERY_KEY_NAMES[name]: array for name, array in zeros.items()}
    return tensors | {
        "blocks.0.attn.mask": np.zeros((0, 0), dtype=bool),
        "blocks.0.attn.IGNORE": np.array(-np.inf, dtype=np.float32),
    }


def hooked_config(params: Params) -> Mapping[str, Any]:
    """The keyword arguments of `HookedTransformerConfig`, and what TransformerLens has no name for."""
    config = params.config
    return {
        "hooked_transformer_config": {
            "n_layers": 1,
            "d_model": config.d_model,
            "n_ctx": config.n_ctx,
            "d_head": config.d_head,
            "n_heads": config.n_heads,
            "d_mlp": config.d_mlp,
            "d_vocab": config.d_vocab,
            "d_vocab_out": config.d_vocab_out,
            "act_fn": config.activation,
            "normalization_type": None,
            "attention_dir": "causal",
        },
        "p": config.p,
        "attention": list(config.attention),
        "read_position": config.read_position,
        "b_token_offset": config.b_token_offset,
    }
