"""Readers of public adders.

Logits against their authors' forward passes (`adder_oracles`), refusals, `.npz`.
"""

import contextlib
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli_runner import quadlens
from quadlens.base.errors import BadConfig, BadFile, QuadlensError
from quadlens.network.native import load_file, save
from quadlens.network.sequence_forward import answered_right, forward, sequence_config
from quadlens.network.sequence_task import expand, sample_words
from quadlens.readers import Hints, Imported, from_state_dict, import_file
from quadlens.readers.checkpoint import read_checkpoint
from readers import adder_oracles as oracles
from torch_zips import torch_zip

Tensors = dict[str, np.ndarray]
Oracle = Callable[[np.ndarray], np.ndarray]


def same_logits(imported: Imported, oracle: Oracle, tolerance: float = 1e-11) -> None:
    """At every step, on random tokens and on inputs of the task."""
    model, config = imported.model, sequence_config(imported.model)
    task = expand(config)
    drawn = np.random.default_rng(3).integers(0, config.d_vocab, (8, len(task.positions)))
    tokens = np.concatenate([drawn, task.tokens(sample_words(task, 8))])
    expected = oracle(tokens)
    for query, _, _ in task.steps:
        ours = forward(model, tokens, query)
        assert np.abs(ours - expected[:, query]).max() <= tolerance * max(
            1.0, np.abs(expected).max()
        )


def draw(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> Tensors:
    rng = np.random.default_rng(seed)
    return {
        name: np.asarray(rng.standard_normal(shape), dtype=np.float32)
        for name, shape in shapes.items()
    }


def saved(path: Path, value: dict[str, Any]) -> Path:
    path.write_bytes(torch_zip(value))
    return path


# --- MicroAdder
# --------------------------------------------------------------------------------------------------

SPIRAL = {f"spiral_{x}": () for x in ("amp", "phase", "slope", "offset")}
ARC = {f"tok_arc_{x}": () for x in ("A", "B", "start", "stride")}
A, F = "blocks.0.attn.", "blocks.0.ffn."


def micro_shapes(
    tok: int = 2, pos: int = 3, queries: int = 5, values: int = 5, rank: int = 1, heads: int = 1
) -> dict[str, tuple[int, ...]]:
    d = tok + pos
    return {
        **SPIRAL,
        "z_hi_pos": (1, pos),
        "_eos_pos": (1, pos),
        "blocks.0.ln1.weight": (d,),
        "blocks.0.ln2.weight": (d,),
        "ln_f.weight": (d,),
        f"{A}causal_mask": (1, 1, 34, 34),
        f"{A}q_proj.weight": (queries, pos),
        f"{A}q_phase_angle": (heads,),
        f"{A}out_proj.A": (values, rank),
        f"{A}out_proj.B": (rank, d),
        f"{F}fc1.weight": (2, d),
        f"{F}fc2.weight": (d, 2),
        "head_proj.weight": (tok, d),
    }


EQUALS_ONLY = {"_plus_pos": (1, 3), "special_pos_equals": (1, 3)}
LEARNED = {"special_pos_learned": (2, 3), "pos_corr_slope": (), "pos_corr_intercept": ()}
BIASES = {f"{F}fc1.bias": (2,), f"{F}fc2.bias": (5,)}
SHARED = {"norm_mode": "shared", "tie_qk": True, "tie_vo": True}
WIDE = {
    **micro_shapes(3, 3, 6, 6, 2, 2),
    "tok_emb.weight": (14, 3),
    f"{A}k_proj.weight": (6, 3),
    f"{A}v_proj.weight": (6, 3),
    f"{F}fc1.bias": (2,),
    f"{F}fc2.bias": (6,),
}
MICRO: dict[str, tuple[dict[str, tuple[int, ...]], dict[str, Any]]] = {
    "57p": (
        {
            **{
                name.replace(A, "")
                .replace(F, "")
                .replace("blocks.0.ln", "norm")
                .replace("ln_f", "norm_f"): shape
                for name, shape in micro_shapes(queries=4).items()
                if "fc2" not in name
            },
            **{name: () for name in ARC if name != "tok_arc_B"},
            **EQUALS_ONLY,
        },
        {"norm_mode": "weighted", "tie_fc2_head": True, "qk_input": "pos"},
    ),
    "67p": ({**micro_shapes(queries=4), **ARC, **EQUALS_ONLY}, {**SHARED, "tie_tok_arc_ab": True}),
    "75p": ({**micro_shapes(), **ARC, **EQUALS_ONLY}, SHARED),
    "80p": ({**micro_shapes(), **ARC, **LEARNED}, SHARED),
    "90p": (
        {**micro_shapes(), **ARC, **LEARNED, f"{A}v_proj.weight": (5, 2)},
        {**SHARED, "tie_vo": False},
    ),
    "100p": ({**micro_shapes(), **ARC, **LEARNED, f"{A}v_proj.weight": (5, 2)}, {"tie_qk": True}),
    "133p": (
        {
            **micro_shapes(rank=2),
            "tok_emb.weight": (10, 2),
            **LEARNED,
            f"{A}v_proj.weight": (5, 2),
            **BIASES,
        },
        {"tie_qk": True},
    ),
    "170p": (
        {
            **micro_shapes(2, 4, 6, 6, 2, 2),
            "tok_emb.weight": (14, 2),
            **{**LEARNED, "special_pos_learned": (2, 4)},
            f"{A}v_proj.weight": (6, 2),
            **{f"{F}fc1.bias": (2,), f"{F}fc2.bias": (6,)},
        },
        {"tie_qk": True, "n_heads": 2},
    ),
    "203p": (
        {**{k: v for k, v in WIDE.items() if "phase_angle" not in k}, **LEARNED},
        {"n_heads": 2},
    ),
    "226p": (
        {
            **{
                k: v
                for k, v in WIDE.items()
                if "phase_angle" not in k and "out_proj" not in k and k != "_eos_pos"
            },
            f"{A}out_proj.weight": (6, 6),
            "pos_correction": (10,),
            "special_pos": (3, 3),
        },
        {"n_heads": 2},
    ),
}


def micro(name: str) -> tuple[Tensors, dict[str, Any]]:
    shapes, config = MICRO[name]
    return draw(shapes), {"n_heads": 1, "n_layers": 1, **config}


@pytest.mark.parametrize("name", MICRO)
def test_microadder(tmp_path: Path, name: str) -> None:
    tensors, config = micro(name)
    path = saved(tmp_path / "m.pt", {"model_state_dict": tensors, "config": config, "step": 3})
    imported = import_file(path)
    assert imported.format == "microadder"
    same_logits(
        imported, lambda tokens: oracles.split_stream(tensors, tokens, config["n_heads"], config)
    )
    found, vocabulary = (
        sequence_config(imported.model),
        len(tensors.get("tok_emb.weight", range(10))),
    )
    assert (found.task.stop == "zero") == (vocabulary == 14)
    assert {found.task.template[10], found.task.template[21]} == (
        {10, 11} if vocabulary == 14 else {0}
    )
    if "out_proj.A" in "".join(tensors):
        assert (
            found.d_value
            == next(x for n, x in tensors.items() if n.endswith("out_proj.A")).shape[1]
        )


def test_stale_tensors_are_left_out_and_named(tmp_path: Path) -> None:
    tensors, config = micro("67p")
    stale = {"tok_arc_B": np.float32(9), "ln_f.weight": np.full(5, 7, np.float32)}
    stale[f"{A}v_proj.weight"] = np.ones((5, 2), np.float32)
    stale[f"{A}k_proj.weight"] = np.ones((4, 3), np.float32)
    value = {
        "model_state_dict": {**tensors, **{n: np.asarray(x) for n, x in stale.items()}},
        "config": config,
    }
    with_stale = import_file(saved(tmp_path / "stale.pt", value))
    without = import_file(saved(tmp_path / "m.pt", {"model_state_dict": tensors, "config": config}))
    for name, array in without.model.tensors.items():
        np.testing.assert_array_equal(with_stale.model.tensors[name], array)
    told = " ".join(with_stale.notes)
    assert all(
        name in told for name in ("tok_arc_B", "ln_f.weight", "v_proj.weight", "k_proj.weight")
    )


# --- the others
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [False, True])
@pytest.mark.parametrize("spiral", [False, True])
def test_spiral_adder(tmp_path: Path, spiral: bool, layer: bool) -> None:
    names = ("ln1", "ln_f") if layer else ("ln1", "ln2", "ln_f")
    tensors = draw(
        {
            **({f"pos_{name}": () for name in SPIRAL} if spiral else {"digit_enc": (10, 3)}),
            **{
                "z10_enc": (1, 3),
                "special_enc": (3, 3),
                "tok_emb.weight": (14, 3),
                "causal_mask": (1, 1, 34, 34),
            },
            **{f"{x}_proj.weight": (6, 3) for x in "qkv"},
            **{"out_proj.weight": (6, 6), "head_proj.weight": (3, 6)},
            **{f"{name}.weight": (6,) for name in names},
            **({f"{name}.bias": (6,) for name in names} if layer else {}),
            **{
                "ffn.0.weight": (2, 6),
                "ffn.0.bias": (2,),
                "ffn.2.weight": (6, 2),
                "ffn.2.bias": (6,),
            },
        }
    )
    imported = import_file(saved(tmp_path / "m.pt", tensors))
    assert imported.format == "spiral-adder"
    same_logits(imported, lambda tokens: oracles.split_stream(tensors, tokens, 2, {}))


def low_rank_file(tie: str, rms: bool, factored: bool, n_head: int = 1) -> dict[str, Any]:
    d, m, block = 4, 6, "blocks.0."
    qkv: dict[str, tuple[int, ...]] = {f"{block}attn.qkv_A": (d, 3)}
    qkv |= {f"{block}attn.qkv_B{x}": (3, d) for x in ("q", "kv")}
    if tie == "none":
        qkv = {f"{block}attn.qkv.A": (d, 3), f"{block}attn.qkv.B": (3, 3 * d)}
    maps = {"attn.proj": (d, d), "mlp.fc1": (d, m), "mlp.fc2": (m, d)}
    shapes: dict[str, tuple[int, ...]] = {
        "token_emb.weight": (14, d),
        "pos_emb.A": (33, 2),
        "pos_emb.B": (2, d),
        **qkv,
    }
    for name, (i, o) in maps.items():
        shapes |= (
            {f"{block}{name}.A": (i, 2), f"{block}{name}.B": (2, o)}
            if factored
            else {f"{block}{name}.weight": (o, i)}
        )
    for name in (f"{block}ln1", f"{block}ln2", "ln_f"):
        shapes |= (
            {f"{name}.weight": (d,)} if rms else {f"{name}.weight": (d,), f"{name}.bias": (d,)}
        )
    tensors = draw(shapes)
    tensors["lm_head.weight"] = tensors["token_emb.weight"].copy()
    config = {"n_layer": 1, "n_head": n_head, "use_rmsnorm": rms, "tie_qkv": tie, "dropout": 0.0}
    return {"model_state": tensors, "model_config": config, "step": 1, "val_exact": 1.0}


@pytest.mark.parametrize(
    ("tie", "rms", "factored", "n_head"),
    [
        ("none", False, False, 1),
        ("none", False, True, 2),
        ("shareA_tieKV", True, True, 1),
        ("none", True, False, 2),
    ],
)
def test_low_rank(tmp_path: Path, tie: str, rms: bool, factored: bool, n_head: int) -> None:
    value = low_rank_file(tie, rms, factored, n_head)
    imported = import_file(saved(tmp_path / "m.pt", value))
    assert imported.format == "low-rank-adder"
    assert sequence_config(imported.model).task.template[0] == "x9"
    same_logits(
        imported,
        lambda tokens: oracles.low_rank(value["model_state"], tokens, value["model_config"]),
    )


def test_plain_adder(tmp_path: Path) -> None:
    d = 5
    shapes: dict[str, tuple[int, ...]] = {
        "embed.weight": (14, d),
        "pos_embed.weight": (36, d),
        "lm_head_bias": (14,),
    }
    shapes |= {f"block.{x}_proj.weight": (d, d) for x in "qkvo"} | {"block.ff_up.weight": (7, d)}
    shapes |= {
        "block.ff_down.weight": (d, 7),
        "ln_f.weight": (d,),
        "block.ln1.weight": (d,),
        "block.ln2.weight": (d,),
    }
    tensors = draw(shapes)
    imported = import_file(saved(tmp_path / "m.pt", tensors))
    assert sequence_config(imported.model).task.stop == "zero"
    same_logits(imported, lambda tokens: oracles.plain(tensors, tokens))


def qwen_tensors(d: int = 3, heads: int = 2, ff: int = 2) -> Tensors:
    layer = "model.layers.0."
    return draw(
        {
            "model.embed_tokens.weight": (10, d),
            f"{layer}self_attn.q_proj.weight": (4 * heads, d),
            **{f"{layer}self_attn.{x}_proj.weight": (4, d) for x in "kv"},
            f"{layer}self_attn.o_proj.weight": (d, 4 * heads),
            **{f"{layer}self_attn.{x}_norm.weight": (4,) for x in "qk"},
            **{f"{layer}{x}_layernorm.weight": (d,) for x in ("input", "post_attention")},
            **{f"{layer}mlp.{x}_proj.weight": (ff, d) for x in ("gate", "up")},
            f"{layer}mlp.down_proj.weight": (d, ff),
            "model.norm.weight": (d,),
        }
    )


@pytest.mark.parametrize("heads", [1, 2])
def test_qwen_from_npz(tmp_path: Path, heads: int) -> None:
    tensors = qwen_tensors(heads=heads)
    np.savez(tmp_path / "m.npz", **tensors)  # type: ignore[arg-type]
    imported = import_file(tmp_path / "m.npz")
    assert (imported.format, sequence_config(imported.model).d_value) == ("qwen-adder", 3)
    same_logits(imported, lambda tokens: oracles.qwen(tensors, tokens))


@pytest.mark.parametrize("tied", [True, False])
def test_arc_qwen(tmp_path: Path, tied: bool) -> None:
    shapes: dict[str, tuple[int, ...]] = {f"arc_{x}": () for x in ("A", "start", "stride")}
    shapes |= {f"block.{x}.weight": (3,) for x in ("ln1", "ln2")} | {"final_norm.weight": (3,)}
    shapes |= {f"block.attn.{x}_proj.weight": (4, 3) for x in ("qk" if tied else "qkv")}
    shapes |= {f"block.attn.{x}_norm.weight": (4,) for x in "qk"}
    shapes |= {} if tied else {"block.attn.o_proj.weight": (3, 4)}
    shapes |= {f"block.mlp.{x}_proj.weight": (2, 3) for x in ("gate", "up")} | {
        "block.mlp.down_proj.weight": (3, 2)
    }
    tensors = draw(shapes)
    imported = import_file(
        saved(tmp_path / "m.pt", {"state_dict": tensors, "config": {"rope_theta": 5.0}})
    )
    assert (imported.format, sequence_config(imported.model).d_value) == ("arc-qwen-adder", 2)
    same_logits(imported, lambda tokens: oracles.qwen(tensors, tokens, 5.0))
    with pytest.raises(BadConfig, match="do not say rope_theta: give a config that has it"):
        import_file(saved(tmp_path / "m.pt", {"state_dict": tensors}))


def tied_qwen_tensors(d: int = 4, ff: int = 3) -> Tensors:
    norms = {f"{name}.weight": (d,) for name in ("norm1", "norm2", "norm_final")}
    norms |= {f"{name}_norm.weight": (4,) for name in "qk"}
    reading = {
        "W_q.weight": (4, d),
        "W_kv.weight": (4, d),
        "W_gate.weight": (ff, d),
        "W_up.weight": (ff, d),
    }
    return draw({"embedding.weight": (10, d), **norms, **reading, "W_down.weight": (d, ff)})


@pytest.mark.parametrize("d", [3, 4])
def test_tied_qwen(tmp_path: Path, d: int) -> None:
    tensors = tied_qwen_tensors(d)
    np.savez(tmp_path / "m.npz", **tensors)  # type: ignore[arg-type]
    imported = import_file(tmp_path / "m.npz")
    assert (imported.format, imported.task) == ("tied-qwen-adder", "add:10")
    same_logits(imported, lambda tokens: oracles.tied_qwen(tensors, tokens))
    tensors["W_v.weight"] = tensors["W_kv.weight"]
    with pytest.raises(BadFile, match=r"unknown tensors: W_v.weight"):
        from_state_dict(tensors)


def masked_tensors(fixed: str, d: int = 6) -> Tensors:
    shapes: dict[str, tuple[int, ...]] = {
        "embed.weight": (12, d),
        "lm_head.weight": (12, d),
        "lm_head.bias": (12,),
    }
    shapes |= {f"{x}_proj.weight": (d, d) for x in "qkvo"} | {
        "mlp_up.weight": (5, d),
        "mlp_up.bias": (5,),
    }
    tensors = draw(shapes | {"mlp_down.weight": (d, 5)})
    rng = np.random.default_rng(5)
    seen = np.maximum(np.tril(rng.integers(0, 2, (3, 35, 35))), np.eye(35, dtype=int))
    tensors[fixed] = np.where(seen > 0, rng.standard_normal((3, 35, 35)), -np.inf).astype(
        np.float32
    )
    return tensors


@pytest.mark.parametrize(
    ("name", "fixed", "norms"),
    [
        ("trained_mask-w6_best", "fixed_mask", True),
        ("trained_mask-nonorm", "fixed_mask", False),
        ("any", "alibi", True),
        ("config", "fixed_mask", False),
    ],
)
def test_masked(tmp_path: Path, name: str, fixed: str, norms: bool) -> None:
    tensors = masked_tensors(fixed)
    if name == "config":
        (tmp_path / "config_config.json").write_text(json.dumps({"skip_norm": True}))
    imported = import_file(saved(tmp_path / f"{name}.pt", tensors))
    assert imported.format == "masked-adder"
    same_logits(imported, lambda tokens: oracles.masked(tensors, tokens, norms))


def test_norms_without_weights_are_not_assumed(tmp_path: Path) -> None:
    with pytest.raises(
        BadConfig,
        match="do not say whether the network has norms: give a config that has skip_norm",
    ):
        import_file(saved(tmp_path / "model.pt", masked_tensors("fixed_mask")))


def hooked_tensors(tokens: int, answers: int, positions: int, mlp: bool = True) -> Tensors:
    d, k, block = 6, 4, "blocks.0."
    shapes: dict[str, tuple[int, ...]] = {
        "embed.W_E": (tokens, d),
        "pos_embed.W_pos": (positions, d),
    }
    shapes |= {f"{block}attn.W_{x}": (2, d, k) for x in "QKV"} | {
        f"{block}attn.b_{x}": (2, k) for x in "QKV"
    }
    shapes |= {f"{block}attn.W_O": (2, k, d), f"{block}attn.b_O": (d,)}
    if mlp:
        shapes |= {
            f"{block}mlp.W_in": (d, 5),
            f"{block}mlp.b_in": (5,),
            f"{block}mlp.W_out": (5, d),
        }
        shapes |= {f"{block}mlp.b_out": (d,)}
    return draw(shapes | {"unembed.W_U": (d, answers), "unembed.b_U": (answers,)})


def test_running_sums_of_transformer_lens(tmp_path: Path) -> None:
    tensors = hooked_tensors(11, 3, 5)
    path = saved(
        tmp_path / "m.pt", {**tensors, "blocks.0.attn.mask": np.tril(np.ones((5, 5), dtype=bool))}
    )
    imported = import_file(path, hints=Hints(task="cumsum-sign:5", activation="relu"))
    assert imported.format == "transformer-lens-sequence"
    same_logits(imported, lambda tokens: oracles.hooked(tensors, tokens, numbers=5))
    with pytest.raises(
        BadConfig, match=r"where it reads 5 numbers, give task=cumsum-sign:5 or max:5"
    ):
        import_file(path)
    with pytest.raises(BadConfig, match="do not say the activation"):
        import_file(path, hints=Hints(task="cumsum-sign:5"))
    even = saved(tmp_path / "even.pt", hooked_tensors(8, 3, 5))
    with pytest.raises(BadConfig, match=r"has an odd number of tokens, -m … m; the network has 8"):
        import_file(even, hints=Hints(task="cumsum-sign:5", activation="relu"))


@pytest.mark.parametrize("norm", [None, "LNPre"])
def test_the_largest_of_four(tmp_path: Path, norm: str | None) -> None:
    tensors = hooked_tensors(8, 8, 4, mlp=False)
    (tmp_path / "config_m.json").write_text(
        json.dumps({"task": "max:4", "normalization_type": norm})
    )
    imported = import_file(saved(tmp_path / "m.pt", tensors))
    same_logits(imported, lambda tokens: oracles.hooked(tensors, tokens, norm=norm is not None))
    assert sequence_config(imported.model).d_mlp == 0


# --- what every reader does
# -------------------------------------------------------------------------------------------


def test_our_own_file_gives_back_what_was_read(tmp_path: Path) -> None:
    imported = import_file(saved(tmp_path / "trained_mask-none.pt", masked_tensors("fixed_mask")))
    save(imported.model, tmp_path / "m.safetensors")
    again = load_file(tmp_path / "m.safetensors")
    assert again.config == imported.model.config
    assert import_file(tmp_path / "m.safetensors").correct == imported.correct


def test_a_sample_is_counted_and_said(tmp_path: Path) -> None:
    value = low_rank_file("none", True, False)
    run = quadlens(
        "import", str(saved(tmp_path / "m.pt", value)), "-o", str(tmp_path / "m.safetensors")
    )
    imported = import_file(tmp_path / "m.pt")
    words = sample_words(expand(sequence_config(imported.model)))
    assert imported.correct == answered_right(imported.model, words).sum()
    assert run.code == 0
    sentence = (
        f"{imported.correct} of 1000 inputs are answered right, drawn of {10**20} with seed 0, "
        "half of them full"
    )
    assert sentence in " ".join(run.out.split())


def test_half_of_the_sample_is_full_of_carries(tmp_path: Path) -> None:
    task = expand(
        sequence_config(
            import_file(saved(tmp_path / "m.pt", low_rank_file("none", True, False))).model
        )
    )
    words = sample_words(task, 400)
    carries = task.trace(words)
    assert carries[:200, 1:].mean() == pytest.approx(0.5, abs=0.05)
    assert carries[200:, 1:].mean() > 0.75


def test_refusals(tmp_path: Path) -> None:
    tensors, config = micro("75p")

    def refused(
        text: str, tensors: Tensors = tensors, hints: Hints | None = None, **changed: Any
    ) -> None:
        with pytest.raises(QuadlensError, match=text):
            import_file(
                saved(tmp_path / "m.pt", {"model_state_dict": tensors, "config": config | changed}),
                hints=hints,
            )

    refused("alibi is True in its config; quadlens reads False", alibi=True)
    refused("norm_mode is 'spiral'; quadlens reads full, shared, weighted", norm_mode="spiral")
    refused("n_heads in its config is str, expected int", n_heads="1")
    refused("a width of 5 cannot be 2 heads", n_heads=2)
    refused("unknown tensors: extra", {**tensors, "extra": np.ones(3, np.float32)})
    refused(
        "missing tensors: spiral_phase", {k: v for k, v in tensors.items() if k != "spiral_phase"}
    )
    refused(
        r"head_proj.weight has shape \(2,\)",
        {**tensors, "head_proj.weight": np.ones(2, np.float32)},
    )
    refused("expected floats", {**tensors, "z_hi_pos": np.ones((1, 3), np.int64)})
    refused("expected finite weights", {**tensors, "z_hi_pos": np.full((1, 3), np.nan, np.float32)})
    refused(
        "two tensors are its q_proj.weight",
        {**tensors, "q_proj.weight": np.ones((5, 3), np.float32)},
    )
    refused("p was given, which a network on sequences does not have", hints=Hints(p=7))
    refused(
        "activation is relu by the setting but gelu by the program", hints=Hints(activation="relu")
    )
    refused("the task is max:4 by the setting task but add:10", hints=Hints(task="max:4"))
    with pytest.raises(BadConfig, match="do not say which weights are tied, nor n_heads"):
        import_file(saved(tmp_path / "m.pt", {"model_state_dict": tensors}))
    value = low_rank_file("none", True, False)
    value["model_state"]["lm_head.weight"] += 1
    with pytest.raises(BadFile, match=r"lm_head.weight is not token_emb.weight"):
        import_file(saved(tmp_path / "m.pt", value))


@pytest.mark.slow
def test_damaged_files_are_refused_or_read() -> None:
    """Tensors left out, turned, emptied, of integers, NaN or huge.

    An error of ours, or a network; nothing else.
    """
    states: list[tuple[dict[str, Any], dict[str, Any]]] = [
        *(
            ({"model_state_dict": t, "config": c}, {})
            for t, c in (micro("57p"), micro("170p"), micro("226p"))
        ),
        (low_rank_file("none", False, True, 2), {}),
        (low_rank_file("shareA_tieKV", True, True), {}),
        (qwen_tensors(), {}),
        (tied_qwen_tensors(), {}),
        (masked_tensors("alibi"), {}),
        (hooked_tensors(11, 3, 5), {"task": "cumsum-sign:5", "activation": "relu"}),
    ]
    rng, read = np.random.default_rng(1), 0
    changes: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda x: x.T,
        lambda x: np.zeros(tuple(rng.integers(0, 6, rng.integers(0, 4))), np.float32),
        lambda x: np.ones(x.shape, np.int64),
        lambda x: np.full_like(x, rng.choice([np.nan, np.inf, -np.inf, 3e38, 0])),
    ]
    for _ in range(60):
        value, hints = states[rng.integers(len(states))]
        key = next((name for name in ("model_state_dict", "model_state") if name in value), None)
        tensors = dict(value if key is None else value[key])
        name = sorted(tensors)[rng.integers(len(tensors))]
        if rng.integers(5):
            tensors[name] = changes[rng.integers(len(changes))](tensors[name])
        else:
            del tensors[name]
        with contextlib.suppress(QuadlensError):
            from_state_dict(tensors if key is None else {**value, key: tensors}, **hints)
            read += 1
    assert read > 0


# --- .npz
# --------------------------------------------------------------------------------------------------


def npz_of(record: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.writestr("x.npy", record)
    return stream.getvalue()


def npy(header: str, content: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + content


def test_arrays_are_read_whatever_their_order(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "b": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "c": np.float32(3),
    }
    more: dict[str, Any] = {**arrays, "d": np.arange(3, dtype=">f4")}
    np.savez(tmp_path / "m.npz", **more)
    tensors = read_checkpoint(tmp_path / "m.npz").tensors
    for name, array in arrays.items():
        np.testing.assert_array_equal(tensors[name], array)
    np.testing.assert_array_equal(tensors["d"], np.arange(3))
    assert tensors["d"].dtype == np.float32


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            npz_of(npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"x" * 8)),
            "expected numbers",
        ),
        (
            npz_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,)}")),
            "has 0 bytes",
        ),
        (
            npz_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", b"x" * 4)),
            "bytes, which its shape",
        ),
        (
            npz_of(npy("{'descr': '<c16', 'fortran_order': False, 'shape': (1,)}", b"x" * 16)),
            "expected numbers",
        ),
        (npz_of(npy("__import__('os').abort()")), "no array that NumPy wrote"),
        (npz_of(b""), "no array that NumPy wrote"),
        (
            npz_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"x" * 4), 8),
            "a compressed zip",
        ),
        (npz_of(b"x" * 99)[:60], "cut or damaged"),
    ],
    ids=range(8),
)
def test_npz_that_is_refused(tmp_path: Path, content: bytes, text: str) -> None:
    (tmp_path / "m.npz").write_bytes(content)
    with pytest.raises(BadFile, match=text):
        import_file(tmp_path / "m.npz")


# --- the files themselves
# ---------------------------------------------------------------------------------------------

PUBLIC: dict[str, tuple[Hints, Callable[[Any, np.ndarray], np.ndarray]]] = {
    **{
        f"microadder_{n}p.pt": (
            Hints(),
            lambda c, x: oracles.split_stream(
                c.tensors, x, c.extras["config"]["n_heads"], c.extras["config"]
            ),
        )
        for n in (57, 75, 100, 133, 226)
    },
    "jackcai_234.pt": (Hints(), lambda c, x: oracles.split_stream(c.tensors, x, 2, {})),
    "yinglunz_456p_s43.pt": (
        Hints(),
        lambda c, x: oracles.low_rank(c.tensors, x, c.extras["model_config"]),
    ),
    "rezabyt_311p.pt": (
        Hints(),
        lambda c, x: oracles.low_rank(c.tensors, x, c.extras["model_config"]),
    ),
    "staghado_122_lbfgs.npz": (Hints(), lambda c, x: oracles.qwen(c.tensors, x)),
    "staghado_137.npz": (Hints(), lambda c, x: oracles.qwen(c.tensors, x)),
    "vijec_52p.pt": (Hints(), lambda c, x: oracles.qwen(c.tensors, x, 3.0)),
    "arena_cumsum.pt": (
        Hints(task="cumsum-sign:20", activation="relu"),
        lambda c, x: oracles.hooked(c.tensors, x, numbers=5),
    ),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_adders(name: str) -> None:
    peers = os.environ.get("QUADLENS_PEERS")
    if peers is None or not (Path(peers) / "adders" / name).is_file():
        pytest.skip("QUADLENS_PEERS does not name a directory with public checkpoints")
    path, (hints, oracle) = Path(peers) / "adders" / name, PUBLIC[name]
    imported = import_file(path, hints=hints)
    same_logits(imported, lambda tokens: oracle(read_checkpoint(path), tokens))
    facts = json.loads((Path(peers) / "adders.json").read_text())["models"][name]
    assert imported.correct is not None
    if facts["verdict"] == "right on all":
        assert imported.correct == 1000
