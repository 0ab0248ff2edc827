"""Readers of models with their own attention, of groups, and of files with several checkpoints,
against oracles.
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quadlens.base.errors import BadConfig, BadFile
from quadlens.network.config import Config
from quadlens.network.evaluate import all_pairs, evaluate
from quadlens.network.groups import group_orders
from quadlens.network.weights import Weights
from quadlens.readers import Hints, SoftmaxAttention, import_file
from readers.test_formats import (
    DH,
    D,
    M,
    P,
    Tensors,
    assert_same_logits,
    containers,
    double,
    nanda_logits,
    nanda_state_dict,
    random,
    relu,
    softmax,
    tl_end,
    tl_logits,
    tl_middle,
    tl_state_dict,
    token_rows,
    write,
)

pytestmark = pytest.mark.slow

OWN = Hints(SoftmaxAttention(), activation="relu")


@containers
def test_nanda_with_its_own_attention(tmp_path: Path, container: str) -> None:
    tensors = nanda_state_dict(P + 1, 3)
    imported = import_file(write(tmp_path / "m", tensors, container), hints=OWN)
    assert_same_logits(imported.model, nanda_logits(tensors, token_rows(P)))
    (note,) = (line for line in imported.notes if line.startswith("attention"))
    t = double({k.removeprefix("blocks.0."): v for k, v in tensors.items()})
    x = t["embed.W_E"][:, token_rows(P)].transpose(1, 2, 0) + t["pos_embed.W_pos"]
    k, q = (np.einsum("hkd,bsd->bhsk", t[f"attn.W_{n}"], x) for n in "KQ")
    patterns = softmax(np.einsum("bhk,bhsk->bhs", q[:, :, -1], k) / np.sqrt(DH))
    assert (
        f"which is {np.abs(patterns - patterns[0, 0]).max():.3g} from those of head 0 on a = 0, b "
        "= 0" in note
    )


@pytest.mark.parametrize("positions", [2, 3])
def test_transformer_lens_with_its_own_attention(tmp_path: Path, positions: int) -> None:
    tensors = tl_state_dict()
    hints = Hints(SoftmaxAttention(positions), activation="relu")
    imported = import_file(write(tmp_path / "m", tensors, "torch"), hints=hints)
    assert isinstance(imported.model.config, Config)
    assert imported.model.config.attention_kind == "softmax"
    assert_same_logits(
        imported.model, tl_logits(tensors, token_rows(P if positions == 3 else None), None)
    )


def test_heads_that_differ_are_not_constant(tmp_path: Path) -> None:
    tensors = tl_state_dict()
    tensors["blocks.0.attn.W_Q"][0] = 0
    tensors["blocks.0.attn.b_Q"][0] = 0
    hints = Hints(SoftmaxAttention(2), activation="relu")
    model = import_file(write(tmp_path / "m", tensors, "torch"), hints=hints).model
    assert isinstance(model, Weights)
    assert model.config.softmax is not None
    assert_same_logits(model, tl_logits(tensors, token_rows(), None))


def test_gbmi_with_partial_attention_rate(tmp_path: Path) -> None:
    tensors = tl_state_dict()
    run = {
        "experiment": {"p": P, "attention_rate": 0.5, "use_end_of_sequence": True, "act_fn": "relu"}
    }
    path = write(tmp_path / "m", {"model": tensors, "run_config": run}, "torch")
    model = import_file(path).model
    assert isinstance(model, Weights)
    assert model.config.attention_kind == "mixture"
    own, constant = (tl_middle(tensors, token_rows(P), x) for x in (None, (1 / 3,) * 3))
    assert_same_logits(model, tl_end(tensors, (own + constant) / 2))
    for name in ("W_Q", "b_Q"):
        tensors[f"blocks.0.attn.{name}"] *= 0
    path = write(tmp_path / "m", {"model": tensors, "run_config": run}, "torch")
    assert_same_logits(import_file(path).model, tl_logits(tensors, token_rows(P), (1 / 3,) * 3))


def test_zhong_with_true_attention(tmp_path: Path) -> None:
    tensors = nanda_state_dict(P, 2)
    path = write(tmp_path / "model_1", tensors, "torch")
    for coeff in (1.0, 0.001, 0.75):
        (tmp_path / "config_1.json").write_text(
            json.dumps({"C": P, "attn_coeff": coeff, "act_fn": "ReLU"})
        )
        assert_same_logits(
            import_file(path).model, nanda_logits(tensors, token_rows(), coeff=coeff)
        )
    tensors["blocks.0.attn.W_K"] *= 0
    imported = import_file(write(tmp_path / "model_1", tensors, "torch"))
    assert isinstance(imported.model, Weights)
    assert imported.model.config.attention == (0.625, 0.625)
    assert_same_logits(imported.model, nanda_logits(tensors, token_rows(), coeff=0.75))


def test_a_saved_run_brings_its_config(tmp_path: Path) -> None:
    """As Nanda et al. save them.

    P, the task and sometimes the activation lie beside the weights.
    """
    tensors = nanda_state_dict(P + 1, 3)
    config = {"p": P, "fn_name": "subtract", "act_type": "ReLU"}
    path = write(
        tmp_path / "m", {"model": tensors, "config": config, "train_losses": [1.0]}, "torch"
    )
    imported = import_file(path)
    assert imported.model.config.task.name == "subtract"
    assert_same_logits(imported.model, nanda_logits(tensors, token_rows(P)))
    with pytest.raises(
        BadConfig, match="the task is add by the setting task but subtract by the file's config"
    ):
        import_file(path, hints=Hints(task="add"))
    with pytest.raises(BadConfig, match="p is 5 by the setting p but 7 by p in the run's config"):
        import_file(path, hints=Hints(p=5))
    write(tmp_path / "m", {"model": tensors, "config": config | {"fn_name": "x2xyy2"}}, "torch")
    with pytest.raises(
        BadConfig, match="do not say the task: fn_name is 'x2xyy2'; give task=NAME, or its table"
    ):
        import_file(path)
    assert import_file(path, hints=Hints(answers="model")).model.config.task.name == "table"


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: {"state_dicts": x, "config": {"p": P}},
        lambda x: {str(i): y for i, y in enumerate(x)},
    ],
)
def test_one_of_several_checkpoints(tmp_path: Path, wrap: Any) -> None:
    several = [nanda_state_dict(P + 1, 3) for _ in range(3)]
    several[1] = {name: 2 * array for name, array in several[1].items()}
    path = write(tmp_path / "m", wrap(several), "torch")
    for which in (None, 3, -1):
        with pytest.raises(
            BadConfig, match="has 3 state dicts; choose one with checkpoint=N, from 0 to 2"
        ):
            import_file(path, hints=Hints(activation="relu", checkpoint=which))
    model = import_file(path, hints=dataclasses.replace(OWN, checkpoint=1)).model
    assert_same_logits(model, nanda_logits(several[1], token_rows(P)))
    one = write(tmp_path / "one", several[0], "torch")
    with pytest.raises(BadConfig, match="has one state dict; leave out checkpoint=4"):
        import_file(one, hints=Hints(activation="relu", checkpoint=4))


def chughtai_mlp(n: int) -> Tensors:
    return {
        "W_x": random(n, D),
        "W_y": random(n, D, seed=1),
        "W": random(2 * D, M),
        "W_U": random(M, n),
    }


def with_config(folder: Path, **config: Any) -> None:
    (folder / "cfg.json").write_text(json.dumps(config))


@pytest.mark.parametrize("n", [6, 7])
def test_chughtai_mlp(tmp_path: Path, n: int) -> None:
    tensors = chughtai_mlp(n)
    path = write(tmp_path / "model", tensors, "torch")
    with_config(tmp_path, model="OneLayerMLP", group="CyclicGroup", group_parameter=n)
    imported = import_file(path)
    t, pairs = double(tensors), all_pairs(n)
    stacked = np.concatenate([t["W_x"][pairs[:, 0]], t["W_y"][pairs[:, 1]]], axis=1)
    assert (imported.format, imported.model.config.task.name) == ("chughtai", "add")
    assert_same_logits(imported.model, relu(stacked @ t["W"]) @ t["W_U"])
    (tmp_path / "cfg.json").unlink()
    with pytest.raises(BadConfig, match="the weights do not say the activation"):
        import_file(path)


def test_chughtai_transformer(tmp_path: Path) -> None:
    tensors = tl_state_dict() | {"x_embed": random(P + 1, D), "y_embed": random(P + 1, D)}
    path = write(tmp_path / "model", tensors, "torch")
    with_config(tmp_path, model="Transformer", group="CyclicGroup", group_parameter=P)
    assert_same_logits(import_file(path).model, tl_logits(tensors, token_rows(P), None))


def mlp_that_answers(table: np.ndarray) -> Tensors:
    """One neuron for each (a, b), which fires on no other, and the answer behind it."""
    n = len(table)
    a, b = np.repeat(np.eye(n), n, axis=1), np.tile(np.eye(n), n)
    one = np.eye(n, dtype=np.float32)
    return {
        "W_x": one,
        "W_y": one,
        "W": np.vstack([a, b - 1]).astype(np.float32),
        "W_U": one[table.ravel()],
    }


@pytest.mark.parametrize("name", ["S3", "S4", "D5", "A5"])
def test_the_order_of_a_group_is_the_one_of_the_answers(tmp_path: Path, name: str) -> None:
    families = {"S": "SymmetricGroup", "D": "DihedralGroup", "A": "AlternatingGroup"}
    with_config(
        tmp_path, model="OneLayerMLP", group=families[name[0]], group_parameter=int(name[1])
    )
    random_bits = np.random.default_rng(0)
    for who, table in group_orders(name).items():
        # As a model that has memorised its training inputs only: the other answers are anything.
        answers = np.where(
            random_bits.random(table.shape) < 0.6,
            table,
            random_bits.integers(0, len(table), table.shape),
        )
        imported = import_file(write(tmp_path / "model", mlp_that_answers(answers), "torch"))
        right = int((answers == table).sum())
        assert np.array_equal(imported.model.config.task.answers, table)
        assert f"elements in {who}: {right} of {table.size} answers right" in imported.notes[-2]
        assert evaluate(imported.model.collapse()).correct == right


def test_two_orders_that_fit_alike_are_refused(tmp_path: Path) -> None:
    """A model that answers as one order for half of all a and as another otherwise has neither."""
    ours, other = list(group_orders("S4").values())[:2]
    with_config(tmp_path, model="OneLayerMLP", group="SymmetricGroup", group_parameter=4)
    path = write(tmp_path / "model", mlp_that_answers(np.vstack([ours[:12], other[12:]])), "torch")
    with pytest.raises(BadConfig, match="no known order of the elements of S4"):
        import_file(path)


def test_the_order_of_a_group_is_not_guessed(tmp_path: Path) -> None:
    """An order of the elements is taken only if it reproduces the model's answers."""
    path = write(tmp_path / "model", chughtai_mlp(6), "torch")
    with_config(tmp_path, model="OneLayerMLP", group="SymmetricGroup", group_parameter=3)
    with pytest.raises(
        BadConfig, match=r"no known order of the elements of S3 .* Give the table with answers=FILE"
    ):
        import_file(path)
    imported = import_file(path, hints=Hints(answers="model"))
    assert "right on 100 % by definition; their table is no group" in imported.notes[-2]
    assert evaluate(imported.model.collapse()).accuracy == 1.0
    np.savetxt(tmp_path / "table.csv", np.add.outer(np.arange(6), np.arange(6)) % 6, "%d", ",")
    assert import_file(
        path, hints=Hints(answers=str(tmp_path / "table.csv"))
    ).model.config.task.is_addition
    for family, degree, message in (
        ("DihedralGroup", 59, "the group D59 has 118 elements, but the model has 6"),
        ("Monster", 1, "the group is 'Monster'; expected one of CyclicGroup"),
    ):
        with_config(tmp_path, model="OneLayerMLP", group=family, group_parameter=degree)
        with pytest.raises(BadConfig, match=message):
            import_file(path)


@pytest.mark.parametrize("kind", ["A", "D", "X"])
def test_zhong_linear(tmp_path: Path, kind: str) -> None:
    embeds = {"embed1.weight": random(P, D), "embed2.weight": random(P, D, seed=1)}
    if kind != "X":
        embeds = {"embed.weight": random(P, D // 2 if kind == "D" else D)}
    tensors = {
        **embeds,
        "l1.weight": random(D, D),
        "l1.bias": random(D),
        "unembed.weight": random(P, D, seed=2),
    }
    path = write(tmp_path / "model_1", tensors, "torch")
    (tmp_path / "config_1.json").write_text(json.dumps({"C": P, "model_type": kind}))
    t, pairs = double(tensors), all_pairs(P)
    x, y = (t[name][pairs[:, i]] for i, name in enumerate(list(embeds) * (1 if kind == "X" else 2)))
    together = np.concatenate([x, y], axis=1) if kind == "D" else x + y
    imported = import_file(path)
    assert imported.format == "zhong-linear"
    assert_same_logits(
        imported.model, relu(together @ t["l1.weight"].T + t["l1.bias"]) @ t["unembed.weight"].T
    )
    write(
        tmp_path / "model_1", tensors | {"l2.weight": random(D, D), "l2.bias": random(D)}, "torch"
    )
    with pytest.raises(
        BadConfig, match=f"model_type '{kind}' has two hidden layers; expected a config with B or C"
    ):
        import_file(path)


def test_he_runs_say_their_activation_by_their_name(tmp_path: Path) -> None:
    tensors = {"mlp.W_in": random(M, P), "mlp.W_out": random(P, M)}
    for name, activation in (("ReLU", "relu"), ("Quad", "square")):
        run = tmp_path / f"p_{P}_dmlp_{M}_{name}_random_scale_0.1_decay_0_08151413"
        run.mkdir()
        assert (
            import_file(write(run / "final", tensors, "torch")).model.config.activation
            == activation
        )
    embedded = {"mlp.W_in": random(M, D), "embed.W_E": random(D, P), "mlp.W_out": random(P, M)}
    t, pairs = double(embedded), all_pairs(P)
    x = t["embed.W_E"][:, pairs[:, 0]] + t["embed.W_E"][:, pairs[:, 1]]
    model = import_file(
        write(tmp_path / "embedded", embedded, "torch"), hints=Hints(activation="relu")
    ).model
    assert_same_logits(model, (t["mlp.W_out"] @ relu(t["mlp.W_in"] @ x)).T)
    with pytest.raises(BadFile, match=r"W_E \(8, 7\) and W_in \(\d+, 7\) do not fit together"):
        import_file(write(tmp_path / "m", tensors | {"embed.W_E": random(8, P)}, "torch"))
    with pytest.raises(
        BadConfig,
        match="relu by the setting activation but square by the name of the run's directory",
    ):
        import_file(run / "final.pt", hints=Hints(activation="relu"))
    other = tmp_path / f"p_{P}_dmlp_512_ReLU_x"
    other.mkdir()
    with pytest.raises(BadConfig, match="but the run is p_7_dmlp_512_ReLU_x"):
        import_file(write(other / "final", tensors, "torch"))


@pytest.mark.parametrize(
    ("name", "hints", "right"),
    [
        ("zhong/model_18c9ev5v5p.pt", Hints(), 3481),
        ("zhong/model_q9rsl94xlv.pt", Hints(), 3481),
        ("zhong/model_n9n7h3p965.pt", Hints(), 2028),
        ("zhong/model_dy65ktpiij.pt", Hints(), 3371),
        ("he/p_23_dmlp_512_ReLU_random_scale_0.1_decay_0_08142058/final.pth", Hints(), 529),
        ("nanda/wd_10-1_mod_addition_loss_curve.pth", Hints(activation="relu"), 12769),
        ("chughtai/C118_MLP_seed2/model.pt", Hints(), 13924),
        ("chughtai/D61_T_seed1/model.pt", Hints(), 14684),
        ("chughtai/A5_MLP_seed1/model.pt", Hints(), 3600),
        ("chughtai/S5_T_seed1/model.pt", Hints(), 14400),
        ("chughtai/S6_T_seed1/model.pt", Hints(), 518400),
    ],
)
def test_public_checkpoints(name: str, hints: Hints, right: int) -> None:
    """Right answers as counted by a forward pass that was written elsewhere, where there is such a
    count.
    """
    peers = os.environ.get("QUADLENS_PEERS")
    if peers is None or not (Path(peers) / name).is_file():
        pytest.skip("QUADLENS_PEERS does not name a directory with public checkpoints")
    imported = import_file(Path(peers) / name, hints=hints)
    layer = imported.model.collapse()
    if layer.p <= 200:
        assert evaluate(layer).correct == right
    else:  # reading has counted them all, to find the order of the elements: here every 50th again
        assert any(f": {right} of {layer.p**2} answers right" in note for note in imported.notes)
        assert evaluate(layer, all_pairs(layer.p)[::50]).accuracy == right / layer.p**2 == 1


def test_inputs_longer_than_two_operands_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "m", nanda_state_dict(P + 1, 18), "torch")
    with pytest.raises(
        BadConfig,
        match=r"W_pos has 18 positions; .* not sums of many digits .* attention=softmax:3",
    ):
        import_file(path, "nanda", Hints(activation="relu"))
    fed = import_file(path, "nanda", Hints(SoftmaxAttention(3), activation="relu")).model
    assert isinstance(fed, Weights)
    assert fed.config.n_ctx == 18
