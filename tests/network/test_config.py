"""Configs and frozen dataclasses from JSON: every wrong value says what was expected."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from quadlens.base.errors import BadConfig, BadWeights, WrongArgument
from quadlens.base.schema import from_json, parse_dataclass, to_json
from quadlens.network import Config, Recipe, Weights, build_transformer
from quadlens.network.architectures import config_from_dict
from quadlens.training.config import TrainConfig

GOOD = Config.paper(p=7, d_model=4, d_mlp=5, n_heads=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": 8}, "the task add has 7 elements, but the model has p = 8"),
        ({"d_model": 0}, "d_model = 0 is not supported; expected at least 1"),
        ({"attention": (1.0,)}, "attention has 1 weights; expected one for each of"),
        ({"attention": (1.0, float("inf"))}, r"attention weights \(1.0, inf\) are not all finite"),
        ({"read_position": 2}, "read_position = 2 is not fed; expected 0 … 1"),
        ({"n_ctx": 1}, "n_ctx = 1 is less than the 2 positions fed"),
        ({"b_token_offset": 3}, "b_token_offset = 3; expected 0 or p = 7"),
        ({"b_token_offset": 7}, "d_vocab = 8 is less than the 14 tokens used"),
        ({"d_vocab_out": 6}, "d_vocab_out = 6 is less than p = 7"),
        (
            {"d_model": 0, "attention": (), "n_layers": 2},
            "an MLP has no softmax, no heads and one layer",
        ),
    ],
)
def test_configs_prove_themselves(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        dataclasses.replace(GOOD, **change)


def test_any_number_of_elements_from_two_on() -> None:
    assert Config.paper(p=2, d_model=4, d_mlp=5, n_heads=2).task.words == "a + b mod 2"
    with pytest.raises(BadConfig, match="n = 1 is not supported; expected at least 2 elements"):
        Config.paper(p=1)


def test_configs_survive_json() -> None:
    import json

    for config in (GOOD, Config.paper(equals=True), Config.mlp(7, 3, "square")):
        assert config_from_dict(json.loads(json.dumps(config.to_dict())), "here") == config


def test_the_papers_config() -> None:
    config = Config.paper()
    assert (config.p, config.d_model, config.d_mlp, config.n_heads, config.d_head) == (
        59,
        128,
        512,
        4,
        32,
    )
    assert (config.d_vocab, config.n_ctx, config.attention, config.read_position) == (
        60,
        3,
        (0.5, 0.5),
        1,
    )
    equals = Config.paper(equals=True)
    assert (equals.attention, equals.read_position, equals.equals_token) == ((1 / 3,) * 3, 2, 59)


def test_weights_left_out_or_unknown() -> None:
    model = build_transformer(Recipe(7, (1,), 4))
    weights = {name: array for name, array in model.tensors.items() if name.startswith("W_")}
    assert not Weights.with_zero_biases(model.config, **weights).b_in.any()
    with pytest.raises(BadWeights, match=r"missing weights W_U, weights without use W_X"):
        Weights.with_zero_biases(
            model.config, **{("W_X" if k == "W_U" else k): v for k, v in weights.items()}
        )


def test_numbers_of_a_config_are_those_that_its_file_has() -> None:
    """Exact arithmetic takes 2^60 + 1 at its word and 1/3 for dyadic.

    A file has doubles, and proofs are about it.

    In a process of its own, where nothing looks at annotations.
    """
    script = """
import json
from fractions import Fraction
import numpy as np
from quadlens.base.errors import QuadlensError
from quadlens.network.architectures import config_from_dict
from quadlens.network.config import Config, Softmax
def config(**changes):
    sizes = dict(p=7, d_model=4, d_mlp=5, n_heads=2, d_head=2, d_vocab=8, d_vocab_out=7, n_ctx=3)
    return Config(**(sizes | dict(attention=(0.5, 0.5), read_position=1) | changes))
softmax = Softmax(Fraction(1, 3), np.float32(3))
found = config(attention=[Fraction(1, 3), np.float64(1)], p=np.int64(7), softmax=softmax)
assert found == config(attention=(1 / 3, 1.0), softmax=Softmax(1 / 3, 3.0))
assert [type(x) for x in (*found.attention, found.p, found.softmax.scale)] == [
    float, float, int, float
]
found = config(attention=(2**60 + 1, 0), softmax=Softmax(2**60 + 1, 1))
assert found == config_from_dict(json.loads(json.dumps(found.to_dict())), "here")
assert (found.attention, found.softmax.scale) == ((2.0**60, 0.0), 2.0**60)
for changes, words in (
    (
        dict(attention=(10**400, 0)),
        "an attention weight is beyond float64; expected a finite number",
    ),
    (
        dict(d_model=0, attention=(), n_heads=0, read_position=0, n_layers=2),
        "an MLP has no softmax, no heads",
    ),
    (dict(attention=("1", "0")), "expected numbers in a list"),
    (dict(d_mlp=5.0), "expected an integer"),
):
    try:
        config(**changes)
    except QuadlensError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_nothing_changes_the_weights_of_a_network() -> None:
    """Not through an array that was given, one that is handed out, the mapping, or a copy."""
    tensors = {name: x.copy() for name, x in build_transformer(Recipe(7, (1,), 4)).tensors.items()}
    view = tensors["W_E"].view()
    view.flags.writeable = False
    model = Weights(build_transformer(Recipe(7, (1,), 4)).config, **(tensors | {"W_E": view}))
    before = {name: x.copy() for name, x in model.tensors.items()}
    for array in tensors.values():
        array[...] = 9
    for one in (model, copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert one.config == model.config
        assert isinstance(one, Weights)
        for mapping in (one.tensors, *one.blocks):
            with pytest.raises(TypeError):
                mapping["W_in"] = before["W_in"]  # type: ignore[index]
            for array in mapping.values():
                with pytest.raises(ValueError, match=r"WRITEABLE|read-only"):
                    array.flags.writeable = True
        assert all(np.array_equal(one.tensors[name], x) for name, x in before.items())
        with pytest.raises(AttributeError, match="the weights of a network do not change"):
            del one.config
    assert model.replace(b_in=before["b_in"]).W_E is model.W_E


def test_masked_arrays_are_no_weights() -> None:
    model = build_transformer(Recipe(7, (1,), 4))
    with pytest.raises(WrongArgument, match="W_E: got a MaskedArray; expected a NumPy array"):
        model.replace(W_E=np.ma.array(model.W_E, mask=True))


@dataclass(frozen=True)
class Inner:
    mode: Literal["a", "b"]


@dataclass(frozen=True)
class Sample:
    size: float
    mode: Literal["a", "b"] = "a"
    pair: tuple[int, str] = (1, "x")
    many: tuple[float, ...] = ()
    maybe: int | None = None
    either: int | str = 0
    named: Mapping[str, float] = dataclasses.field(default_factory=dict)
    inner: Inner = Inner("a")


def test_values_are_read_as_annotated() -> None:
    data = {"size": 2, "pair": [3, "y"], "many": [1, 2.5], "maybe": None, "either": "z"}
    data |= {"named": {"x": 1}, "inner": {"mode": "b"}}
    read = parse_dataclass(Sample, data, "here")
    assert read == Sample(2.0, "a", (3, "y"), (1.0, 2.5), None, "z", {"x": 1.0}, Inner("b"))
    assert from_json(Sample, to_json(read), "here") == read
    assert isinstance(read.size, float)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "here: missing key 'size'"),
        ({"size": "2"}, "size = '2': expected float, got str"),
        ({"size": True}, "size = True: expected float, got bool"),
        ({"size": 1, "mode": "c"}, "mode = 'c': expected one of a, b"),
        ({"size": 1, "pair": [1]}, r"pair = \[1\]: expected 2 items, got 1"),
        ({"size": 1, "many": 3}, "many = 3: expected a list"),
        ({"size": 1, "many": ["x"]}, "expected float, got str"),
        ({"size": 1, "maybe": "x"}, "maybe = 'x': expected int or null, got str"),
        ({"size": 1, "either": 1.5}, "either = 1.5: expected int or str, got float"),
        (
            {"size": 1, "sise": 2},
            r"unknown key 'sise' \(known keys: either, inner, many, maybe, mode, named, pair, "
            r"size\)",
        ),
        ({"size": 1, "named": [1]}, r"named = \[1\]: expected names with values"),
        ({"size": 1, "named": {"x": "y"}}, "expected float, got str"),
        ({"size": 1, "inner": {"mode": "c"}}, "Inner: mode = 'c': expected one of a, b"),
        ({1: 2}, "expected names with values, got dict"),
    ],
)
def test_values_that_do_not_fit(data: dict[str, Any], message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        parse_dataclass(Sample, data, "here")


def test_a_file_that_is_not_json() -> None:
    with pytest.raises(BadConfig, match="here is not JSON: "):
        from_json(Sample, b"{", "here")


def test_a_whole_number_is_the_same_setting_as_its_float() -> None:
    """A sweep from Python with attention_rate=1 had another name than the same run read back.

    Its bytes differed, too.
    """
    # In a process of its own, which does not check types as tests do.
    code = (
        "from quadlens.training.config import TrainConfig as T; "
        "print(T(attention_rate=1, weight_decay=1).run_id())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == TrainConfig(attention_rate=1.0, weight_decay=1.0).run_id()
