"""Read Chughtai et al. 2023 (group composition): ReLU MLPs and softmax transformers.

Files are `model.pt` with `cfg.json`.
"""

import dataclasses

import numpy as np

from quadlens.base.errors import BadConfig, BadFile
from quadlens.readers.checkpoint import Checkpoint, check_ranks, take
from quadlens.readers.facts import Claim, whole_number
from quadlens.readers.mlps import two_layers
from quadlens.readers.protocol import Hints, Imported, Marked, SoftmaxAttention
from quadlens.readers.transformer import Facts, read_transformer
from quadlens.readers.transformer_lens import state_dict_weights

MLP_NAMES = {name: name for name in ("W_x", "W_y", "W", "W_U")}
# Views of the embedding that their class registers as weights of its own.
DUPLICATES = ("x_embed", "y_embed")
# Both are ReLU in their code, which has no setting for it.
KNOWN_MODELS = ("OneLayerMLP", "Transformer")
CLASS_SAID = "the model's class in the config, which has no other in Chughtai et al.'s program"
PROGRAM = "Chughtai et al.'s program, whose layout this is"
GROUPS = {"CyclicGroup": "C", "DihedralGroup": "D", "SymmetricGroup": "S", "AlternatingGroup": "A"}


class Chughtai(Marked):
    """MLP: ReLU([W_x[a], W_y[b]] W) W_U.

    Transformer: TransformerLens, (a, b, n) in, softmax, read at the end.
    """

    name = "chughtai"
    marks = (("W_x", "W_y"), DUPLICATES)

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Group and model from `cfg.json`; without one, task and activation come from flags."""
        activation = (CLASS_SAID, "relu" if hints.in_config("model") in KNOWN_MODELS else None)
        if "W_x" in checkpoint.tensors:
            imported = _read_mlp(checkpoint, hints, activation, self.name)
        else:
            tensors = {name: x for name, x in checkpoint.tensors.items() if name not in DUPLICATES}
            weights = state_dict_weights(dataclasses.replace(checkpoint, tensors=tensors))
            n = len(weights["W_E"]) - 1
            facts = Facts(
                self.name,
                (n, "the vocabulary without '='"),
                p=("the vocabulary without '='", n),
                activation=activation,
                attention=(f"as in {PROGRAM}", SoftmaxAttention(3)),
                positions=3,
                b_token_offset=0,
                program=PROGRAM,
            )
            imported = read_transformer(checkpoint.source, weights, hints, facts)
        return dataclasses.replace(imported, task=_group(checkpoint.source, hints))


def _read_mlp(
    checkpoint: Checkpoint, hints: Hints, activation: Claim[str], format_name: str
) -> Imported:
    """U_a = W_x W[:e], U_b = W_y W[e:], multiplied out in float64."""
    tensors = take(checkpoint, MLP_NAMES)
    check_ranks(checkpoint, tensors, dict.fromkeys(MLP_NAMES, 2))
    W_x, W_y, W, W_U = (tensors[name].astype(np.float64) for name in MLP_NAMES)
    width = W_x.shape[1]
    if W_y.shape != W_x.shape or W.shape[0] != 2 * width:
        raise BadFile(
            f"{checkpoint.source}: W_x {W_x.shape}, W_y {W_y.shape} and W {W.shape} do not fit "
            "together"
        )
    weights = {"W_a": W_x @ W[:width], "W_b": W_y @ W[width:], "W_out": W_U}
    inputs = f"a and b embedded, side by side: as in {PROGRAM}"
    return two_layers(checkpoint.source, hints, weights, activation, format_name, inputs)


def _group(source: str, hints: Hints) -> str | None:
    """The group in the config by our name; a cyclic group is addition."""
    family, degree = hints.in_config("group"), whole_number(hints, "group_parameter")
    if family is None or degree is None:
        return None
    if not isinstance(family, str) or family not in GROUPS:
        raise BadConfig(
            f"{source}: the group is {str(family)[:80]!r}; expected one of {', '.join(GROUPS)}"
        )
    return "add" if GROUPS[family] == "C" else f"{GROUPS[family]}{degree}"
