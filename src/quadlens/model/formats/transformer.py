"""A transformer from its weights and from what settings, sidecar and file say of it."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from quadlens.errors import BadConfig, BadFile, QuadlensError
from quadlens.model.activation import Activation
from quadlens.model.config import EOS_POSITIONS, Config, Softmax
from quadlens.model.formats.checkpoint import Tensors
from quadlens.model.formats.facts import (
    Missing,
    agreed,
    attention_in,
    finite_number,
    known_activation,
    known_modulus,
    whole_number,
)
from quadlens.model.formats.protocol import Hints, Imported, SoftmaxAttention
from quadlens.model.norm import NO_NORMS, Norm, Norms
from quadlens.model.tensor_names import QUERY_KEY, own_name
from quadlens.model.weights import Weights

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


Claim = tuple[float, ...] | SoftmaxAttention | None
SOFTMAX = Mix()
# What TransformerLens calls norms.
KINDS = ("LN", "LNPre", "RMS", "RMSPre")


@dataclass(frozen=True)
class Facts:
    """What a format, or the config that comes with its files, says beyond the weights.

    Attributes:
        format: Its name.
        width: p as shapes say it if nobody says otherwise, None where they leave it open; and what says so.
        p: The modulus by the file itself.
        p_said: What in the file says it.
        task: The task by the file's own config.
        activation: σ by the file's own config.
        activation_said: What in the config says it.
        attention: Attention by the file's own config.
        attention_said: What in the config says it.
        otherwise: Attention when neither setting nor sidecar nor file says it: what `program` fixes.
        mix: How softmax becomes attention.
        positions: How many positions are fed, None when the format leaves it open.
        b_token_offset: Token of b minus b; None when the format leaves it open.
        causal: Whether softmax sees only what comes before; with one layer, read at the end, it is all the same.
        program: The published program whose layout the file has, which fixes inputs and scores; None where many share
            the layout, so that the setting `attention` says them.
        note: Added to the note about attention.
    """

    format: str
    width: tuple[int | None, str]
    p: int | None = None
    p_said: str = "the file's config"
    task: str | None = None
    activation: str | None = None
    activation_said: str = "the file's config"
    attention: Claim = None
    attention_said: str = "the file's config"
    otherwise: Claim = None
    mix: Mix = SOFTMAX
    positions: int | None = None
    b_token_offset: int | None = None
    causal: bool = True
    program: str | None = None
    note: str = ""


ATTENTION_HELP = (
    "it is not in the weights, and a wrong one often still gives 100 % accuracy while every margin changes; give it "
    "with attention=… (0.5,0.5 for a and b; 1/3,1/3,1/3 with '='; 1,1 in Zhong et al.'s models; softmax:2 (a, b) or "
    "softmax:3 (a, b, '=') to compute it from W_Q and W_K), or a config with config=FILE"
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
        BadConfig: when facts are missing, two contradict each other, or constant attention is not the checkpoint's.
        BadWeights: when the weights cannot be a model's.
    """
    missing = missing or Missing(source)
    layers = 1 + max((int(name.partition(".")[0]) for name in weights if "." in name), default=0)
    said_layers = whole_number(hints, "n_layers")
    if said_layers not in (None, layers):
        raise BadConfig(f"{source}: n_layers is {said_layers} in {hints.sidecar_name}, but the weights have {layers}")
    p = known_modulus(source, hints, (facts.p_said, facts.p), facts.width, missing)
    activation = known_activation(source, hints, facts.activation, facts.activation_said, missing)
    norms = _known_norms(source, hints, weights, missing)
    attention = _known_attention(source, hints, facts, len(weights["W_pos"]), missing)
    equals = attention is not None and _positions(attention[0]) == EOS_POSITIONS
    tokens = None if p is None else _tokens(source, hints, facts, p[0], len(weights["W_E"]), equals, missing)
    if p is None or activation is None or norms is None or attention is None or tokens is None or missing:
        raise missing.error()
    in_sidecar = (hints.sidecar_name, whole_number(hints, "read_position"))
    position = agreed("read_position", source, [("the setting read_position", hints.read_position), in_sidecar])
    read_position = None if position is None else position[0]
    reading = _Reading(source, weights, hints, facts, p[0], activation[0], read_position, layers, tokens[0], norms)
    model, attention_said = reading.model(*attention)
    by_program = None if facts.program is None else f"as in {facts.program}"
    last = by_program or "the last position, from which attention looks"
    read_at = ("a", "b", "'='")[model.config.read_position]
    notes = [
        f"p = {p[0]}: {p[1]}",
        f"inputs {tokens[1]}: {by_program or attention[1]}",
        f"read at {read_at}: {position[1] if position else last}",
        f"attention {_shown(model.config)}: {attention_said}{facts.note}",
    ]
    if isinstance(attention[0], SoftmaxAttention):
        divisor, divisor_said = reading.divisor
        notes.append(f"scores divided by {divisor:.6g}: {divisor_said}")
    if layers > 1:
        notes.append(f"{layers} layers: the weights")
    notes.append(f"activation {activation[0]}: {activation[1]}")
    absent = by_program or "neither weights nor a config have one"
    notes.append(f"{norms.words}: {hints.sidecar_name}" if norms else f"no LayerNorm: {absent}")
    return Imported(model, facts.format, tuple(notes), facts.task)


def _known_norms(source: str, hints: Hints, weights: Tensors, missing: Missing) -> Norms | None:
    """Which norms there are, before attention, MLP and unembedding; a state dict shows those with weights alone."""
    kind, eps = hints.of("normalization_type"), hints.of("eps")
    held = sorted({name for name in weights if own_name(name).startswith("ln")})
    if kind is None and not held:
        return NO_NORMS
    if kind is None or eps is None:
        has = f"it has {', '.join(held[:3])}; " if held else ""
        missing.add(
            "the norm", f"{has}give a config that has normalization_type ({', '.join(KINDS)}) and eps", "config"
        )
        return None
    if kind not in KINDS or (held and kind.endswith("Pre")):
        beside = f", and the weights have {', '.join(held[:3])}" if held else ""
        raise BadConfig(
            f"{source}: normalization_type is {str(kind)[:40]!r} in {hints.sidecar_name}{beside}; expected one of "
            f"{', '.join(KINDS)}, Pre being without weights"
        )
    norm = Norm("layer" if kind.startswith("LN") else "rms", finite_number(hints.sidecar_name, "eps", eps))
    return Norms(attention=norm, mlp=norm, final=norm)


def _known_attention(
    source: str, hints: Hints, facts: Facts, n_ctx: int, missing: Missing
) -> tuple[tuple[float, ...] | SoftmaxAttention, str] | None:
    """Attention with the number of positions fed, and who said it. Never guessed."""
    claims: list[tuple[str, Claim]] = [
        ("the setting attention", hints.attention),
        (hints.sidecar_name, attention_in(hints)),
        (facts.attention_said, facts.attention),
    ]
    # `softmax` without a number of positions agrees with any softmax that has one.
    numbered = next((c for _, c in claims if isinstance(c, SoftmaxAttention) and c.positions), None)
    claims = [(who, numbered if numbered and c == SoftmaxAttention() else c) for who, c in claims]
    found: tuple[tuple[float, ...] | SoftmaxAttention, str] | None = agreed(
        "the attention", source, claims, "attention"
    )
    if found is None and facts.otherwise is not None:
        found = facts.otherwise, f"as in {facts.program}"
    if found is None:
        missing.add("the attention", ATTENTION_HELP, "attention", "config")
        return None
    claim, who = found
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
            f"{source}: {fed} positions by {who}, but {facts.positions} in {facts.program or 'the file'}; correct it"
        )
    return (SoftmaxAttention(fed) if isinstance(claim, SoftmaxAttention) else claim), who


def _positions(claim: tuple[float, ...] | SoftmaxAttention) -> int | None:
    """How many positions are fed, None when a claim leaves it open."""
    return claim.positions if isinstance(claim, SoftmaxAttention) else len(claim)


def _tokens(
    source: str, hints: Hints, facts: Facts, p: int, vocabulary: int, equals: bool, missing: Missing
) -> tuple[int, str] | None:
    """Token of b minus b, and what is fed, in words."""
    claims = [(hints.sidecar_name, whole_number(hints, "b_token_offset")), ("the format", facts.b_token_offset)]
    found = agreed("b_token_offset", source, claims)
    if found is None and vocabulary - equals >= 2 * p:
        missing.add(
            "whether b has tokens of its own",
            f"the vocabulary has {vocabulary} tokens and p is {p}; give a config that has b_token_offset, 0 or {p}",
        )
        return None
    offset = 0 if found is None else found[0]
    own = f", b as token b + {offset}" if offset else ""
    if not equals:
        return offset, f"(a, b){own}"
    token, left, said = offset + p, vocabulary - offset - p, whole_number(hints, "equals_token")
    if said not in (None, token):
        raise BadConfig(
            f"{source}: equals_token is {said} in {hints.sidecar_name}; quadlens reads {token}, after a and b"
        )
    if said is None and left > 1:
        missing.add(
            "which token is '='",
            f"{left} of {vocabulary} tokens are no operands; if it is the first of them, give a config with "
            f"equals_token {token} (others are not read)",
        )
        return None
    return offset, f"(a, b, '='), '=' as token {token}{own}"


@dataclass(frozen=True, eq=False)
class _Reading:
    """One checkpoint with every fact settled."""

    source: str
    weights: Tensors
    hints: Hints
    facts: Facts
    p: int
    activation: Activation
    read_position: int | None
    layers: int
    b_token_offset: int
    norms: Norms

    def model(self, claim: tuple[float, ...] | SoftmaxAttention, who: str) -> tuple[Weights, str]:
        """The model with this attention, and the words on it; a constant that W_Q and W_K contradict is refused."""
        source = self.source
        if isinstance(claim, SoftmaxAttention):
            own, said = self._softmax(claim.positions or 2)
            return own, f"{who}, {said}"
        if self._run_whole:
            if self.facts.attention is None and (self.layers > 1 or self._looks):
                why = f"{self.layers} layers" if self.layers > 1 else f"{self.norms.words} and its own W_Q and W_K"
                raise BadConfig(
                    f"{source} has {why}: constant weights on the positions do not say what each of "
                    "them sees. Give attention=softmax, or a config with attn_coeff (Zhong et al.)",
                    settings=("attention", "config"),
                )
            return self._with(claim), who
        model = self._with(claim)
        if self.facts.attention is None and self._looks:
            self._check(claim, who)
        return model, who

    @property
    def _run_whole(self) -> bool:
        """Whether gates are not tables of the tokens alone, so that what they are is not looked at here."""
        return self.layers > 1 or bool(self.norms)

    @property
    def _looks(self) -> bool:
        """Whether the checkpoint has queries and keys, not all of them zero."""
        return all(name in self.weights for name in ("W_Q", "W_K")) and any(
            np.any(self.weights[name]) for name in ("W_Q", "W_K")
        )

    def _check(self, claim: tuple[float, ...], who: str) -> None:
        """Refuse a constant that is not what the checkpoint's own queries and keys give."""
        found = farthest(self._own(len(claim)), np.array(claim))
        if found.gap > CONSTANT_WITHIN:
            raise BadConfig(
                f"{self.source}: attention {', '.join(f'{x:.6g}' for x in claim)} by {who}, but by the checkpoint's "
                f"own W_Q and W_K {found}: a difference of {found.gap:.3g}. Read it as it is with attention=softmax. "
                "One that was trained with constant attention has a config that says so, attn_coeff (Zhong et al.) or "
                "attention_rate (gbmi), or is read without W_Q and W_K",
                settings=("attention", "config"),
            )

    def _softmax(self, fed: int) -> tuple[Weights, str]:
        """The model with the attention that W_Q and W_K give; constant where that is the same on every input."""
        if self._run_whole:
            constant, softmax = self._own_attention(fed)
            sees = "a position seeing itself and those before it" if softmax.causal else "every position seeing all"
            return self._with(constant, softmax), f"softmax, computed in every layer, {sees}"
        own = self._own(fed)
        try:
            found = farthest(own)
        except QuadlensError as error:
            raise error.about(self.source) from None
        if found.gap > CONSTANT_WITHIN:
            return own, (
                f"softmax, which depends on the tokens: {found}, which is {found.gap:.3g} from those of head 0 on "
                "a = 0, b = 0"
            )
        return self._with(tuple(float(x) for x in found.reference)), "softmax, the same on every input"

    def _own(self, positions: int) -> Weights:
        """The model with its own attention and so many positions fed, the last of them read."""
        return self._with(*self._own_attention(positions))

    def _own_attention(self, positions: int) -> tuple[tuple[float, ...], Softmax]:
        """Constant part and softmax of the checkpoint's own attention, so many positions fed, the last of them read."""
        source, mix, names = self.source, self.facts.mix, set(map(own_name, self.weights))
        if not {"W_Q", "W_K"} <= names:
            words = f"{source} has no W_Q and W_K to compute attention from; give the constant with attention=…"
            raise BadFile(words, settings=("attention",))
        if self.read_position not in (None, positions - 1):
            raise BadConfig(
                f"{source}: softmax is computed at the last position, but read_position is {self.read_position}"
            )
        return (mix.shift,) * positions, Softmax(mix.scale, self.divisor[0], self.facts.causal or self.layers == 1)

    @property
    def divisor(self) -> tuple[float, str]:
        """What scores are divided by, and who says so; TransformerLens' attn_scale is -1 where it is √d_head."""
        hints, usual = self.hints, math.sqrt(self._shape("W_V")[2])
        scaled, scale = hints.of("use_attn_scale"), hints.of("attn_scale")
        if scaled is False:
            return 1.0, f"use_attn_scale in {hints.sidecar_name}"
        if scale not in (None, -1):
            found = finite_number(hints.sidecar_name, "attn_scale", scale)
            if found <= 0:
                raise BadConfig(f"{hints.sidecar_name}: attn_scale is {found:g}, expected a number above 0")
            return found, f"attn_scale in {hints.sidecar_name}"
        if scaled or scale == -1:
            return usual, f"√d_head by {hints.sidecar_name}"
        if self.facts.program is not None:
            return usual, f"√d_head, as in {self.facts.program}"
        return usual, "√d_head, which softmax means here; attn_scale in a config says another"

    def _shape(self, name: str) -> tuple[int, ...]:
        """The shape of a weight, of the first layer where there are several."""
        return self.weights[name if name in self.weights else f"0.{name}"].shape

    def _with(self, attention: tuple[float, ...], softmax: Softmax | None = None) -> Weights:
        """The model with this constant attention, and softmax added to it; widths are the weights' own."""
        weights = {name: array for name, array in self.weights.items() if softmax or own_name(name) not in QUERY_KEY}
        try:
            config = self._config(attention, softmax)
            if not any(own_name(name).startswith("ln") for name in weights):  # a norm without weights
                norms = {n: s for n, s in config.shapes.items() if own_name(n).startswith("ln")}
                weights |= {n: np.ones(s, np.float32) for n, s in norms.items() if n.endswith("_w")}
            return Weights.with_zero_biases(config, **weights)
        except QuadlensError as error:
            raise error.about(self.source) from None

    def _config(self, attention: tuple[float, ...], softmax: Softmax | None) -> Config:
        return Config(
            p=self.p,
            d_model=self._shape("W_E")[1],
            d_mlp=self._shape("W_in")[1],
            n_heads=self._shape("W_V")[0],
            d_head=self._shape("W_V")[2],
            d_vocab=self._shape("W_E")[0],
            d_vocab_out=self._shape("W_U")[1],
            n_ctx=self._shape("W_pos")[0],
            attention=attention,
            read_position=len(attention) - 1 if self.read_position is None else self.read_position,
            activation=self.activation,
            b_token_offset=self.b_token_offset,
            softmax=softmax,
            n_layers=self.layers,
            norms=self.norms,
        )


@dataclass(frozen=True, eq=False)
class Farthest:
    """The input and head on which attention is farthest from a reference.

    Attributes:
        a: First operand.
        b: Second operand.
        head: Head.
        gap: Largest difference of a weight there.
        weights: The weights there.
        reference: What they are compared with.
    """

    a: int
    b: int
    head: int
    gap: float
    weights: Float[np.ndarray, " positions"]
    reference: Float[np.ndarray, " positions"]

    def __str__(self) -> str:
        shown = ", ".join(f"{x:.4g}" for x in self.weights)
        return f"head {self.head} on a = {self.a}, b = {self.b} has the weights ({shown})"


def farthest(own: Weights, reference: Float[np.ndarray, " positions"] | None = None) -> Farthest:
    """Where the attention of `own` is farthest from `reference`, which is head 0 on a = 0, b = 0 when None."""
    tables, p = own.collapse(), own.config.p
    constant = np.array(own.config.attention)[:, None, None]
    worst = None
    for a in range(p):
        weights = tables.gates(np.full(p, a), np.arange(p)) + constant
        reference = weights[:, 0, 0] if reference is None else reference
        gap = np.abs(weights - reference[:, None, None]).max(axis=0)
        head, b = (int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape))
        if worst is None or gap[head, b] > worst.gap:
            worst = Farthest(a, b, head, float(gap[head, b]), weights[:, head, b], reference)
    if worst is None:
        raise BadConfig("no inputs: p is 0")
    return worst


def _shown(config: Config) -> str:
    """Attention as the notes show it."""
    constant = ", ".join(f"{x:.6g}" for x in config.attention)
    return constant if config.softmax is None else f"{config.softmax.scale:.6g} · softmax + ({constant})"
