"""ONNX: a plain graph from a one-hot pair to logits, for verifiers and other runtimes.

Written only.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadConfig, MissingExtra
from quadlens.network.activation import NONLINEARITIES, Activation
from quadlens.network.collapse import attended_streams
from quadlens.network.ring import FLOATS
from quadlens.network.weights import Weights
from quadlens.readers.protocol import Exported

OPSET = 17
IR_VERSION = 9
# Protocol buffers end at 2 GB; leave some for the graph.
MAX_BYTES = 2**31 - 2**20

INPUT, OUTPUT = "one_hot_pair", "logits"


def write_onnx(model: Weights) -> Exported:
    """The graph as bytes, in the weights' own precision.

    `one_hot_pair` [batch, 2, p] in, `logits` [batch, p] out; Flatten, MatMul, Gemm, Add and the
    activation.
    """
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError:
        raise MissingExtra("exporting to ONNX", "onnx") from None
    model.config.need_pairs(
        "networks on sequences are not written as ONNX so far; use format=quadlens", ("format",)
    )
    if model.config.no_collapse is not None:
        words = (
            f"{model.config.no_collapse}: this is not written as ONNX so far; use format=quadlens"
        )
        raise BadConfig(words, settings=("format",))
    steps, constants = _transformer(model) if model.config.has_stream else _mlp(model)
    dtype = np.result_type(*model.tensors.values())
    if sum(x.size for x in constants.values()) * dtype.itemsize > MAX_BYTES:
        raise BadConfig("the model has more than 2 GB of weights, which one ONNX file cannot hold")
    kind = TensorProto.DOUBLE if dtype == np.float64 else TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node(op, inputs, [output], **attributes)
            for op, inputs, output, attributes in steps
        ],
        "quadlens",
        [helper.make_tensor_value_info(INPUT, kind, ["batch", 2, model.config.p])],
        [helper.make_tensor_value_info(OUTPUT, kind, ["batch", model.config.p])],
        [
            numpy_helper.from_array(np.ascontiguousarray(x.astype(dtype)), name)
            for name, x in constants.items()
        ],
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="quadlens"
    )
    proto.ir_version = IR_VERSION
    checker.check_model(proto)
    note = (
        f"input {INPUT} [batch, 2, {model.config.p}], output {OUTPUT} [batch, {model.config.p}], "
        f"opset {OPSET}"
    )
    return Exported(proto.SerializeToString(deterministic=True), None, (note,))


# One node: operator, inputs, output, attributes.
Step = tuple[str, list[str], str, dict[str, Any]]


def _activation_steps(activation: Activation) -> list[Step]:
    return [
        (op, list(inputs), output, {}) for op, inputs, output in NONLINEARITIES[activation].onnx
    ]


def _activation_constants(activation: Activation) -> dict[str, Float[np.ndarray, "..."]]:
    return {name: np.array(value) for name, value in NONLINEARITIES[activation].onnx_constants}


def _transformer(model: Weights) -> tuple[list[Step], dict[str, Float[np.ndarray, "..."]]]:
    """Return the graph: one product for the residual stream, then the MLP around it.

    The table [2p, d_model] is what each token adds to that stream, the only product rounded here;
    what does not depend on the tokens is in b's rows, for exactly one of them is picked.
    """
    p = model.config.p
    constants = {
        "token_table": np.concatenate(attended_streams(model, FLOATS)),
        "W_in": model.W_in,
        "b_in": model.b_in,
        "W_out": model.W_out,
        "b_out": model.b_out,
        "W_U": model.W_U[:, :p],
        "b_U": model.b_U[:p],
        **_activation_constants(model.config.activation),
    }
    steps: list[Step] = [
        ("Flatten", [INPUT], "flat", {"axis": 1}),
        ("MatMul", ["flat", "token_table"], "middle", {}),
        ("Gemm", ["middle", "W_in", "b_in"], "pre", {}),
        *_activation_steps(model.config.activation),
        ("Gemm", ["post", "W_out", "b_out"], "written", {}),
        ("Add", ["middle", "written"], "final", {}),
        ("Gemm", ["final", "W_U", "b_U"], OUTPUT, {}),
    ]
    return steps, constants


def _mlp(model: Weights) -> tuple[list[Step], dict[str, Float[np.ndarray, "..."]]]:
    """Two matrix products around the activation, each with its bias where there are biases."""
    into: list[Step] = [("MatMul", ["flat", "W_pair"], "pre", {})]
    out: list[Step] = [("MatMul", ["post", "W_out"], OUTPUT, {})]
    weights = {"W_pair": np.concatenate([model.W_a, model.W_b]), "W_out": model.W_out}
    if model.config.bias:
        into = [
            ("MatMul", ["flat", "W_pair"], "paired", {}),
            ("Add", ["paired", "b_in"], "pre", {}),
        ]
        out = [
            ("MatMul", ["post", "W_out"], "unbiased", {}),
            ("Add", ["unbiased", "b_out"], OUTPUT, {}),
        ]
        weights |= {"b_in": model.b_in, "b_out": model.b_out}
    steps = [
        ("Flatten", [INPUT], "flat", {"axis": 1}),
        *into,
        *_activation_steps(model.config.activation),
        *out,
    ]
    return steps, weights | _activation_constants(model.config.activation)
