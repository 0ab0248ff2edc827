"""gbmi's `.pth` files (the paper's group): a TransformerLens state dict with its run beside it (formats.md, 3)."""

from collections.abc import Mapping
from typing import Any

from quadlens.errors import BadConfig, BadFile
from quadlens.model.formats.attention import Mix
from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.formats.facts import Claim, finite_number, known_activation, known_modulus, settle_attention
from quadlens.model.formats.protocol import Exported, Hints, Imported, Sniff, SoftmaxAttention
from quadlens.model.formats.transformer_lens import QUERY_KEY_NAMES, state_dict_of, state_dict_weights
from quadlens.model.formats.uniform import uniform_softmax
from quadlens.model.formats.weights import softmax_attention, transformer_from
from quadlens.model.params import Model


class Gbmi:
    """Attention is `rate / n + (1 - rate) · softmax` on n positions: rate 1 is the paper's constant attention."""

    name = "gbmi"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """A run_config beside a state dict whose W_O has rank 3."""
        rank = checkpoint.rank("blocks.0.attn.W_O")
        if "run_config" not in checkpoint.extras:
            return Sniff(0.0, ("no run_config",))
        if rank != 3:
            return Sniff(0.0, ("has a run_config", f"but W_O has rank {rank}, expected 3"))
        return Sniff(1.0, ("has a run_config", "W_O has rank 3"))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Everything comes from the file: weights, p, attention rate and whether '=' is fed."""
        source, experiment = checkpoint.source, _experiment(checkpoint)
        for key, wanted in (("fn_name", "add"), ("seq_len", 2), ("normalization_type", None), ("n_layers", 1)):
            if experiment.get(key, wanted) != wanted:
                raise BadConfig(f"{source}: {key} is {experiment[key]!r}; quadlens reads {wanted!r}")
        weights = state_dict_weights(checkpoint)
        p, p_said = known_modulus(
            source, hints, _whole(source, experiment, "p"), (weights["W_U"].shape[1], "d_vocab_out")
        )
        positions = 3 if experiment.get("use_end_of_sequence", True) else 2
        if experiment.get("attention_rate") is None:
            raise BadConfig(
                f"{source}: run_config has no attention_rate; give --format transformer-lens and --attention"
            )
        rate = finite_number(source, "attention_rate", experiment["attention_rate"])
        claim: Claim = (1 / positions,) * positions if rate == 1 else SoftmaxAttention(positions)

        def compute(count: int | None) -> tuple[float, ...]:
            mix = Mix(scale=1 - rate, shift=rate / positions)
            return softmax_attention(source, weights, p, 0, count or positions, mix)

        attention, said = settle_attention(source, hints, claim, None, compute)
        activation, activation_said = known_activation(source, hints, str(experiment.get("act_fn", "relu")))
        kept = {name: array for name, array in weights.items() if name not in QUERY_KEY_NAMES}
        notes = (
            f"p = {p}: {p_said}",
            f"attention {', '.join(f'{x:.6g}' for x in attention)}: {said}, attention_rate {rate:g}",
            f"activation {activation}: {activation_said}",
        )
        return Imported(transformer_from(source, kept, p, attention, activation), self.name, notes)

    def write(self, model: Model) -> Exported:
        """The state dict under `model` and a plain `run_config`; there is no `model_config`, whose class is gone."""
        uniform = uniform_softmax(model, self.name)
        config = uniform.params.config
        if config.b_token_offset:
            raise BadConfig("gbmi gives both operands the same tokens; this model has tokens of its own for b")
        experiment = {
            "p": config.p,
            "d_model": config.d_model,
            "n_layers": 1,
            "n_heads": config.n_heads,
            "d_mlp": config.d_mlp,
            "act_fn": config.activation,
            "normalization_type": None,
            "seq_len": 2,
            "attention_rate": 1,
            "use_end_of_sequence": config.has_equals,
            "fn_name": "add",
        }
        content = {"model": state_dict_of(uniform.params), "run_config": {"experiment": experiment}}
        return Exported(content, None, uniform.notes)


def _experiment(checkpoint: Checkpoint) -> Mapping[str, Any]:
    run = checkpoint.extras.get("run_config")
    experiment = run.get("experiment") if isinstance(run, Mapping) else None
    if not isinstance(experiment, Mapping):
        raise BadFile(f"{checkpoint.source}: no run_config with an experiment in it; expected a gbmi checkpoint")
    return experiment


def _whole(source: str, experiment: Mapping[str, Any], key: str) -> int | None:
    value = experiment.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise BadConfig(f"{source}: {key} in run_config is a {type(value).__name__}, expected a whole number")
