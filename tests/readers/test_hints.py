"""No fact about a checkpoint is assumed.

What the file does not say is asked for, all of it at once, and shown.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadlens
from cli_runner import quadlens as command
from quadlens.base.errors import BadConfig
from quadlens.network import Config, Weights
from quadlens.network.config import Softmax
from quadlens.network.evaluate import all_pairs, evaluate
from quadlens.network.handmade import Recipe, build_mlp
from quadlens.readers import Hints, from_state_dict, import_file
from readers.test_formats import P, nanda_state_dict, tl_state_dict
from torch_zips import torch_zip


def usual_mlp() -> dict[str, np.ndarray]:
    """A ReLU network that adds, as anybody writes it.

    Two linear layers on a one-hot pair, no biases.
    """
    model = build_mlp(Recipe(13, (2, 5), 80))
    return {"fc1.weight": np.concatenate([model.W_a, model.W_b]).T, "fc2.weight": model.W_out.T}


def test_a_relu_mlp_is_never_read_as_squares(tmp_path: Path) -> None:
    """Its squares answer all inputs right as well, with another margin, and would be certified."""
    state = usual_mlp()
    with pytest.raises(
        BadConfig,
        match=r"^the state dict: the weights do not say the activation: give activation=NAME",
    ):
        from_state_dict(state)
    relu, square = (from_state_dict(state, activation=name) for name in ("relu", "square"))
    one_hot = np.eye(13)[all_pairs(13)].reshape(-1, 26)
    logits = np.maximum(one_hot @ state["fc1.weight"].T, 0) @ state["fc2.weight"].T
    mine = relu.model.forward(all_pairs(13))
    assert np.abs(mine - logits).max() <= 1e-12 * np.abs(logits).max()
    assert (
        evaluate(relu.model.collapse()).min_margin != evaluate(square.model.collapse()).min_margin
    )
    assert (relu.correct, relu.pairs, relu.model.config.activation) == (169, 169, "relu")
    (tmp_path / "m.pt").write_bytes(torch_zip(state))
    refused = command("import", tmp_path / "m.pt", "-o", tmp_path / "m.safetensors")
    assert refused.code == 2
    assert "the weights do not say the activation: give --activation NAME" in " ".join(
        refused.err.split()
    )
    assert "flags:" not in refused.err
    read = command(
        "import", tmp_path / "m.pt", "-o", tmp_path / "m.safetensors", "--activation", "relu"
    )
    assert read.code == 0
    assert "169 of 169 inputs" in read.out


def three_tokens() -> dict[str, np.ndarray]:
    """A TransformerLens state dict that adds with softmax over (a, b, '='), almost uniform."""
    model = quadlens.build(p=31, keys=(3, 5, 7), neurons=256)
    assert isinstance(model, Weights)
    tensors, rng = dict(model.tensors), np.random.default_rng(0)
    d = model.config.d_model
    # Read at '=': a and b come in through attention, 1/3 each; what '=' itself brings, biases take
    # away again.
    equals = rng.standard_normal(d)
    tensors["W_E"] = np.concatenate([tensors["W_E"][:31], np.zeros((1, d), np.float32)])
    tensors["W_pos"] = np.stack([np.zeros(d), np.zeros(d), equals]).astype(np.float32)
    brought = equals + equals @ np.einsum("hdk,hke->de", tensors["W_V"], tensors["W_O"]) / 3
    tensors["b_in"] = (tensors["b_in"] - brought @ tensors["W_in"]).astype(np.float32)
    tensors["b_U"] = (tensors["b_U"] - brought @ tensors["W_U"]).astype(np.float32)
    names = {
        "W_E": "embed.W_E",
        "W_pos": "pos_embed.W_pos",
        "W_U": "unembed.W_U",
        "b_U": "unembed.b_U",
    }
    state = {
        names.get(n, f"blocks.0.{'mlp' if n[2:] in ('in', 'out') else 'attn'}.{n}"): x
        for n, x in tensors.items()
    }
    for name in ("W_Q", "W_K"):
        shape = tensors["W_V"].shape
        state[f"blocks.0.attn.{name}"] = (0.02 * rng.standard_normal(shape)).astype(np.float32)
        state[f"blocks.0.attn.b_{name[-1]}"] = np.zeros(shape[::2], np.float32)
    return state


def test_a_wrong_number_of_positions_shows_in_the_count(tmp_path: Path) -> None:
    state = three_tokens()
    (tmp_path / "m.pt").write_bytes(torch_zip(state))
    counts = {}
    for fed in (2, 3):
        words = (
            "import",
            tmp_path / "m.pt",
            "-o",
            tmp_path / "m.safetensors",
            "--activation",
            "relu",
            "--p",
            "31",
        )
        run = command(*words, "--attention", f"softmax:{fed}", "--json")
        assert run.code == 0, run.err
        value = json.loads(run.out)
        again = from_state_dict(state, attention=f"softmax:{fed}", activation="relu", p=31)
        assert (value["correct"], value["pairs"]) == (again.correct, again.pairs)
        assert value["notes"][-1] == f"{value['correct']} of 961 inputs are answered right"
        counts[fed] = value["correct"]
    assert counts[3] == 961
    assert counts[2] < 961


@pytest.mark.parametrize(
    ("state", "arguments", "facts"),
    [
        (tl_state_dict(out=P + 1), {}, ("p:", "the activation:", "the attention:")),
        (
            tl_state_dict(out=P + 1),
            {"attention": "softmax"},
            ("p:", "the activation:", "whether '=' is fed:"),
        ),
        (
            tl_state_dict(vocab=2 * P + 1),
            {"attention": (0.5, 0.5)},
            ("the activation:", "whether b has tokens"),
        ),
        (
            tl_state_dict(vocab=P + 2),
            {"attention": "softmax:3"},
            ("the activation:", "which token is '=':"),
        ),
        (nanda_state_dict(P + 1, 3), {}, ("the activation:", "the attention:")),
        (
            nanda_state_dict(2 * P, 2),
            {"config": {"funcs": "max"}},
            ("the task:", "p:", "the activation:", "attention:"),
        ),
    ],
)
def test_all_missing_facts_are_in_one_message(
    state: Any, arguments: dict[str, Any], facts: tuple[str, ...]
) -> None:
    with pytest.raises(BadConfig) as refused:
        from_state_dict(state, **arguments)
    told = str(refused.value)
    assert told.count("; nor ") == len(facts) - 1
    for fact in facts:
        assert fact in told, fact
    assert told.count("give") >= len(facts)


def test_the_tokens_that_a_config_says(tmp_path: Path) -> None:
    known: dict[str, Any] = {"attention": "softmax:3", "activation": "relu"}
    state = tl_state_dict(vocab=P + 2)
    read = from_state_dict(state, config={"equals_token": P}, **known)
    assert f"inputs (a, b, '='), '=' as token {P}: the setting attention" in read.notes
    with pytest.raises(
        BadConfig, match=f"equals_token is {P + 1} in the config; quadlens reads {P}"
    ):
        from_state_dict(state, config={"equals_token": P + 1}, **known)
    read = from_state_dict(tl_state_dict(vocab=2 * P + 1), config={"b_token_offset": P}, **known)
    assert (
        f"inputs (a, b, '='), '=' as token {2 * P}, b as token b + {P}: the setting attention"
        in read.notes
    )


def test_a_layout_of_one_program_carries_what_it_fixes(tmp_path: Path) -> None:
    """Zhong et al. save Nanda et al.'s tensors alone.

    A saved run of Nanda et al.'s has losses beside them.
    """
    tensors = nanda_state_dict(P + 1, 3)
    run = {"model": tensors, "train_losses": [1.0], "test_losses": [1.0]}
    imported = from_state_dict(run, activation="relu")
    (scores,) = (note for note in imported.notes if note.startswith("scores divided by"))
    assert scores.endswith("√d_head, as in Nanda et al.'s program, whose saved run this is")
    assert (
        "inputs (a, b, '='), '=' as token 7: as in Nanda et al.'s program, whose saved run this is"
        in imported.notes
    )
    with pytest.raises(
        BadConfig, match=r"2 positions by the setting attention, but 3 in Nanda et al\.'s program"
    ):
        from_state_dict(run, activation="relu", attention="softmax:2")
    with pytest.raises(BadConfig, match="do not say the attention"):
        from_state_dict(tensors, activation="relu")


@pytest.mark.parametrize("wanted", [{"task": "multiply0"}, {"answers": "table.csv"}])
def test_zhong_takes_a_task(tmp_path: Path, wanted: dict[str, str]) -> None:
    (tmp_path / "model_1.pt").write_bytes(torch_zip(nanda_state_dict(P, 2)))
    config = {"C": P, "attn_coeff": 0, "act_fn": "ReLU", "funcs": "lambda x: (x[0]*x[1])%7"}
    (tmp_path / "config_1.json").write_text(json.dumps(config))
    table = np.multiply.outer(np.arange(P), np.arange(P)) % P
    np.savetxt(tmp_path / "table.csv", table, fmt="%d", delimiter=",")
    with pytest.raises(
        BadConfig,
        match=r"do not say the task: it was trained on 'lambda x: \(x\[0\]\*x\[1\]\)%7'; give",
    ):
        import_file(tmp_path / "model_1.pt")
    answers = wanted.get("answers")
    hints = Hints(task=wanted.get("task"), answers=answers and str(tmp_path / answers))
    imported = import_file(tmp_path / "model_1.pt", hints=hints)
    np.testing.assert_array_equal(imported.model.config.task.answers, table)


def test_a_directory_says_how_many_are_right(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "m.pt").write_bytes(torch_zip(usual_mlp()))
    run = command("import", tmp_path / "in", "--activation", "relu")
    assert run.code == 0
    assert "inputs right" in run.out
    assert "169 of 169" in run.out
    (row,) = json.loads(command("import", tmp_path / "in", "--activation", "relu", "--json").out)
    assert (row["correct"], row["pairs"]) == (169, 169)


def test_ties_are_not_right_and_large_models_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    from quadlens.readers import tasks

    still = from_state_dict(
        {"fc1.weight": np.ones((4, 10)), "fc2.weight": np.ones((5, 4))}, activation="relu"
    )
    assert (still.correct, still.pairs) == (0, 25)
    monkeypatch.setattr(tasks, "MAX_MULTIPLICATIONS", 10)
    drawn = from_state_dict(usual_mlp(), activation="relu")
    assert (drawn.correct, drawn.pairs) == (tasks.DRAWN, tasks.DRAWN)
    assert (
        drawn.notes[-1] == f"{tasks.DRAWN} of {tasks.DRAWN} inputs are answered right, drawn of 169"
    )


WRONG = """
import numpy, pathlib, quadlens
from quadlens.base.errors import WrongArgument
from quadlens.network import Config, Weights

class Tensor:
    shape, dtype = (3, 2), "torch.float32"

class Network:
    def state_dict(self): return {}

calls = {
    "load(dict)": lambda: quadlens.load({"W_E": 1}),
    "import_file(dict)": lambda: quadlens.import_file({"W_E": 1}),
    "import_file(network)": lambda: quadlens.import_file(Network()),
    "load(3)": lambda: quadlens.load(3),
    "Config.mlp": lambda: Config.mlp("11", 4),
    "Weights of an MLP": lambda: Weights(
        Config.mlp(3, 2), W_a=Tensor(), W_b=Tensor(), W_out=Tensor()
    ),
    "Weights": lambda: Weights.with_zero_biases(Config.paper(5), **{"W_" + x: Tensor() for x in
        ("E", "pos", "V", "O", "in", "out", "U")}),
}
for name, call in calls.items():
    try:
        call()
    except WrongArgument as error:
        print(name, error)
"""


def test_wrong_python_arguments_are_told_the_remedy() -> None:
    """In a process of its own, because in tests annotations are checked before a function runs."""
    run = subprocess.run([sys.executable, "-c", WRONG], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert len(lines) == 7, run.stdout
    for name, words in (
        (
            "load(dict)",
            "got a dict; expected a file's path, and a state dict in memory is for "
            "quadlens.from_state_dict",
        ),
        (
            "import_file(dict)",
            "got a dict; expected a file's path, and a state dict in memory is for",
        ),
        (
            "import_file(network)",
            "got a Network; expected a file's path, and a network in memory is for",
        ),
        ("load(3)", "got an int; expected a file's path, as a string or a pathlib.Path"),
        (
            "Weights",
            "W_a: got a Tensor; expected a NumPy array, as tensor.detach().cpu().numpy() gives it",
        ),
        ("Config.mlp", "p = '11': got a str; expected an integer"),
        ("Weights", "W_E: got a Tensor; expected a NumPy array"),
    ):
        assert any(line.startswith(f"{name} ") and words in line for line in lines), (
            name,
            run.stdout,
        )


def test_softmax_of_a_config() -> None:
    """√d_head is what softmax means.

    A config may say another divisor, and the notes say which it was.
    """
    state = three_tokens()
    for config, divisor, said in (
        (None, 6**0.5, "√d_head, which softmax means here; attn_scale in a config says another"),
        ({"attn_scale": 2.5}, 2.5, "attn_scale in the config"),
        ({"use_attn_scale": False}, 1.0, "use_attn_scale in the config"),
        ({"use_attn_scale": True}, 6**0.5, "√d_head by the config"),
    ):
        read = from_state_dict(state, config=config, attention="softmax:3", activation="relu", p=31)
        assert isinstance(read.model.config, Config)
        assert isinstance(read.model.config.softmax, Softmax)
        assert read.model.config.softmax.divisor == divisor
        assert f"scores divided by {divisor:.6g}: {said}" in read.notes
        assert refused_gap(state, config) == pytest.approx(
            refused_gap(state, {"attn_scale": divisor}), rel=1e-2
        )
    assert refused_gap(state, {"attn_scale": 60.0}) < refused_gap(state, None) / 5


def refused_gap(state: dict[str, np.ndarray], config: dict[str, Any] | None) -> float:
    """How far the constant ⅓ is from the file's own attention, which depends on what its scores are
    divided by.
    """
    with pytest.raises(BadConfig, match="by the checkpoint's own W_Q and W_K") as caught:
        from_state_dict(state, config=config, attention=(1 / 3,) * 3, activation="relu", p=31)
    return float(str(caught.value).partition("a difference of ")[2].split(". ")[0])
