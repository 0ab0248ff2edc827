"""A transformer from its weights and from what settings, sidecar and file say of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from quadlens.base.errors import BadConfig, BadFile, QuadlensError
from quadlens.network.config import EOS_POSITIONS, Config, Softmax
from quadlens.network.norm import Norms
from quadlens.network.tensor_names import QUERY_KEY, unnumbered
from quadlens.network.weights import Weights
from quadlens.readers.checkpoint import Tensors
from quadlens.readers.facts import (
    Claim,
    Missing,
    agreed,
    attention_in,
    known_activation,
    known_divisor,
    known_modulus,
    known_norm,
    whole_number,
)
from quadlens.readers.protocol import Hints, Imported, SoftmaxAttention

# Gates that differ by no more than this over all inputs count as constant.
CONSTANT_WITHIN = 1e-12
RANKS = {"W_E": 2, "W_pos": 2, "W_V": 3, "W_O": 3, "W_in": 2, "W_out": 2, "W_U": 2}


@dataclass(frozen=True)
class Mix:
    """weight = scale · softmax + shift: how a project blends its attention with a constant.

    Ordinary attention is (1, 0); Zhong et al. (coeff, 1 - coeff); gbmi (1 - rate, rate / n).
    """

    scale: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and math.isfinite(self.shift)):
            raise BadConfig(f"attention {self.scale} · softmax + {self.shift} is not finite")


Attention = tuple[float, ...] | SoftmaxAttention
SOFTMAX = Mix()
THE_CONFIG = "the file's config"


@dataclass(frozen=True)
class Facts:
    """What a format, or the config that comes with its files, says beyond the weights.

    Attributes:
        format: Its name.
        width: p as shapes say it if nobody says otherwise, None where they leave it open; and what
            says so.
        p: What in the file says the modulus, and the modulus.
        task: The task by the file's own config.
        activation: What in the file's own config says σ, and σ.
        attention: What in the file's own config says attention, and attention.
        otherwise: Attention when neither setting nor sidecar nor file says it: what `program`
            fixes.
        mix: How softmax becomes attention.
        positions: How many positions are fed, None when the format leaves it open.
        b_token_offset: Token of b minus b; None when the format leaves it open.
        causal: Whether softmax sees only what comes before; with one layer, read at the end, it is
            all the same.
        program: The published program whose layout the file has, which fixes inputs and scores;
            None where many share the layout, so that the setting `attention` says them.
        note: Added to the note about attention.
    """

    format: str
    width: tuple[int | None, str]
    p: Claim[int] = (THE_CONFIG, None)
    task: str | None = None
    activation: Claim[str] = (THE_CONFIG, None)
    attention: Claim[Attention] = (THE_CONFIG, None)
    otherwise: Attention | None = None
    mix: Mix = SOFTMAX
    positions: int | None = None
    b_token_offset: int | None = None
    causal: bool = True
    program: str | None = None
    note: str = ""


ATTENTION_HELP = (
    "it is not in the weights, and a wrong one often still gives 100 % accuracy while every margin "
    "changes; give it with attention=… (0.5,0.5 for a and b; 1/3,1/3,1/3 with '='; 1,1 in Zhong et "
    "al.'s models; softmax:2 (a, b) or softmax:3 (a, b, '=') to compute it from W_Q and W_K), or a "
    "config with config=FILE"
)


def read_transformer(
    source: str, weights: Tensors, hints: Hints, facts: Facts, missing: Missing | None = None
) -> Imported:
    """The model; `weights` by our short names and in our orientation, biases left out are zero.

    Args:
        source: The file, for messages.
        weights: By our short names.
        hints: What the user says.
        facts: What the format says.
        missing: Facts that the reader has already looked for in vain.

    Raises:
        BadConfig: when facts are missing, two contradict each other, or constant attention is not
            the checkpoint's.
        BadWeights: when the weights cannot be a model's.
    """
    missing = missing or Missing(source)
    layers = 1 + max((int(name.partition(".")[0]) for name in weights if "." in name), default=0)
    said_layers = whole_number(hints, "n_layers")
    if said_layers not in (None, layers):
        raise BadConfig(
            f"{source}: n_layers is {said_layers} in {hints.sidecar_name}, but the weights have "
            f"{layers}"
        )
    p = known_modulus(source, hints, facts.p, facts.width, missing)
    activation = known_activation(source, hints, facts.activation, missing)
    norm = known_norm(source, hints, weights, missing)
    norms = Norms(attention=norm, mlp=norm, final=norm)
    attention = _known_attention(source, hints, facts, len(weights["W_pos"]), missing)
    equals = attention is not None and _positions(attention[0]) == EOS_POSITIONS
    tokens = (
        None
        if p is None
        else _tokens(source, hints, facts, p[0], len(weights["W_E"]), equals, missing)
    )
    if p is None or activation is None or attention is None or tokens is None or missing:
        raise missing.error()
    in_sidecar = (hints.sidecar_name, whole_number(hints, "read_position"))
    position = agreed(
        "read_position", source, [("the setting read_position", hints.read_position), in_sidecar]
    )
    first = "" if layers == 1 else "0."
    heads, _, d_head = weights[f"{first}W_V"].shape
    fields = {
        "p": p[0],
        "d_model": weights["W_E"].shape[1],
        "d_mlp": weights[f"{first}W_in"].shape[1],
        "n_heads": heads,
        "d_head": d_head,
        "d_vocab": len(weights["W_E"]),
        "d_vocab_out": weights["W_U"].shape[1],
        "n_ctx": len(weights["W_pos"]),
        "activation": activation[0],
        "b_token_offset": tokens[0],
        "n_layers": layers,
        "norms": norms,
    }
    by_program = None if facts.program is None else f"as in {facts.program}"
    means = by_program or "which softmax means here; attn_scale in a config says another"
    # Where attention is constant by the file's own config there are no scores, whatever else it
    # says of them.
    softmax, by_config = isinstance(attention[0], SoftmaxAttention), facts.attention[1] is not None
    scored = softmax or not by_config
    divisor, divisor_said = (
        known_divisor(hints, d_head, means) if scored else (math.sqrt(d_head), "")
    )
    read_position = None if position is None else position[0]
    reading = _Reading(source, weights, fields, read_position, divisor, facts.mix, facts.causal)
    model, attention_said = reading.model(*attention, by_config)
    last = by_program or "the last position, from which attention looks"
    read_at = ("a", "b", "'='")[model.config.read_position]
    notes = [
        f"p = {p[0]}: {p[1]}",
        f"inputs {tokens[1]}: {by_program or attention[1]}",
        f"read at {read_at}: {position[1] if position else last}",
        f"attention {_shown(model.config)}: {attention_said}{facts.note}",
    ]
    if softmax:
        notes.append(f"scores divided by {divisor:.6g}: {divisor_said}")
    if layers > 1:
        notes.append(f"{layers} layers: the weights")
    notes.append(f"activation {activation[0]}: {activation[1]}")
    absent = by_program or "neither weights nor a config have one"
    notes.append(f"{norms.words}: {hints.sidecar_name}" if norms else f"no LayerNorm: {absent}")
    return Imported(model, facts.format, tuple(notes), facts.task)


def _known_attention(
    source: str, hints: Hints, facts: Facts, n_ctx: int, missing: Missing
) -> tuple[Attention, str] | None:
    """Attention with the number of positions fed, and who said it. Never guessed."""
    claims: list[Claim[Attention]] = [
        ("the setting attention", hints.attention),
        (hints.sidecar_name, attention_in(hints)),
        facts.attention,
    ]
    # `softmax` without a number of positions agrees with any softmax that has one.
    numbered = next((c for _, c in claims if isinstance(c, SoftmaxAttention) and c.positions), None)
    claims = [(who, numbered if numbered and c == SoftmaxAttention() else c) for who, c in claims]
    settled: tuple[Attention, str] | None = agreed("the attention", source, claims, "attention")
    if settled is None and facts.otherwise is not None:
        settled = facts.otherwise, f"as in {facts.program}"
    if settled is None:
        missing.add("the attention", ATTENTION_HELP, "attention", "config")
        return None
    claim, who = settled
    # Of two positions there is one reading: a and b are fed.
    fed = _positions(claim) or facts.positions or (n_ctx if n_ctx == 2 else None)
    if fed is None:
        missing.add(
            "whether '=' is fed",
            f"n_ctx is {n_ctx}; give attention=softmax:2 (a, b) or softmax:3 (a, b, '=')",
            "attention",
        )
        return None
    if facts.positions not in (None, fed):
        raise BadConfig(
            f"{source}: {fed} positions by {who}, but {facts.positions} in "
            f"{facts.program or 'the file'}; correct it"
        )
    return (SoftmaxAttention(fed) if isinstance(claim, SoftmaxAttention) else claim), who


def _positions(claim: Attention) -> int | None:
    """How many positions are fed, None when a claim leaves it open."""
    return claim.positions if isinstance(claim, SoftmaxAttention) else len(claim)


def _tokens(
    source: str, hints: Hints, facts: Facts, p: int, vocabulary: int, equals: bool, missing: Missing
) -> tuple[int, str] | None:
    """Token of b minus b, and what is fed, in words."""
    claims = [
        (hints.sidecar_name, whole_number(hints, "b_token_offset")),
        ("the format", facts.b_token_offset),
    ]
    settled = agreed("b_token_offset", source, claims)
    if settled is None and vocabulary - equals >= 2 * p:
        missing.add(
            "whether b has tokens of its own",
            f"the vocabulary has {vocabulary} tokens and p is {p}; give a config that has "
            f"b_token_offset, 0 or {p}",
        )
        return None
    offset = 0 if settled is None else settled[0]
    own = f", b as token b + {offset}" if offset else ""
    if not equals:
        return offset, f"(a, b){own}"
    token, left, said = offset + p, vocabulary - offset - p, whole_number(hints, "equals_token")
    if said not in (None, token):
        raise BadConfig(
            f"{source}: equals_token is {said} in {hints.sidecar_name}; quadlens reads {token}, "
            "after a and b"
        )
    if said is None and left > 1:
        missing.add(
            "which token is '='",
            f"{left} of {vocabulary} tokens are no operands; if it is the first of them, give a "
            f"config with equals_token {token} (others are not read)",
        )
        return None
    return offset, f"(a, b, '='), '=' as token {token}{own}"


@dataclass(frozen=True, eq=False)
class _Reading:
    """One checkpoint of which only attention is left to settle.

    Attributes:
        source: The file.
        weights: By our short names.
        fields: The fields of its `Config` but for attention and the position that is read.
        read_position: Which position somebody says is read, None when nobody does.
        divisor: What scores are divided by.
        mix: How softmax becomes attention.
        causal: Whether softmax sees only what comes before.
    """

    source: str
    weights: Tensors
    fields: Mapping[str, Any]
    read_position: int | None
    divisor: float
    mix: Mix
    causal: bool

    def model(self, claim: Attention, who: str, by_config: bool) -> tuple[Weights, str]:
        """Return the model with this attention, and its source in words.

        A constant that W_Q and W_K contradict is refused.

        `by_config`: what the file's own config says of attention decides, whatever W_Q and W_K are.
        """
        if isinstance(claim, SoftmaxAttention):
            own, said = self._softmax(claim.positions or 2)
            return own, f"{who}, {said}"
        layers, norms = self.fields["n_layers"], self.fields["norms"]
        looks = self._has_queries and any(
            np.any(x) for n, x in self.weights.items() if unnumbered(n) in ("W_Q", "W_K")
        )
        if not by_config and (layers > 1 or (norms and looks)):
            why = f"{layers} layers" if layers > 1 else f"{norms.words} and its own W_Q and W_K"
            raise BadConfig(
                f"{self.source} has {why}: constant weights on the positions do not say what each "
                "of them sees. Give attention=softmax, or a config with attn_coeff (Zhong et al.)",
                settings=("attention", "config"),
            )
        model = self._with(claim)
        if not by_config and looks:
            self._check(claim, who)
        return model, who

    @property
    def _has_queries(self) -> bool:
        """Whether there is something to compute attention from."""
        return {"W_Q", "W_K"} <= set(map(unnumbered, self.weights))

    def _check(self, claim: tuple[float, ...], who: str) -> None:
        """Refuse a constant that is not what the checkpoint's own queries and keys give."""
        worst = farthest(self._with(*self._own_attention(len(claim))), np.array(claim))
        if worst.gap > CONSTANT_WITHIN:
            raise BadConfig(
                f"{self.source}: attention {', '.join(f'{x:.6g}' for x in claim)} by {who}, but by "
                f"the checkpoint's own W_Q and W_K {worst.words}: a difference of {worst.gap:.3g}. "
                "Read it as it is with attention=softmax. One that was trained with constant "
                "attention has a config that says so, attn_coeff (Zhong et al.) or attention_rate "
                "(gbmi), or is read without W_Q and W_K",
                settings=("attention", "config"),
            )

    def _softmax(self, fed: int) -> tuple[Weights, str]:
        """Return the model with the attention that W_Q and W_K give.

        It is constant where that is the same on every input.
        """
        constant, softmax = self._own_attention(fed)
        own = self._with(constant, softmax)
        if (
            self.fields["n_layers"] > 1 or self.fields["norms"]
        ):  # gates are not tables of the tokens alone
            sees = (
                "a position seeing itself and those before it"
                if softmax.causal
                else "every position seeing all"
            )
            return own, f"softmax, computed in every layer, {sees}"
        try:
            worst = farthest(own)
        except QuadlensError as error:
            raise error.about(self.source) from None
        if worst.gap > CONSTANT_WITHIN:
            return own, (
                f"softmax, which depends on the tokens: {worst.words}, which is {worst.gap:.3g} "
                "from those of head 0 on a = 0, b = 0"
            )
        return self._with(
            tuple(float(x) for x in worst.reference)
        ), "softmax, the same on every input"

    def _own_attention(self, positions: int) -> tuple[tuple[float, ...], Softmax]:
        """Return the constant part and the softmax of the checkpoint's own attention.

        The last of the positions fed is read.
        """
        if not self._has_queries:
            words = (
                f"{self.source} has no W_Q and W_K to compute attention from; give the constant "
                "with attention=…"
            )
            raise BadFile(words, settings=("attention",))
        if self.read_position not in (None, positions - 1):
            raise BadConfig(
                f"{self.source}: softmax is computed at the last position, but read_position is "
                f"{self.read_position}"
            )
        causal = self.causal or self.fields["n_layers"] == 1
        return (self.mix.shift,) * positions, Softmax(self.mix.scale, self.divisor, causal)

    def _with(self, attention: tuple[float, ...], softmax: Softmax | None = None) -> Weights:
        """The model with this constant attention, and softmax added to it."""
        weights = {
            name: array
            for name, array in self.weights.items()
            if softmax or unnumbered(name) not in QUERY_KEY
        }
        position = len(attention) - 1 if self.read_position is None else self.read_position
        try:
            config = Config(
                **self.fields, attention=attention, read_position=position, softmax=softmax
            )
            if not any(
                unnumbered(name).startswith("ln") for name in weights
            ):  # a norm without weights
                norms = {n: s for n, s in config.shapes.items() if unnumbered(n).startswith("ln")}
                weights |= {n: np.ones(s, np.float32) for n, s in norms.items() if n.endswith("_w")}
            return Weights.with_zero_biases(config, **weights)
        except QuadlensError as error:
            raise error.about(self.source) from None


class Farthest(NamedTuple):
    """The input and head on which attention is farthest from a reference.

    Attributes:
        gap: Largest difference of a weight there.
        words: The head, the input and the weights there.
        reference: What they are compared with.
    """

    gap: float
    words: str
    reference: Float[np.ndarray, " positions"]


def farthest(own: Weights, reference: Float[np.ndarray, " positions"] | None = None) -> Farthest:
    """Return where a model's attention is farthest from `reference`.

    When None, that is head 0's on a = 0, b = 0.
    """
    tables, p = own.collapse(), own.config.p
    constant = np.array(own.config.attention)[:, None, None]
    worst = None
    for a in range(p):
        weights = tables.gates(np.full(p, a), np.arange(p)) + constant
        reference = weights[:, 0, 0] if reference is None else reference
        gap = np.abs(weights - reference[:, None, None]).max(axis=0)
        head, b = (int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape))
        if worst is None or gap[head, b] > worst.gap:
            there = ", ".join(f"{x:.4g}" for x in weights[:, head, b])
            words = f"head {head} on a = {a}, b = {b} has the weights ({there})"
            worst = Farthest(float(gap[head, b]), words, reference)
    if worst is None:
        raise BadConfig("no inputs: p is 0")
    return worst


def _shown(config: Config) -> str:
    """Attention as the notes show it."""
    constant = ", ".join(f"{x:.6g}" for x in config.attention)
    return (
        constant
        if config.softmax is None
        else f"{config.softmax.scale:.6g} · softmax + ({constant})"
    )
