"""TransformerLens' own objects as they are in memory, against their own forward pass."""

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import quadlens
from quadlens.base.errors import BadConfig, BadFile, BadWeights, QuadlensError, WrongArgument
from quadlens.network.evaluate import all_pairs
from quadlens.readers.memory import Feed, from_transformer, is_transformer_lens

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]  # TransformerLens and what it imports warn about themselves

WIDTHS = {"n_layers": 1, "d_model": 12, "d_head": 3, "n_heads": 2, "d_mlp": 10, "act_fn": "relu"}
PLAIN = WIDTHS | {"normalization_type": None, "n_ctx": 3, "d_vocab": 8, "d_vocab_out": 7}


def hooked(**changes: Any) -> Any:
    """A HookedTransformer with random weights, biases too."""
    lens = pytest.importorskip("transformer_lens", reason="the extra 'peers' is not installed")
    model = lens.HookedTransformer(
        lens.HookedTransformerConfig(**(PLAIN | changes), seed=0, device="cpu")
    )
    return shaken(model)


def bridge(**changes: Any) -> Any:
    """The same of version 4, which has the bridge alone.

    It came before 4.0, so that it can be tried here.
    """
    bridges = pytest.importorskip(
        "transformer_lens.model_bridge", reason="the extra 'peers' is not installed"
    )
    if not hasattr(bridges.TransformerBridge, "boot_native"):
        pytest.skip("this TransformerLens has no boot_native")
    return shaken(bridges.TransformerBridge.boot_native(PLAIN | changes))


def shaken(model: Any) -> Any:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    return model


class StandIn:
    """An object as TransformerLens 2 has it, without TransformerLens.

    State dict, cfg, the forward pass written out.

    The masks are full matrices there, and a config has what 2.x has.
    """

    def __init__(self, d_vocab: int = 8, n_ctx: int = 3, out: int = 7) -> None:
        d, h, dh, m = 6, 2, 3, 9
        self.cfg = SimpleNamespace(
            n_layers=1,
            d_model=d,
            n_heads=h,
            d_head=dh,
            d_mlp=m,
            n_ctx=n_ctx,
            d_vocab=d_vocab,
            d_vocab_out=out,
            act_fn="relu",
            normalization_type=None,
            attention_dir="causal",
            use_attn_scale=True,
            attn_scale=np.float64(dh**0.5),
            attn_only=False,
            dtype=torch.float32,
            _private=object(),
        )
        generator = torch.Generator().manual_seed(3)
        shapes = {
            "embed.W_E": (d_vocab, d),
            "pos_embed.W_pos": (n_ctx, d),
            "unembed.W_U": (d, out),
            "unembed.b_U": (out,),
            **{f"blocks.0.attn.W_{x}": (h, d, dh) for x in "QKV"},
            **{f"blocks.0.attn.b_{x}": (h, dh) for x in "QKV"},
            "blocks.0.attn.W_O": (h, dh, d),
            "blocks.0.attn.b_O": (d,),
            "blocks.0.mlp.W_in": (d, m),
            "blocks.0.mlp.b_in": (m,),
            "blocks.0.mlp.W_out": (m, d),
            "blocks.0.mlp.b_out": (d,),
        }
        self.weights = {
            name: torch.randn(shape, generator=generator) for name, shape in shapes.items()
        }

    def state_dict(self) -> dict[str, Any]:
        n_ctx = self.cfg.n_ctx
        buffers = {
            "mask": torch.tril(torch.ones(n_ctx, n_ctx)).bool(),
            "IGNORE": torch.tensor(-np.inf),
        }
        return self.weights | {f"blocks.0.attn.{name}": x for name, x in buffers.items()}

    def parameters(self) -> Any:
        return iter(self.weights.values())

    def __call__(self, tokens: Any) -> Any:
        w = {name.rpartition(".")[2]: x for name, x in self.weights.items()}
        x = w["W_E"][tokens] + w["W_pos"][: tokens.shape[1]]
        q, k, v = (
            torch.einsum("npd,hde->nhpe", x, w[f"W_{i}"]) + w[f"b_{i}"][:, None] for i in "QKV"
        )
        scores = q @ k.transpose(-1, -2) / self.cfg.attn_scale
        seen = torch.tril(torch.ones(scores.shape[-2:])).bool()
        mixed = torch.where(seen, scores, -torch.inf).softmax(-1) @ v
        x = x + torch.einsum("nhpe,hed->npd", mixed, w["W_O"]) + w["b_O"]
        x = x + torch.relu(x @ w["W_in"] + w["b_in"]) @ w["W_out"] + w["b_out"]
        return x @ w["W_U"] + w["b_U"]


def own_logits(model: Any, feed: Feed) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(model(torch.from_numpy(feed.tokens(all_pairs(feed.n))))[:, -1, : feed.n])


def agrees(model: Any, feed: Feed, **known: Any) -> Any:
    imported = from_transformer(model, **known)
    logits = imported.model.forward(all_pairs(feed.n))
    np.testing.assert_allclose(logits, own_logits(model, feed), rtol=1e-5, atol=1e-5)
    return imported


FEEDS = [
    ({}, {}, Feed(7, equals=7)),
    ({"n_ctx": 2}, {}, Feed(7)),
    ({"d_vocab": 7}, {}, Feed(7)),
    ({"d_vocab": 11, "n_ctx": 5}, {}, Feed(7, equals=10)),
    ({"d_vocab": 11}, {"inputs": ("a", "b", 8)}, Feed(7, equals=8)),
    ({"d_vocab": 15}, {"inputs": ["a", "b+7", 14]}, Feed(7, 7, 14)),
    ({"d_vocab": 15}, {"inputs": ("a", "b+6")}, Feed(7, 6)),
    ({"d_vocab_out": 8}, {"p": 7}, Feed(7, equals=7)),
    ({"n_layers": 2}, {}, Feed(7, equals=7)),
    ({"n_layers": 2, "attention_dir": "bidirectional"}, {"inputs": ("a", "b")}, Feed(7)),
    ({"act_fn": "gelu", "use_attn_scale": False}, {}, Feed(7, equals=7)),
    ({"normalization_type": "LN"}, {}, Feed(7, equals=7)),
    ({"normalization_type": "LNPre", "eps": 1e-3, "n_layers": 2}, {}, Feed(7, equals=7)),
    ({"normalization_type": "RMS", "n_layers": 2}, {"inputs": ("a", "b")}, Feed(7)),
    ({"normalization_type": "RMSPre", "n_ctx": 2}, {}, Feed(7)),
]


@pytest.mark.parametrize(("changes", "known", "feed"), FEEDS)
def test_hooked_transformers_are_read_as_they_run(changes: Any, known: Any, feed: Feed) -> None:
    imported = agrees(hooked(**changes), feed, **known)
    assert any(
        note.startswith("compared with its own forward pass on 49 inputs")
        for note in imported.notes
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_layers": 2},
        {"act_fn": "silu", "d_vocab": 9},
        *({"normalization_type": x} for x in ("LN", "LNPre", "RMS")),
    ],
)
def test_bridges_are_read_as_they_run(changes: Any) -> None:
    model = bridge(**changes)
    agrees(model, Feed(7, equals=model.cfg.d_vocab - 1))


def test_objects_without_transformer_lens() -> None:
    """TransformerLens 2 as its state dict and config are; nothing here imports it."""
    model = StandIn()
    assert is_transformer_lens(model)
    agrees(model, Feed(7, equals=7))
    agrees(StandIn(d_vocab=15, n_ctx=2), Feed(7, 7), inputs=("a", "b+7"))
    whole = from_transformer(StandIn().state_dict(), StandIn().cfg)
    assert "not compared with a forward pass: a state dict has none" in whole.notes
    plain = {
        name: x for name, x in vars(StandIn().cfg).items() if name not in ("dtype", "_private")
    }
    assert from_transformer(StandIn().state_dict(), plain).model.config == whole.model.config
    np.testing.assert_allclose(
        whole.model.forward(all_pairs(7)),
        own_logits(StandIn(), Feed(7, equals=7)),
        rtol=1e-5,
        atol=1e-5,
    )


def test_a_study_says_first_how_many_inputs_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    model = StandIn()
    study = quadlens.study(model)
    first, *notes = capsys.readouterr().out.splitlines()
    right = int((own_logits(model, Feed(7, equals=7)).argmax(1) == all_pairs(7).sum(1) % 7).sum())
    assert first == f"{right} of 49 inputs right (a + b mod 7)"
    assert study.evaluation.correct == right
    assert study.name == "StandIn"
    assert "  fed (a, b, 7): by default, 8 tokens for 7 answers" in notes
    for verb in (quadlens.evaluate, quadlens.explain, quadlens.certify):
        verb(model)
        assert capsys.readouterr().out.startswith(first)
    assert quadlens.study(model, task="subtract").config.task.name == "subtract"


def test_another_feed_that_is_right_more_often_is_named() -> None:
    """The bundled model, exported with 60 answers for 60 tokens.

    By default it would be asked a + b mod 60.
    """
    mine = quadlens.load("pizza")
    model = StandIn()
    wide = {
        "unembed.W_U": np.pad(mine.W_U, ((0, 0), (0, 1))),
        "unembed.b_U": np.pad(mine.b_U, (0, 1)),
    }
    state = {name: np.zeros_like(mine.W_V if ".W_" in name else mine.b_V)
             for name in (f"blocks.0.attn.{x}_{y}" for x in "Wb" for y in "QK")}  # fmt: skip
    for name in model.weights.keys() - state.keys() - wide.keys():
        state[name] = mine.tensors[name.rpartition(".")[2]]
    model.weights = {name: torch.from_numpy(np.array(x)) for name, x in (state | wide).items()}
    model.cfg.__dict__.update(
        d_vocab=60, d_vocab_out=60, d_head=32, n_heads=4, d_model=128, d_mlp=512
    )
    notes = from_transformer(model).notes
    assert (
        notes[-1]
        == "another feed answers more inputs right, 3481 of 3481: give inputs=('a', 'b'), p=59"
    )
    right = from_transformer(model, inputs=("a", "b"), p=59)
    assert right.correct == 3481
    assert right.model.config.attention == (0.5, 0.5)


def test_hooks_and_other_code_are_found_by_the_comparison() -> None:
    model = hooked()
    model.blocks[0].hook_mlp_out.add_hook(lambda value, hook: 1.1 * value)
    with pytest.raises(
        BadConfig,
        match=r"not what it computes: on a = \d, b = \d .* away, the largest difference of 49",
    ):
        from_transformer(model)

    class Other(StandIn):
        def __call__(self, tokens: Any) -> Any:
            logits = super().__call__(tokens)
            logits[(tokens[:, 0] == 3) & (tokens[:, 1] == 5), -1, 2] += 0.01  # one input of all
            return logits

    with pytest.raises(
        BadConfig, match=r"on a = 3, b = 5 its own forward pass has a logit that is 0\.01 away"
    ):
        from_transformer(Other())


class Wider(StandIn):
    """One that can be copied to float64, and adds something to its first logit."""

    adds = 0.0

    def double(self) -> "Wider":
        self.weights = {name: x.double() for name, x in self.weights.items()}
        return self

    def __call__(self, tokens: Any) -> Any:
        return super().__call__(tokens) + self.adds * torch.eye(7)[0]


@pytest.mark.parametrize("offset", [0.0, 2e5])
@pytest.mark.parametrize("kind", [hooked, Wider])
def test_a_common_offset_hides_no_hook(kind: Any, offset: float) -> None:
    """b_U moves all logits alike, which softmax does not see.

    A hook that adds 15 to one changes answers.
    """
    model = kind()
    with torch.no_grad():
        model.state_dict()["unembed.b_U"] += offset
    assert from_transformer(model).pairs == 49
    if kind is Wider:
        model.adds = 15.0
    else:
        model.unembed.register_forward_hook(
            lambda module, fed, logits: logits + 15 * torch.eye(7)[0]
        )
    with pytest.raises(BadConfig, match="not what it computes"):
        from_transformer(model)


def test_what_a_network_raises_is_told() -> None:
    class Raises(StandIn):
        def __call__(self, tokens: Any) -> Any:
            raise RuntimeError("no such device")

    class Scalar(StandIn):
        def __call__(self, tokens: Any) -> Any:
            return super().__call__(tokens).sum(-1, keepdim=True)

    class Undefined(StandIn):
        def __call__(self, tokens: Any) -> Any:
            return super().__call__(tokens) * torch.nan

    with pytest.raises(
        BadConfig, match="its forward pass fails on 49 inputs: RuntimeError: no such device"
    ):
        from_transformer(Raises())
    with pytest.raises(
        BadConfig, match=r"has the shape \(49, 1\); expected 49 rows of at least 7 logits"
    ):
        from_transformer(Scalar())
    with pytest.raises(BadConfig, match="not what it computes"):
        from_transformer(Undefined())


def test_a_network_of_half_precision_is_compared_in_float64() -> None:
    imported = from_transformer(hooked().to(torch.bfloat16))
    assert any(
        note.startswith("compared with its own forward pass in float64") for note in imported.notes
    )


def test_bad_weights_and_configs_are_refused() -> None:
    broken = StandIn()
    broken.weights["embed.W_E"][2, 1] = torch.nan
    with pytest.raises(BadWeights, match=r"W_E\[2, 1\] is nan"):
        from_transformer(broken)
    for name, value in {
        "attn_only": True,
        "positional_embedding_type": "rotary",
        "parallel_attn_mlp": True,
    }.items():
        model = StandIn()
        setattr(model.cfg, name, value)
        with pytest.raises(
            BadConfig, match=f"{name} is {value} in its config; quadlens reads models where it is"
        ):
            from_transformer(model)
    odd = copy.deepcopy(StandIn())
    odd.cfg.n_ctx = "many"
    with pytest.raises(BadConfig, match="says n_ctx = many; expected a whole number"):
        from_transformer(odd)
    odd = StandIn()
    odd.cfg.d_vocab = odd.cfg.d_vocab_out = 50257
    with pytest.raises(BadConfig, match="p = 50257 is too large"):
        from_transformer(odd)
    normed = StandIn()
    normed.cfg.__dict__.update(normalization_type="LNPre", eps=1e-5)
    normed.weights["ln_final.w"] = torch.ones(6)
    with pytest.raises(
        BadConfig,
        match=r"and the weights have ln_final_w; expected one of LN, .* Pre being without",
    ):
        from_transformer(normed)
    normed.cfg.normalization_type = "Batch"
    with pytest.raises(BadConfig, match="normalization_type is 'Batch' in cfg"):
        from_transformer(normed)
    with pytest.raises(BadConfig, match="comes without a config"):
        from_transformer(StandIn().state_dict())
    with pytest.raises(BadFile, match="missing tensors"):
        from_transformer({"blocks.0.attn.W_O": np.ones((1, 1, 1))}, {"n_ctx": 2, "d_vocab": 3})


@pytest.mark.parametrize(
    "inputs", ["ab", ("b", "a"), ("a",), ("a", "b", "="), ("a", "c"), ("a", "b", True), ()]
)
def test_inputs_that_are_not_understood(inputs: Any) -> None:
    with pytest.raises(WrongArgument, match="expected the tokens fed in their order"):
        from_transformer(StandIn(), inputs=inputs)


def test_tokens_that_there_are_not() -> None:
    with pytest.raises(BadConfig, match=r"token 8 is not among its 8; correct inputs or p"):
        from_transformer(StandIn(), inputs=("a", "b", 8))
    with pytest.raises(WrongArgument, match="inputs, p and task are for TransformerLens' object"):
        quadlens.study("pizza", p=3)
    with pytest.raises(QuadlensError, match=r"quadlens\.from_module\(module, inputs=…\) makes one"):
        quadlens.study(torch.nn.Linear(3, 3))
