"""Real TransformerLens and real onnxruntime run our exports to the same logits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quadlens.base.errors import MissingExtra
from quadlens.network import build_mlp, build_transformer
from quadlens.network.config import Config
from quadlens.network.evaluate import all_pairs
from quadlens.network.handmade import Recipe
from quadlens.network.weights import Weights
from quadlens.readers import export_file, import_file
from readers.test_formats import EQUALS, P, random, shaped, without

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

FLOAT32 = 2e-6


def agrees(logits: np.ndarray, model: Weights) -> None:
    expected = model.forward(all_pairs(model.config.p))
    assert np.abs(logits - expected).max() <= FLOAT32 * max(
        np.abs(expected).max(), magnitude(model)
    )
    np.testing.assert_array_equal(logits.argmax(axis=1), expected.argmax(axis=1))


def magnitude(model: Weights) -> float:
    """The size of the numbers a logit is summed from: what float32 rounds relative to."""
    weights = {name: np.abs(array) for name, array in model.tensors.items()}
    positive = model.replace(**weights)
    return float(np.abs(positive.forward(all_pairs(model.config.p))).max())


def inputs(model: Weights) -> Any:
    config = model.config
    rows = all_pairs(config.p) + np.array([0, config.b_token_offset])
    if config.has_equals:
        rows = np.concatenate([rows, np.full((len(rows), 1), config.equals_token)], axis=1)
    return torch.from_numpy(rows)


PAPER = shaped(d_vocab=P + 1, n_ctx=3)
TRANSFORMERS = [
    PAPER,
    shaped(**EQUALS, attention=(1 / 3,) * 3),
    shaped(attention=(1.0, 1.0)),
    shaped(**EQUALS, attention=(1.0,) * 3),
    shaped(d_vocab=2 * P, d_vocab_out=2 * P, b_token_offset=P),
    build_transformer(Recipe(13, (2, 5), 80, noise=0.01)),
]


@pytest.mark.filterwarnings("ignore")  # TransformerLens and what it imports warn about themselves
def test_transformer_lens_runs_our_export(tmp_path: Path) -> None:
    lens = pytest.importorskip("transformer_lens", reason="the extra 'peers' is not installed")
    for model in TRANSFORMERS:
        path = tmp_path / "model_1.safetensors"
        export_file(model, "transformer-lens", path)
        state = pytest.importorskip("safetensors.torch").load_file(path)
        config = json.loads((tmp_path / "config_1.json").read_text())["hooked_transformer_config"]
        hooked = lens.HookedTransformer(lens.HookedTransformerConfig(**config, device="cpu"))
        hooked.load_state_dict(state, strict=True)
        with torch.no_grad():
            logits = hooked(inputs(model))[:, -1, : model.config.p]
        agrees(logits.double().numpy(), model)


@pytest.mark.filterwarnings("ignore")
def test_we_read_what_transformer_lens_saves(tmp_path: Path) -> None:
    lens = pytest.importorskip("transformer_lens", reason="the extra 'peers' is not installed")
    config = lens.HookedTransformerConfig(
        n_layers=1,
        d_model=8,
        n_ctx=3,
        d_head=4,
        n_heads=2,
        d_mlp=12,
        d_vocab=P + 1,
        d_vocab_out=P,
        act_fn="relu",
        normalization_type=None,
        seed=0,
        device="cpu",
    )
    hooked = lens.HookedTransformer(config)
    with torch.no_grad():
        for parameter in (hooked.W_Q, hooked.W_K):
            parameter.zero_()
        for name, parameter in hooked.named_parameters():
            if ".b_" in name and ".b_Q" not in name and ".b_K" not in name:
                parameter.normal_(generator=torch.Generator().manual_seed(1))
        hooked.blocks[0].attn.W_Q.zero_()
        hooked.blocks[0].attn.W_K.zero_()
    torch.save(hooked.state_dict(), tmp_path / "m.pt")
    from quadlens.readers import Hints, SoftmaxAttention

    for positions in (2, 3):
        model = import_file(
            tmp_path / "m.pt", hints=Hints(SoftmaxAttention(positions), activation="relu")
        ).model
        assert isinstance(model, Weights)
        with torch.no_grad():
            agrees(hooked(inputs(model))[:, -1].double().numpy(), model)


def bridge_state(state: dict[str, Any]) -> dict[str, Any]:
    """An export under the names of TransformerLens 4, as docs/formats.md does it.

    Matrices turned, heads in a row.
    """
    names = {
        "W_E": "embed",
        "W_pos": "pos_embed",
        "W_U": "unembed",
        "W_in": "mlp.in",
        "W_out": "mlp.out",
    }
    turned = {}
    for name, tensor in state.items():
        x = tensor
        place, _, own = name.rpartition(".")
        if own[:2] not in ("W_", "b_"):  # buffers
            continue
        if own[2:] in ("Q", "K", "V"):
            x = x.transpose(1, 2).flatten(0, 1) if own[0] == "W" else x.flatten()
        elif own in ("W_O", "W_in", "W_out", "W_U"):
            x = (x.flatten(0, 1) if own == "W_O" else x).T
        part = names.get(f"W_{own[2:]}", f"attn.{own[2:].lower()}")
        block = "blocks.0." if place.startswith("blocks.0.") else ""
        turned[f"{block}{part}.{'weight' if own[0] == 'W' else 'bias'}"] = x.contiguous()
    return turned


@pytest.mark.filterwarnings("ignore")
def test_transformer_lens_4_models_run_our_export_under_their_names(tmp_path: Path) -> None:
    """`boot_native` came before 4.0, so it can be tried with an installed version below 4."""
    bridges = pytest.importorskip(
        "transformer_lens.model_bridge", reason="the extra 'peers' is not installed"
    )
    if not hasattr(bridges.TransformerBridge, "boot_native"):
        pytest.skip("this TransformerLens has no boot_native")
    for model in (without(m, "b_U") for m in TRANSFORMERS[:4]):
        export_file(model, "transformer-lens", tmp_path / "model_1.safetensors")
        config = json.loads((tmp_path / "config_1.json").read_text())["hooked_transformer_config"]
        bridge = bridges.TransformerBridge.boot_native(config)
        state = pytest.importorskip("safetensors.torch").load_file(tmp_path / "model_1.safetensors")
        result = bridge.load_state_dict(bridge_state(state), strict=True)
        assert not result.unexpected_keys
        with torch.no_grad():
            agrees(bridge(inputs(model))[:, -1, : model.config.p].double().numpy(), model)
        torch.save(bridge.state_dict(), tmp_path / "model_2.pt")
        (tmp_path / "config_2.json").write_bytes((tmp_path / "config_1.json").read_bytes())
        back = import_file(tmp_path / "model_2.pt")
        assert back.format == "transformer-lens-4-bridge"
        for name, array in import_file(tmp_path / "model_1.safetensors").model.tensors.items():
            np.testing.assert_array_equal(back.model.tensors[name], array)


ONNX_MODELS: list[Weights] = [
    *TRANSFORMERS,
    shaped(attention=(0.3, -0.7), read_position=0, activation="abs"),
    shaped(**EQUALS, attention=(0.1, 0.2, 0.3), activation="square"),
    build_mlp(Recipe(13, (2, 5), 40, noise=0.01)),
    Weights.mlp(Config.mlp(P, 9, "square"), random(P, 9), random(P, 9, seed=1), random(9, P)),
    Weights.mlp(
        Config.mlp(P, 9, "abs"), *(random(*s).astype(np.float64) for s in ((P, 9), (P, 9), (9, P)))
    ),
]


@pytest.mark.parametrize("index", range(len(ONNX_MODELS)))
def test_onnxruntime_runs_our_graph(tmp_path: Path, index: int) -> None:
    onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    model = ONNX_MODELS[index]
    export_file(model, "onnx", tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert {node.op_type for node in graph.node} <= {
        "Flatten",
        "MatMul",
        "Gemm",
        "Relu",
        "Abs",
        "Mul",
        "Add",
    }
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    assert entry.shape == ["batch", 2, model.config.p]
    dtype = np.float64 if entry.type == "tensor(double)" else np.float32
    one_hot = np.eye(model.config.p, dtype=dtype)[all_pairs(model.config.p)]
    (logits,) = session.run(None, {entry.name: one_hot})
    agrees(logits.astype(np.float64), model)
    content = (tmp_path / "m.onnx").read_bytes()
    export_file(model, "onnx", tmp_path / "again.onnx")
    assert content == (tmp_path / "again.onnx").read_bytes()


def test_onnx_without_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(
        MissingExtra,
        match=r"exporting to ONNX needs the extra 'onnx'. Install it with: pip install",
    ):
        export_file(PAPER, "onnx", tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []
