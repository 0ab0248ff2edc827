"""Nanda et al. 2023 (progress measures for grokking): input (a, b, '='), true attention (formats.md, 5)."""

from quadlens.errors import BadConfig
from quadlens.model.formats.attention import Mix
from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.formats.facts import known_activation, known_modulus, settle_attention
from quadlens.model.formats.nanda_layout import layout_state_dict, layout_weights
from quadlens.model.formats.protocol import Exported, Hints, Imported, Sniff, SoftmaxAttention
from quadlens.model.formats.uniform import uniform_softmax
from quadlens.model.formats.weights import softmax_attention, transformer_from
from quadlens.model.params import Model

POSITIONS = 3


class Nanda:
    """The attention is the checkpoint's own; only models where it turns out constant are read."""

    name = "nanda"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """W_O of rank 2 and three positions."""
        rank = checkpoint.rank("blocks.0.attn.W_O")
        if rank != 2:
            return Sniff(
                0.0, (f"blocks.0.attn.W_O has rank {rank}" if rank else "no blocks.0.attn.W_O", "expected rank 2")
            )
        if hints.of("attn_coeff") is not None:
            return Sniff(0.5, ("W_O has rank 2", f"but {hints.sidecar_name} has attn_coeff"))
        if "pos_embed.W_pos" in checkpoint.tensors and len(checkpoint.tensors["pos_embed.W_pos"]) == POSITIONS:
            return Sniff(1.0, ("W_O has rank 2", "n_ctx is 3"))
        return Sniff(0.5, ("W_O has rank 2", "but n_ctx is not 3"))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """The vocabulary without '=' is p; attention is computed on every input unless a flag states a constant."""
        source = checkpoint.source
        weights = layout_weights(checkpoint)
        p, p_said = known_modulus(source, hints, None, (weights["W_E"].shape[0] - 1, "the vocabulary without '='"))

        def compute(count: int | None) -> tuple[float, ...]:
            return softmax_attention(source, weights, p, 0, count or POSITIONS, Mix())

        attention, said = settle_attention(source, hints, None, SoftmaxAttention(POSITIONS), compute)
        activation, activation_said = known_activation(
            source, hints, None if hints.of("act_fn", "act_type", "activation") or hints.activation else "relu"
        )
        kept = {name: array for name, array in weights.items() if name not in ("W_Q", "W_K")}
        notes = (
            f"p = {p}: {p_said}",
            f"attention {', '.join(f'{x:.6g}' for x in attention)}: {said}",
            f"activation {activation}: {activation_said}",
        )
        return Imported(transformer_from(source, kept, p, attention, activation), self.name, notes)

    def write(self, model: Model) -> Exported:
        """A state dict whose softmax attention is uniform because W_Q = W_K = 0."""
        uniform = uniform_softmax(model, self.name)
        config = uniform.params.config
        if not config.has_equals or config.b_token_offset:
            raise BadConfig(
                "nanda feeds (a, b, '=') with shared tokens; this model does not: use zhong or transformer-lens"
            )
        content = layout_state_dict(uniform.params, config.p + 1, POSITIONS, self.name)
        return Exported(content, {"p": config.p, "attention": list(config.attention)}, uniform.notes)
