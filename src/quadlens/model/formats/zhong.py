"""Zhong et al. 2023 (the clock and the pizza): `model_<id>.pt` with `config_<id>.json` beside it (formats.md, 4)."""

import numpy as np

from quadlens.errors import BadConfig
from quadlens.model.formats.attention import Mix
from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.formats.facts import (
    Claim,
    finite_number,
    known_activation,
    known_modulus,
    settle_attention,
    switch,
    whole_number,
)
from quadlens.model.formats.nanda_layout import layout_state_dict, layout_weights
from quadlens.model.formats.protocol import Exported, Hints, Imported, Sniff, SoftmaxAttention
from quadlens.model.formats.uniform import uniform_attention
from quadlens.model.formats.weights import softmax_attention, transformer_from
from quadlens.model.params import Model


class Zhong:
    """Attention is `coeff · softmax + (1 - coeff)`: coeff 0 is the constant 1 on every position, not 1/n."""

    name = "zhong"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """W_O of rank 2 and two positions, or a config with attn_coeff."""
        rank = checkpoint.rank("blocks.0.attn.W_O")
        if rank != 2:
            return Sniff(
                0.0, (f"blocks.0.attn.W_O has rank {rank}" if rank else "no blocks.0.attn.W_O", "expected rank 2")
            )
        if hints.of("attn_coeff") is not None:
            return Sniff(1.0, ("W_O has rank 2", f"{hints.sidecar_name} has attn_coeff"))
        if "pos_embed.W_pos" in checkpoint.tensors and len(checkpoint.tensors["pos_embed.W_pos"]) == 2:
            return Sniff(1.0, ("W_O has rank 2", "n_ctx is 2"))
        silent = hints.attention is None and hints.of("attention") is None
        if silent and not any(np.any(checkpoint.tensors.get(f"blocks.0.attn.W_{x}", 0)) for x in "QK"):
            # Uniform softmax (1/n) or attn_coeff 0 (1): these weights cannot say, so it must not be decided here.
            return Sniff(1.0, ("W_O has rank 2", "W_Q and W_K are zero, as where attention is the constant 1"))
        return Sniff(0.5, ("W_O has rank 2", "but n_ctx is not 2 and no config has attn_coeff"))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """p, attention and vocabulary from the config; with none, p from the vocabulary and attention from the flag."""
        source = checkpoint.source
        if (whole_number(hints, "n_layers") or 1) != 1:
            raise BadConfig(f"{source}: n_layers is {hints.of('n_layers')}; quadlens reads one layer")
        task = hints.of("funcs")
        if isinstance(task, str) and "x[0]+x[1]" not in task.replace(" ", ""):
            raise BadConfig(f"{source}: trained on {task[:80]!r}; quadlens reads models that add")
        weights = layout_weights(checkpoint)
        p, p_said = known_modulus(source, hints, None, (weights["W_E"].shape[0], "the vocabulary"))
        offset = p if switch(hints, "diff_vocab") else 0
        # eqn_sign: an '=' token, the last of the vocabulary, follows b.
        positions = 3 if switch(hints, "eqn_sign") else 2
        claim, mix = _attention(hints, positions)

        def compute(count: int | None) -> tuple[float, ...]:
            return softmax_attention(source, weights, p, offset, count or positions, mix)

        attention, said = settle_attention(source, hints, claim, None, compute)
        activation, activation_said = known_activation(
            source, hints, None if hints.of("act_fn", "activation") or hints.activation else "relu"
        )
        kept = {name: array for name, array in weights.items() if name not in ("W_Q", "W_K")}
        notes = (
            f"p = {p}: {p_said}",
            f"attention {', '.join(f'{x:.6g}' for x in attention)}: {said}",
            f"activation {activation}: {activation_said}",
        )
        return Imported(transformer_from(source, kept, p, attention, activation, offset), self.name, notes)

    def write(self, model: Model) -> Exported:
        """State dict and config with attn_coeff 0; attention becomes 1 on every position by scaling W_V."""
        uniform = uniform_attention(model, self.name, 1.0)
        config = uniform.params.config
        content = layout_state_dict(uniform.params, config.tokens_used, len(config.attention), self.name)
        sidecar = {
            "name": f"modadd_{config.p}",
            "funcs": f"lambda x: (x[0]+x[1])%{config.p}",
            "C": config.p,
            "n_heads": config.n_heads,
            "d_model": config.d_model,
            "n_layers": 1,
            "act_fn": "ReLU",
            "attn_coeff": 0,
            "diff_vocab": int(config.b_token_offset > 0),
            "eqn_sign": int(config.has_equals),
        }
        return Exported(content, sidecar, uniform.notes)


def _attention(hints: Hints, positions: int) -> tuple[Claim, Mix]:
    """What attn_coeff claims, None without one, and how it mixes softmax in."""
    coeff = hints.of("attn_coeff")
    if coeff is None:
        return None, Mix()
    coeff = finite_number(hints.sidecar_name, "attn_coeff", coeff)
    if coeff == 0:
        return (1.0,) * positions, Mix()
    return SoftmaxAttention(positions), Mix(scale=coeff, shift=1.0 - coeff)
