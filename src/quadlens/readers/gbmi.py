"""gbmi's `.pth` files (the paper's group): a TransformerLens state dict with its run beside it."""

from collections.abc import Mapping
from typing import Any

from quadlens.base.errors import BadConfig, BadFile
from quadlens.readers.checkpoint import Checkpoint, is_deep
from quadlens.readers.facts import Missing, finite_number, odd_or_open
from quadlens.readers.protocol import Hints, Imported, Sniff, SoftmaxAttention
from quadlens.readers.transformer import THE_CONFIG, Facts, Mix, read_transformer
from quadlens.readers.transformer_lens import state_dict_weights


class Gbmi:
    """Read gbmi's files: attention is `rate / n + (1 - rate) · softmax` on n positions.

    Rate 1 is the paper's constant attention.
    """

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
        """Read the model; the file contains every fact."""
        source, experiment = checkpoint.source, _experiment(checkpoint)
        for key, wanted in (("seq_len", 2), ("normalization_type", None), ("n_layers", 1)):
            if experiment.get(key, wanted) != wanted:
                raise BadConfig(
                    f"{source}: {key} is {experiment[key]!r}; quadlens reads {wanted!r}"
                )
        if experiment.get("fn_name", "add") not in ("add", "subtract"):
            raise BadConfig(
                f"{source}: fn_name is {str(experiment['fn_name'])[:80]!r}; quadlens reads add and "
                "subtract"
            )
        weights = state_dict_weights(checkpoint)
        if is_deep(weights):
            raise BadConfig(
                f"{source}: it has several layers; of gbmi's files quadlens reads those with one"
            )
        absent = [
            key for key in ("attention_rate", "use_end_of_sequence") if experiment.get(key) is None
        ]
        missing = Missing(source)
        if absent:
            how = "give format=transformer-lens, and attention=…"
            missing.add(
                "the attention",
                f"run_config has no {' and no '.join(absent)}; {how}",
                "format",
                "attention",
            )
        positions = 3 if experiment.get("use_end_of_sequence") else 2
        rate = finite_number(source, "attention_rate", experiment.get("attention_rate") or 0)
        constant, act_fn = (1 / positions,) * positions, experiment.get("act_fn")
        facts = Facts(
            self.name,
            odd_or_open(weights["W_U"].shape[1], "d_vocab_out"),
            p=(THE_CONFIG, _whole(source, experiment, "p")),
            task=str(experiment.get("fn_name", "add")),
            activation=("act_fn in run_config", None if act_fn is None else str(act_fn)),
            attention=(
                "attention_rate in run_config",
                constant if rate == 1 else SoftmaxAttention(positions),
            ),
            mix=Mix(scale=1 - rate, shift=rate / positions),
            positions=positions,
            b_token_offset=0,
            program="gbmi's program",
            note=f", attention_rate {rate:g}",
        )
        return read_transformer(source, weights, hints, facts, missing)


def _experiment(checkpoint: Checkpoint) -> Mapping[str, Any]:
    run = checkpoint.extras.get("run_config")
    experiment = run.get("experiment") if isinstance(run, Mapping) else None
    if not isinstance(experiment, Mapping):
        raise BadFile(
            f"{checkpoint.source}: no run_config with an experiment in it; expected a gbmi "
            "checkpoint"
        )
    return experiment


def _whole(source: str, experiment: Mapping[str, Any], key: str) -> int | None:
    value = experiment.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise BadConfig(
        f"{source}: {key} in run_config is a {type(value).__name__}, expected a whole number"
    )
