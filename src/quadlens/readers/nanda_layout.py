"""The layout of Nanda et al. and of Zhong et al.: column vectors, heads concatenated in W_O."""

import dataclasses
import re

import numpy as np

from quadlens.base.errors import BadConfig, BadFile
from quadlens.network.tensor_names import PAIR_NAMES
from quadlens.readers.checkpoint import Checkpoint, Tensors, check_ranks, each_layer, take
from quadlens.readers.facts import Missing, finite_number, known_modulus, odd_or_open, switch
from quadlens.readers.protocol import Hints, Imported, Sniff, SoftmaxAttention
from quadlens.readers.transformer import Facts, Mix, read_transformer

WEIGHTS = ("W_E", "W_pos", "W_U", "W_K", "W_Q", "W_V", "W_O", "W_in", "b_in", "W_out", "b_out")
# TransformerLens' names; what differs is how the weights lie.
NAMES = {name: PAIR_NAMES[name] for name in WEIGHTS}
MASK = "blocks.0.attn.mask"
OPTIONAL = ("W_K", "W_Q", "b_in", "b_out")
RANKS = {
    "W_E": 2,
    "W_pos": 2,
    "W_U": 2,
    "W_K": 3,
    "W_Q": 3,
    "W_V": 3,
    "W_O": 2,
    "W_in": 2,
    "W_out": 2,
}
NANDA_POSITIONS = 3
# What lies beside the weights in every run that Nanda et al. saved.
SAVED_RUN = ("train_losses", "test_losses")
ZHONG = "Zhong et al.'s program, whose layout this is"
NANDA = "Nanda et al.'s program, whose saved run this is"
BOTH = "the programs of Nanda et al. and Zhong et al., whose layout this is"


def layout_weights(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """Return the weights in our orientation, matrices multiplied from the right.

    They are W_E [v, d], W_V [h, d, dh], W_O [h, dh, d], W_in [d, m], W_out [m, d].

    The layout's own are W_E [d, v] (columns are tokens), W_V [h, dh, d], W_O [d, h·dh], W_in [m,
    d], W_out [d, m].
    """
    tensors = take(checkpoint, NAMES, OPTIONAL, (MASK,))
    check_ranks(checkpoint, tensors, RANKS)
    return each_layer(tensors, lambda layer: _turned(checkpoint.source, layer))


def _turned(source: str, tensors: Tensors) -> dict[str, np.ndarray]:
    heads, width, d_model = tensors["W_V"].shape
    if tensors["W_O"].shape != (d_model, heads * width):
        raise BadFile(
            f"{source}: W_O has shape {tensors['W_O'].shape}, expected {(d_model, heads * width)}"
        )
    weights = dict(tensors)
    weights |= {name: tensors[name].T for name in ("W_E", "W_in", "W_out")}
    weights |= {
        name: tensors[name].transpose(0, 2, 1) for name in ("W_K", "W_Q", "W_V") if name in tensors
    }
    weights["W_O"] = tensors["W_O"].T.reshape(heads, width, d_model)
    return weights


def _sniffed(checkpoint: Checkpoint, confidence: float, why: str) -> Sniff:
    """So sure, and why, of a checkpoint that has this layout; not at all of any other."""
    rank = checkpoint.rank("blocks.0.attn.W_O")
    if rank == 2:
        return Sniff(confidence, ("W_O has rank 2", why))
    return Sniff(
        0.0,
        (
            f"blocks.0.attn.W_O has rank {rank}" if rank else "no blocks.0.attn.W_O",
            "expected rank 2",
        ),
    )


def _n_ctx(checkpoint: Checkpoint) -> int | None:
    return (
        len(checkpoint.tensors["pos_embed.W_pos"]) if checkpoint.rank("pos_embed.W_pos") else None
    )


class Zhong:
    """Read Zhong et al. 2023 (the clock and the pizza).

    Files are `model_<id>.pt` with `config_<id>.json` beside it.

    Attention is `coeff · softmax + (1 - coeff)`: coeff 0 is the constant 1 on every position, not
    1/n. The causal mask is stored but not applied, whatever `attention_dir` says.
    """

    name = "zhong"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """W_O of rank 2 and two positions, or a config with attn_coeff."""
        if hints.in_config("attn_coeff") is not None:
            return _sniffed(checkpoint, 1.0, f"{hints.sidecar_name} has attn_coeff")
        if _n_ctx(checkpoint) == 2:
            return _sniffed(checkpoint, 1.0, "n_ctx is 2")
        return _sniffed(checkpoint, 0.5, "but n_ctx is not 2 and no config has attn_coeff")

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Read the model; attention and task come from the config, else from settings.

        So does p where shapes leave it open.
        """
        source, missing = checkpoint.source, Missing(checkpoint.source)
        weights = layout_weights(checkpoint)
        positions, equals = len(weights["W_pos"]), switch(hints, "eqn_sign")
        if positions not in (2, 3) or equals not in (None, positions == 3):
            by_config = (
                "" if equals is None else f" and eqn_sign is {equals} in {hints.sidecar_name}"
            )
            raise BadConfig(
                f"{source}: W_pos has {positions} positions{by_config}; expected (a, b), or with "
                "eqn_sign (a, b, '=')"
            )
        # '=', the last of the vocabulary, follows the operands: p of them, or 2p where b has its
        # own (diff_vocab).
        operands, own = len(weights["W_E"]) - (positions == 3), switch(hints, "diff_vocab")
        width = odd_or_open(operands, "the number of operands' tokens")
        known = known_modulus(source, hints, ("", None), width, Missing(source))
        offset = None
        if known is not None:
            offset = operands - known[0]
            if offset not in (0, known[0]) or own not in (None, offset > 0):
                by_config = "" if own is None else f" and diff_vocab {own}"
                raise BadConfig(
                    f"{source}: {operands} tokens of operands do not fit p = {known[0]}{by_config}"
                )
        task, coeff = self._task(hints, missing), hints.in_config("attn_coeff")
        facts = Facts(
            self.name,
            width,
            positions=positions,
            b_token_offset=offset,
            causal=False,
            task=task,
            program=ZHONG,
        )
        if coeff is not None:
            coeff = finite_number(hints.sidecar_name, "attn_coeff", coeff)
            constant = (1.0,) * positions
            facts = dataclasses.replace(
                facts,
                attention=(
                    f"attn_coeff in {hints.sidecar_name}",
                    constant if coeff == 0 else SoftmaxAttention(positions),
                ),
                mix=Mix(scale=coeff, shift=1.0 - coeff),
            )
        return read_transformer(source, weights, hints, facts, missing)

    @staticmethod
    def _task(hints: Hints, missing: Missing) -> str | None:
        """The task in the config; settings say what it does not, or what we have no name for."""
        written = hints.in_config("funcs")
        if isinstance(written, str) and re.fullmatch(
            r"lambdax:\(x\[0\]\+x\[1\]\)%\w+", re.sub(r"\s", "", written)
        ):
            return "add"
        if written is not None and hints.task is None and hints.answers is None:
            how = "give task=NAME, or its table with answers=FILE"
            missing.add(
                "the task", f"it was trained on {str(written)[:80]!r}; {how}", "task", "answers"
            )
        return None


class Nanda:
    """Nanda et al. 2023 (progress measures for grokking): input (a, b, '='), true attention.

    A saved run has its config beside the weights, which says p, the task and sometimes the
    activation.
    """

    name = "nanda"

    def sniff(self, checkpoint: Checkpoint, hints: Hints) -> Sniff:
        """W_O of rank 2 and three positions."""
        if hints.in_config("attn_coeff") is not None:
            return _sniffed(checkpoint, 0.5, f"but {hints.sidecar_name} has attn_coeff")
        n_ctx = _n_ctx(checkpoint)
        if n_ctx == NANDA_POSITIONS:
            return _sniffed(checkpoint, 1.0, "n_ctx is 3")
        longer = (
            " (longer inputs than two operands and '=', as of sums of many digits, are not read)"
        )
        return _sniffed(
            checkpoint, 0.5, f"but n_ctx is {n_ctx}, not 3{longer if (n_ctx or 0) > 3 else ''}"
        )

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """Read the model; a run that they saved has softmax and '='.

        The same tensors alone may be Zhong et al.'s, which leaves both open.
        """
        weights = layout_weights(checkpoint)
        if len(weights["W_pos"]) > NANDA_POSITIONS and hints.attention is None:
            raise BadConfig(
                f"{checkpoint.source}: W_pos has {len(weights['W_pos'])} positions; quadlens reads "
                "models of two operands, whose inputs are (a, b, '='), not sums of many digits or "
                "sequences. If no more than three positions are fed, say so with "
                "attention=softmax:3",
                settings=("attention",),
            )
        run = checkpoint.extras.get("config")
        run = run if isinstance(run, dict) else {}
        missing = Missing(checkpoint.source)
        task, p, act_type = run.get("fn_name"), run.get("p"), run.get("act_type")
        if task is not None and not (isinstance(task, str) and task in ("add", "subtract")):
            if hints.task is None and hints.answers is None:
                how = "give task=NAME, or its table with answers=FILE"
                missing.add("the task", f"fn_name is {str(task)[:80]!r}; {how}", "task", "answers")
            task = None
        # Zhong et al. save the same tensors alone; what lies beside the weights is Nanda et al.'s.
        theirs = bool(run.keys() >= {"fn_name", "p"}) or all(
            x in checkpoint.extras for x in SAVED_RUN
        )
        facts = Facts(
            self.name,
            odd_or_open(weights["W_E"].shape[0] - 1, "the vocabulary without '='"),
            p=("p in the run's config", p if type(p) is int else None),
            task=task,
            activation=(
                "act_type in the run's config",
                act_type if isinstance(act_type, str) else None,
            ),
            otherwise=SoftmaxAttention(NANDA_POSITIONS) if theirs else None,
            positions=NANDA_POSITIONS,
            b_token_offset=0 if theirs else None,
            program=NANDA if theirs else BOTH,
        )
        return read_transformer(checkpoint.source, weights, hints, facts, missing)
