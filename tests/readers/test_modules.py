"""Plain PyTorch modules, of random shapes, against their own forward pass.

Modules that are not what they hold are among them.
"""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadlens
from cli_runner import quadlens as run
from quadlens.base.errors import BadConfig, BadFile, BadWeights, QuadlensError, WrongArgument
from quadlens.network.evaluate import all_pairs
from quadlens.network.weights import Weights
from quadlens.readers.modules import from_module

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

N = 5
ACTIVATIONS = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
}


def own_logits(module: Any, inputs: str, n: int = N) -> np.ndarray:
    """What the module itself says, in float64, its inputs written out anew."""
    module, pairs = copy.deepcopy(module).double(), torch.from_numpy(all_pairs(n))
    one_hot = torch.eye(n, dtype=torch.float64)
    fed = {
        "one-hot": (torch.cat([one_hot[pairs[:, 0]], one_hot[pairs[:, 1]]], 1),),
        "pair": (pairs[:, 0], pairs[:, 1]),
    }.get(inputs, (pairs,))
    with torch.no_grad():
        return np.asarray(module(*fed)[:, :n])


def agrees(module: Any, inputs: Any, **known: Any) -> Weights:
    model = from_module(module, inputs=inputs, **known).model
    expected = own_logits(module, inputs, model.config.p)
    np.testing.assert_allclose(
        model.forward(all_pairs(model.config.p)), expected, rtol=1e-9, atol=1e-9
    )
    tables = model.collapse()
    by_tables = np.concatenate([tables.logits(a) for a in range(model.config.p)])
    np.testing.assert_allclose(by_tables, expected, rtol=1e-9, atol=1e-9)
    return model


class Joined(nn.Module):
    """Embeddings of a and b joined or added up, fed as one tensor or two, before a Sequential."""

    def __init__(self, inputs: str, joined: bool, tables: int, width: int, body: Any) -> None:
        super().__init__()
        self.inputs, self.joined = inputs, joined
        self.embeddings = nn.ModuleList(nn.Embedding(N, width) for _ in range(tables))
        self.body = body

    def forward(self, *fed: Any) -> Any:
        a, b = fed if self.inputs == "pair" else (fed[0][:, 0], fed[0][:, 1])
        x, y = self.embeddings[0](a), self.embeddings[-1](b)
        return self.body(torch.cat([x, y], -1) if self.joined else x + y)


def random_body(width: int, rng: np.random.Generator) -> Any:
    """Linear layers, activations, norms and silent modules, in an order that people use."""
    layers: list[Any] = []
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.3:
            layers.append(
                nn.RMSNorm(width, eps=1e-3) if rng.random() < 0.5 else nn.LayerNorm(width)
            )
        if rng.random() < 0.2:  # a linear layer without an activation
            layers.append(nn.Linear(width, width := int(rng.integers(2, 7))))
        out = int(rng.integers(2, 9))
        layers.append(nn.Linear(width, out, bias=bool(rng.random() < 0.7)))
        width = out
        if rng.random() < 0.3:
            layers.append(nn.LayerNorm(width, elementwise_affine=bool(rng.random() < 0.5)))
        layers += [ACTIVATIONS[str(rng.choice(list(ACTIVATIONS)))](), nn.Dropout(0.5)]
    if rng.random() < 0.3:
        layers.append(nn.LayerNorm(width))
    return nn.Sequential(*layers, nn.Linear(width, N, bias=bool(rng.random() < 0.7)))


@pytest.mark.parametrize("seed", range(24))
def test_modules_of_random_shapes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    inputs = ("one-hot", "concat", "sum", "pair")[seed % 4]
    if inputs == "one-hot":
        module = random_body(2 * N, rng)
        while not isinstance(module[0], nn.Linear):  # tokens have no norm
            module = module[1:]
    else:
        joined, width = (
            inputs == "concat" or (inputs == "pair" and rng.random() < 0.5),
            int(rng.integers(2, 6)),
        )
        body = random_body(width * (1 + joined), rng)
        module = Joined(inputs, joined, int(rng.integers(1, 3)), width, body)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.7)
    agrees(module.eval(), inputs)


class Called(nn.Module):
    """The usual way to write a network: its activation is called in the code."""

    def __init__(self, hidden: int = 1, norm: bool = False) -> None:
        super().__init__()
        self.out = nn.Linear(6, N + 1)
        self.emb = nn.Embedding(N + 1, 4)
        self.fc = nn.ModuleList([nn.Linear(8, 6), *(nn.Linear(6, 6) for _ in range(hidden - 1))])

    def forward(self, x: Any) -> Any:
        x = self.emb(x).flatten(1)
        for layer in self.fc:
            x = torch.relu(layer(x))
        return self.out(x)


def test_parts_in_another_order_need_a_map() -> None:
    """`out` was made first, so that the order of the modules is not that of the layers."""
    with pytest.raises(
        BadConfig, match=r"out takes 6 numbers, but gets 8 .* which part is which with map="
    ):
        from_module(Called(), inputs="concat", activation="relu")
    names = {"embed": "emb.weight", "hidden": "fc.0", "out": "out"}
    model = agrees(Called(), "concat", activation="relu", map=names)
    told = from_module(Called(), inputs="concat", activation="relu", map=names).notes
    assert any("multiplied in float64: proofs are about their product" in note for note in told)
    assert not any("multiplied" in note for note in from_module(simple(), inputs="one-hot").notes)
    assert model.config.p == N + 1
    names |= {"hidden2": "fc.1", "hidden3": "fc.2.weight"}
    assert len(agrees(Called(3), "concat", activation="relu", map=names).config.hidden) == 2


def test_an_activation_that_is_called_or_shared() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sigma = nn.Tanh()
            self.first, self.second, self.third = (
                nn.Linear(2 * N, 6),
                nn.Linear(6, 4),
                nn.Linear(4, N),
            )

        def forward(self, x: Any) -> Any:
            return self.third(self.sigma(self.second(self.sigma(self.first(x)))))

    class Square(nn.Module):
        def forward(self, x: Any) -> Any:
            return x**2

    assert agrees(Shared(), "one-hot").config.activation == "tanh"
    agrees(nn.Sequential(nn.Linear(2 * N, 6), Square(), nn.Linear(6, N)), "one-hot")
    same = nn.ReLU()
    agrees(
        nn.Sequential(nn.Linear(2 * N, 6), same, nn.Linear(6, 6), same, nn.Linear(6, N)), "one-hot"
    )
    with pytest.raises(
        BadConfig, match="holds no activation that is known; say which it is with activation=NAME"
    ):
        from_module(nn.Sequential(nn.Linear(2 * N, 6), nn.Linear(6, N)), inputs="one-hot")
    with pytest.raises(BadConfig, match="Shared holds tanh, but activation is relu"):
        from_module(Shared(), inputs="one-hot", activation="relu")


def test_norms_before_or_behind_an_activation_that_is_called() -> None:
    class Block(nn.Module):
        def __init__(self, behind: bool) -> None:
            super().__init__()
            self.behind = behind
            self.emb, self.fc, self.norm, self.out = (
                nn.Embedding(N, 4),
                nn.Linear(4, 6),
                nn.LayerNorm(6),
                nn.Linear(6, N),
            )

        def forward(self, x: Any) -> Any:
            x = self.fc(self.emb(x).sum(1))
            return self.out(self.norm(torch.relu(x)) if self.behind else torch.relu(self.norm(x)))

    assert agrees(Block(behind=True), "sum", activation="relu").config.norms.final is not None
    assert agrees(Block(behind=False), "sum", activation="relu").config.norms.mlp is not None


def test_weights_that_are_parameters() -> None:
    class Raw(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.E, self.W = nn.Parameter(torch.randn(N, 4)), nn.Parameter(torch.randn(4, 8))
            self.c, self.U = nn.Parameter(torch.randn(8)), nn.Parameter(torch.randn(8, N))

        def forward(self, a: Any, b: Any) -> Any:
            return torch.relu((self.E[a] + self.E[b]) @ self.W + self.c) @ self.U

    with pytest.raises(
        BadConfig, match=r"is a Raw with weights of its own; .* say which weight is which with map="
    ):
        from_module(Raw(), inputs="pair")
    names = {"embed": "E", "hidden": "W", "hidden_bias": "c", "out": "U"}
    agrees(Raw(), "pair", map=names, activation="relu")
    agrees(Raw(), "pair", map=names | {"out": "U.T"}, activation="relu")
    with pytest.raises(BadConfig, match="Raw holds no activation"):
        from_module(Raw(), inputs="pair", map=names)
    for bad in ({"hidden": "W"}, {"hidden": "W", "out": "U", "nonsense": "E"}):
        with pytest.raises(BadConfig, match=r"map has hidden.*; expected embed, embed_b, hidden"):
            from_module(Raw(), inputs="pair", map=bad, activation="relu")
    with pytest.raises(BadFile, match="Raw has no V"):
        from_module(Raw(), inputs="pair", map=names | {"out": "V"}, activation="relu")


class Chain(nn.Sequential):
    """A Sequential whose forward pass is another's to write."""

    def through(self, x: Any) -> Any:
        for one in self:
            x = one(x)
        return x


def simple() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2 * N, 6), nn.ReLU(), nn.Linear(6, N))


def test_code_that_is_not_what_the_parts_say_is_refused() -> None:
    class Cubed(Chain):
        def forward(self, x: Any) -> Any:
            return self.through(x) ** 3

    class OnOneInput(Chain):
        def forward(self, x: Any) -> Any:
            y = self.through(x)
            return torch.where((x[:, 3] * x[:, N + 2] == 1)[:, None], y + 1e-3, y)

    class Random(Chain):
        def forward(self, x: Any) -> Any:
            return self.through(x) + 0.01 * torch.randn(())

    for kind in (Cubed, OnOneInput, Random):
        with pytest.raises(BadConfig, match="what its parts say is not what it computes"):
            from_module(kind(*simple()), inputs="one-hot")
    with pytest.raises(
        BadConfig, match=r"on a = 3, b = 2 its own forward pass has a logit that is 0\.001 away"
    ):
        from_module(OnOneInput(*simple()), inputs="one-hot")
    hooked = simple()
    hooked[1].register_forward_hook(lambda module, fed, output: output + 1)
    with pytest.raises(
        BadConfig, match="A hook, another order of the inputs or code beside its modules"
    ):
        from_module(hooked, inputs="one-hot")


def lookup(p: int, offset: float, gain: float = 10.0) -> Any:
    """A one-hot network right on all inputs by a margin of `gain`, all its logits moved by the same
    offset.
    """
    module: Any = Chain(nn.Linear(2 * p, p * p), nn.ReLU(), nn.Linear(p * p, p))
    first, last = torch.zeros(p * p, 2 * p), torch.zeros(p, p * p)
    for a, b in all_pairs(p):
        first[a * p + b, [a, p + b]] = 1
        last[(a + b) % p, a * p + b] = gain
    with torch.no_grad():
        module[0].weight.copy_(first)
        module[0].bias.fill_(-1.0)
        module[2].weight.copy_(last)
        module[2].bias.fill_(offset)
    return module


@pytest.mark.parametrize("offset", [0.0, 2e5, 1e6])
def test_a_common_offset_hides_no_error(offset: float) -> None:
    """Softmax does not see an offset of all logits, so it is no size to measure a difference by."""

    class Adds(Chain):
        def forward(self, x: Any) -> Any:
            return self.through(x) + 15 * torch.eye(7)[0]

    own = own_logits(Adds(*lookup(7, offset)), "one-hot", 7)
    assert (own.argmax(axis=1) == all_pairs(7).sum(axis=1) % 7).sum() == 7
    with pytest.raises(BadConfig, match="what its parts say is not what it computes"):
        from_module(Adds(*lookup(7, offset)), inputs="one-hot")
    assert from_module(lookup(7, offset), inputs="one-hot").correct == 49


def test_small_logits_are_compared_by_their_own_size() -> None:
    class Adds(Chain):
        def forward(self, x: Any) -> Any:
            return self.through(x) + 3e-5 * torch.eye(7)[0]

    assert from_module(lookup(7, 0, 1e-5), inputs="one-hot").correct == 49
    with pytest.raises(BadConfig, match="a logit less their mean that is"):
        from_module(Adds(*lookup(7, 0, 1e-5)), inputs="one-hot")


def test_answers_are_compared_where_logits_are_close() -> None:
    """1e-5 of a logit's range decides an input that is a near tie.

    Whoever decides it otherwise is another network.
    """

    class Tips(Chain):
        def forward(self, x: Any) -> Any:
            return self.through(x) + 3e-4 * torch.eye(7)[0]

    def near_tie(kind: Any) -> Any:
        module = kind(*lookup(7, 0))
        with torch.no_grad():
            module[2].weight[0, 8] = 9.9999  # 1 + 1 = 2, by 0.0001
        return module

    assert from_module(near_tie(Chain.__mro__[1]), inputs="one-hot").correct == 49
    with pytest.raises(BadConfig, match="answers 1 of 49 inputs otherwise, a = 1, b = 1 for one"):
        from_module(near_tie(Tips), inputs="one-hot")


def test_the_count_is_the_modules_own() -> None:
    """In float32 an offset of 10⁹ rounds every logit to a multiple of 64.

    All tie, and none is right.
    """
    imported = from_module(lookup(7, 1e9), inputs="one-hot")
    own = lookup(7, 1e9)(torch.eye(7)[torch.from_numpy(all_pairs(7))].flatten(1)).detach().numpy()
    assert (own == own[:, :1]).all()
    assert imported.correct == 0
    assert imported.summary().startswith("0 of 49 inputs right (a + b mod 7)\n")
    assert "rounding in its own precision changes the answer to 49 inputs" in imported.summary()


def test_modules_that_cannot_be_read() -> None:
    class Raises(Chain):
        def forward(self, x: Any) -> Any:
            raise KeyError("not today")

    class Pair(Chain):
        def forward(self, x: Any) -> Any:
            return self.through(x), x

    def with_weight(value: float) -> Any:
        module = simple()
        with torch.no_grad():
            module[0].weight[1, 2] = value
        return module

    dropped = nn.Sequential(nn.Linear(2 * N, 6), nn.ReLU(), nn.Dropout(0.1), nn.Linear(6, N))
    agrees(dropped.eval(), "one-hot")
    refused: list[tuple[Any, str]] = [
        (Raises(*simple()), "its forward pass fails on 25 inputs: KeyError: 'not today'"),
        (Pair(*simple()), "its forward pass fails on 25 inputs: AttributeError"),
        (
            dropped.train(),
            r"Dropout\(p=0.1, inplace=False\) in training mode, .*; call module.eval\(\) first",
        ),
        (nn.Sequential(*simple(), nn.Softmax(-1)), "Softmax.*activation"),
        (nn.Sequential(*simple(), nn.ReLU()), "what its parts say is not what it computes"),
        (nn.Sequential(*simple(), nn.Tanh()), "a linear layer right after the last of these"),
        (
            nn.Sequential(nn.Linear(2 * N, 6), nn.GELU(approximate="tanh"), nn.Linear(6, N)),
            "gelu with erf",
        ),
        (
            nn.Sequential(nn.Linear(2 * N, 6), nn.LeakyReLU(), nn.Linear(6, N)),
            "LeakyReLU.*activation",
        ),
        (
            nn.Sequential(nn.Linear(2 * N, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, N)),
            "BatchNorm1d with weights",
        ),
        (
            nn.Sequential(nn.Linear(2 * N, 6), nn.ReLU(), nn.Linear(7, N)),
            "2 takes 7 numbers, but gets 6",
        ),
        (
            nn.Sequential(nn.Linear(2 * N, 6), nn.ReLU(), nn.Linear(6, 3)),
            "3 logits for n = 5 elements",
        ),
        (nn.Sequential(nn.LazyLinear(6), nn.ReLU(), nn.Linear(6, N)), "cannot be read"),
        (
            nn.Sequential(nn.Embedding(N, 4), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, N)),
            "it holds 1 embeddings",
        ),
        (
            nn.Sequential(nn.ReLU(), nn.Linear(2 * N, N)),
            "expected a linear layer or an embedding first",
        ),
        (nn.Linear(2 * N, N), "holds no activation"),
        (with_weight(float("nan")), "is nan, expected finite weights"),
        (with_weight(float("inf")), "is inf, expected finite weights"),
    ]
    for module, words in refused:
        with pytest.raises((BadConfig, BadWeights), match=words):
            from_module(module, inputs="one-hot")
    with pytest.raises(BadConfig, match="it holds 0 embeddings; expected one or two"):
        from_module(simple(), inputs="sum")
    for wrong in (3, "module", {"fc": 1}):
        with pytest.raises(WrongArgument, match="expected a PyTorch module"):
            from_module(wrong, inputs="one-hot")


def test_a_study_of_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    """Two hidden layers: evaluated, outlined, lens on the last, proved by brute force.

    The module stays as it is.
    """
    torch.manual_seed(1)
    module = nn.Sequential(
        nn.Linear(2 * N, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, N)
    ).train()
    before = {name: x.clone() for name, x in module.state_dict().items()}
    study = quadlens.from_module(module, inputs="one-hot")
    right = int((own_logits(module, "one-hot").argmax(1) == all_pairs(N).sum(1) % N).sum())
    assert capsys.readouterr().out.startswith(f"{right} of 25 inputs right (a + b mod 5)\n")
    assert study.evaluation.correct == right
    assert study.explanation.neurons is None
    assert quadlens.lens(study).activation == "relu"
    assert quadlens.certify(study, "brute").certified_inputs == right
    assert quadlens.check(quadlens.certify(study, checkable=True), study).verdict == "VERIFIED"
    assert module.training
    assert all(torch.equal(before[name], x) for name, x in module.state_dict().items())
    with pytest.raises(QuadlensError, match=r"quadlens\.from_module\(module, inputs=…\) makes one"):
        quadlens.study(module)


def test_import_by_map(tmp_path: Path) -> None:
    torch.manual_seed(2)
    module = Called(2)
    torch.save(module.state_dict(), tmp_path / "m.pt")
    names = "embed=emb.weight,hidden=fc.0,hidden2=fc.1,out=out"
    command = ["import", str(tmp_path / "m.pt"), "-o", str(tmp_path / "m.safetensors"), "--json"]
    told = run(*command, "--map", names, "--activation", "relu").document
    assert (told["format"], told["p"], told["pairs"]) == ("map", N + 1, (N + 1) ** 2)
    model = quadlens.load(tmp_path / "m.safetensors")
    np.testing.assert_allclose(
        model.forward(all_pairs(N + 1)), own_logits(module, "concat", N + 1), atol=1e-9
    )
    for changed, words in (
        (["--map", names], "the weights do not say the activation"),
        (["--map", "hidden=fc.0,out=out", "--activation", "relu"], "map leaves out emb.weight"),
        (
            ["--map", "hidden=", "--activation", "relu"],
            "is not understood; expected as in embed=emb.weight",
        ),
        (["--map", names.replace("fc.1", "fc.9"), "--activation", "relu"], "has no fc.9"),
    ):
        refused = run(*command, *changed)
        assert refused.code == 2
        assert words in refused.err
    narrow = {"fc.weight": np.ones((4, N)), "fc.bias": np.ones(4), "out.weight": np.ones((N, 4))}
    read = quadlens.from_state_dict(narrow, map={"hidden": "fc", "out": "out"}, activation="relu")
    assert read.notes[1] == "inputs one-hot a and b, added up: the shapes"
    with pytest.raises(BadFile, match="the first layer reads 7 numbers for 5 answers"):
        quadlens.from_state_dict(
            {"fc": np.ones((4, 7)), "out": np.ones((N, 4))},
            map={"hidden": "fc", "out": "out"},
            activation="relu",
        )
