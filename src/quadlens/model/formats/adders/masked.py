"""fblissjr/AdderBoard: adders of three heads whose scores have a fixed part, of which -∞ is a mask."""

import re
from pathlib import Path

import numpy as np

from quadlens.errors import BadFile
from quadlens.model.formats.adders.parts import (
    Marked,
    Parts,
    Settings,
    add_task,
    built,
    check_heads,
    reading_heads,
    writing_heads,
)
from quadlens.model.formats.checkpoint import Checkpoint
from quadlens.model.formats.protocol import Hints, Imported
from quadlens.model.norm import Norm, Norms

NORM = Norm("rms", 1e-6)
PLUS, EQUALS = 10, 11
# The program names a file by its architecture, of which one has no norms.
RUN = re.compile(r"(?:submission_)?trained_((?:mask|steep|alibi)-\w+?)(?:_best)?")
WITHOUT_NORMS = "mask-nonorm"


class Masked(Marked):
    """`fixed_mask` or `alibi`: what is added to each head's scores; norms without weights; ReLU."""

    name = "masked-adder"
    marks = (("fixed_mask", "mlp_up.weight"), ("alibi", "mlp_up.weight"))

    def read(self, checkpoint: Checkpoint, hints: Hints) -> Imported:
        """As many heads as the fixed part has; the answer is eleven digits."""
        parts = Parts(checkpoint)
        fixed = parts.take("fixed_mask" if "fixed_mask" in parts else "alibi", "h", "t", "t", finite=False)
        n_heads, task = parts.width("h"), add_task(PLUS, EQUALS)
        T = len(task.template)
        if parts.width("t") < T:
            raise BadFile(f"{checkpoint.source}: {parts.width('t')} positions; ten digits and their sum take {T}")
        fixed = fixed[:, :T, :T]
        mask = np.isfinite(fixed)
        if not np.all(mask | np.isneginf(fixed)) or not mask.any(axis=2).all() or np.triu(mask, 1).any():
            raise BadFile(
                f"{checkpoint.source}: the fixed part of its scores; expected numbers and -∞, at least one number in "
                "each row, none of a later position"
            )
        tokens = parts.take("embed.weight", "v", "d")
        check_heads(checkpoint.source, tokens.shape[1], n_heads)
        norm = NORM if self._normalised(checkpoint, hints, parts) else None
        head, bias = parts.take_if("lm_head.weight", "v", "d"), parts.take_if("lm_head.bias", "v")
        parts.notes.append("the answer ends after eleven digits, as the published program reads it")
        tensors = {
            "W_E": tokens,
            **{f"W_{x.upper()}": reading_heads(parts.take(f"{x}_proj.weight", "d", "d"), n_heads) for x in "qkv"},
            "W_O": writing_heads(parts.take("o_proj.weight", "d", "d"), n_heads),
            "mask": mask.astype(np.float64),
            "score_bias": np.where(mask, fixed, 0.0),
            "W_in": parts.take("mlp_up.weight", "m", "d").T,
            "b_in": parts.take_if("mlp_up.bias", "m"),
            "W_out": parts.take("mlp_down.weight", "d", "m").T,
            "W_U": tokens.T if head is None else head.T,
            "b_U": bias,
        }
        norms = Norms(attention=norm, mlp=norm, final=norm)
        return built(parts, hints, self.name, task, tensors, norms=norms, mask="tensor")

    def _normalised(self, checkpoint: Checkpoint, hints: Hints, parts: Parts) -> bool:
        """Whether it has norms, which have no weights: the file's name says the architecture, or a config."""
        if "alibi" in checkpoint.tensors:
            parts.notes.append("RMSNorm without weights: all architectures of the program that have `alibi`")
            return True
        settings = Settings(checkpoint.source, hints.sidecar)
        run = RUN.fullmatch(Path(checkpoint.source).stem)
        how = "give a config that has skip_norm, or keep the file's name, trained_<architecture>"
        settings.need(hints.of("skip_norm") is not None or run, "whether the network has norms", how)
        skipped = settings.get("skip_norm", run is not None and run[1] == WITHOUT_NORMS)
        who = "the config" if hints.of("skip_norm") is not None else "the file's name"
        parts.notes.append(f"{'no norms' if skipped else 'RMSNorm without weights'}: {who}")
        return not skipped
