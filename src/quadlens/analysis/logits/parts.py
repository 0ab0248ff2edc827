"""The logits by parts of the network: which adds what, and what skips the neurons."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float, Int

from quadlens.analysis.spectrum.amplitude_phase import mean_squares
from quadlens.base.display import short
from quadlens.base.errors import BadConfig
from quadlens.network.activation import NONLINEARITIES, apply_activation
from quadlens.network.tables import FloatTables

# Floats in the largest block of hidden activations: a few megabytes stay in cache and never grow
# with p³.
BLOCK_FLOATS = 1 << 20


@short
@dataclass(frozen=True, eq=False)
class LogitPart:
    """One part of the logits, Y[a,b,c], reduced to what the analysis needs.

    Attributes:
        variance: Variance over all (a, b, c).
        profile: g_k(d), row by key: the least-squares coefficient of Y on cos(k w (a+b-c)) over the
            inputs with a - b ≡ d (mod p), g_k(d) = (2/p²) Σ_{a-b≡d} Σ_c Y[a,b,c] cos(k w (a+b-c)),
            half of it for a sign wave.
        mean_square: Mean of cos²(k w t), for each key: ½, or 1 for a sign wave.
    """

    variance: float
    profile: Float[np.ndarray, "K p"]
    mean_square: Float[np.ndarray, " K"]


@short
@dataclass(frozen=True, eq=False)
class LogitParts:
    """Every part of the logits of one model.

    Attributes:
        p: Modulus.
        keys: The key frequencies, in the order of the rows of each profile.
        shifts: δ_k of each key: its strength follows |cos(u + δ_k)|; 0 where a and b share their
            phases.
        all_logits: The logits themselves.
        mlp_output: Without the skip connection.
        abs_component: Only the even part of the activation, through W_L.
        identity_component: Only the odd part.
        skip: Only what passes by the neurons: the skip connection, or an output bias.
        skip_is_bias: Whether that is the same on every input: an MLP's output bias, and no skip
            connection.
        correct_logit: logit(a, b, a+b).
        correct: How many of the p² inputs the model answers right (ties are not right).
    """

    p: int
    keys: tuple[int, ...]
    shifts: tuple[float, ...]
    all_logits: LogitPart
    mlp_output: LogitPart
    abs_component: LogitPart
    identity_component: LogitPart
    skip: LogitPart
    correct_logit: Float[np.ndarray, "p p"]
    correct: int
    skip_is_bias: bool = False


class RunningVariance:
    """Variance of numbers that come in blocks, merged around the running mean.

    So a large mean costs no digits.
    """

    def __init__(self) -> None:
        self._count, self._mean, self._squares, self._largest = 0, 0.0, 0.0, 0.0

    def add(self, block: Float[np.ndarray, "*shape"]) -> None:
        """Take in a block.

        The squares around the two means add up, plus what the distance of the means makes.
        """
        mean = float(block.mean())
        merged = self._count + block.size
        shift = mean - self._mean
        self._squares += (
            float(np.square(block - mean).sum()) + shift**2 * self._count * block.size / merged
        )
        self._mean += shift * block.size / merged
        self._largest = max(self._largest, float(np.abs(block).max()))
        self._count = merged

    @property
    def variance(self) -> float:
        """The variance; what rounding leaves of equal numbers counts as zero."""
        variance = self._squares / self._count
        return variance if variance > 1e-28 * self._largest**2 else 0.0


def identity_matrices(
    collapsed: FloatTables,
) -> tuple[Float[np.ndarray, "p p"], Float[np.ndarray, "p p"]]:
    """Return A[c,a] = slope Σ_i W_L[c,i] U_a[a,i], and B[c,b] likewise.

    The odd part of the MLP is A[c,a] + B[c,b] exactly.
    """
    slope = NONLINEARITIES[collapsed.activation].odd_slope
    if slope is None:
        raise BadConfig(
            f"this model's activation is {collapsed.activation!r}, whose odd part is not linear; "
            "its logits cannot be taken apart into an even part and an identity part"
        )
    return slope * collapsed.W_L @ collapsed.U_a.T, slope * collapsed.W_L @ collapsed.U_b.T


def logit_parts(
    collapsed: FloatTables, keys: tuple[int, ...], shifts: tuple[float, ...] | None = None
) -> LogitParts:
    """Split the logits into parts in one pass over all p³.

    It takes a block of a's at a time, so that memory stays at a few p·(p + d_mlp) floats.

    Args:
        collapsed: The model.
        keys: Key frequencies.
        shifts: δ_k of each; zeros when None.
    """
    p = collapsed.p
    odd_a, odd_b = (matrix.T for matrix in identity_matrices(collapsed))
    rotate = _rotations(p, keys)
    spread = {name: RunningVariance() for name in ("all", "mlp", "abs")}
    waves = np.zeros((len(keys), p))
    correct_logit, correct = np.empty((p, p)), 0
    rows = max(1, BLOCK_FLOATS // (p * max(p, collapsed.d_mlp)))
    for start in range(0, p, rows):
        a = np.arange(start, min(start + rows, p))
        mlp = _mlp_output(collapsed, a)
        logits = mlp + collapsed.S_a[a][:, None] + collapsed.S_b
        even = mlp - odd_a[a][:, None] - odd_b
        for name, block in (("all", logits), ("mlp", mlp), ("abs", even)):
            spread[name].add(block)
        waves += _profile_sum(mlp, a, rotate)
        correct_logit[a], right = _right_answers(logits, a)
        correct += right
    power = mean_squares(p, np.array(keys, dtype=np.int64))
    profile_mlp = waves * (1 / p**2 / power)[:, None]
    profile_skip = _separable_profile(collapsed.S_a, collapsed.S_b, rotate, power)
    profile_odd = _separable_profile(odd_a, odd_b, rotate, power)
    return LogitParts(
        p=p,
        keys=keys,
        shifts=(0.0,) * len(keys) if shifts is None else shifts,
        all_logits=LogitPart(spread["all"].variance, profile_mlp + profile_skip, power),
        mlp_output=LogitPart(spread["mlp"].variance, profile_mlp, power),
        abs_component=LogitPart(spread["abs"].variance, profile_mlp - profile_odd, power),
        identity_component=LogitPart(_separable_variance(odd_a, odd_b), profile_odd, power),
        skip=LogitPart(_separable_variance(collapsed.S_a, collapsed.S_b), profile_skip, power),
        correct_logit=correct_logit,
        correct=correct,
        skip_is_bias=not has_skip_connection(collapsed),
    )


def has_skip_connection(collapsed: FloatTables) -> bool:
    """Whether what passes by the neurons depends on the input.

    An MLP has an output bias there, or nothing.
    """
    return bool(np.ptp(collapsed.S_a, axis=0).any() or np.ptp(collapsed.S_b, axis=0).any())


def _mlp_output(
    collapsed: FloatTables, a: Int[np.ndarray, " rows"]
) -> Float[np.ndarray, "rows p p"]:
    """Σ_i W_L[c,i] σ(U_a[a,i] + U_b[b,i]) as [a, b, c]."""
    pre = (collapsed.U_a[a][:, None] + collapsed.U_b).reshape(-1, collapsed.d_mlp)
    hidden = apply_activation(collapsed.activation, pre)
    return (hidden @ collapsed.W_L.T).reshape(len(a), collapsed.p, collapsed.p)


def _rotations(p: int, keys: tuple[int, ...]) -> Complex[np.ndarray, "K p"]:
    """Return e^{i k w x} for every key k and x in Z_p.

    k·x is reduced modulo p first, so that large p loses no digits.
    """
    turns = np.outer(np.array(keys, dtype=np.int64), np.arange(p)) % p
    return np.exp(2j * np.pi / p * turns)


def _profile_sum(
    block: Float[np.ndarray, "rows p p"],
    a: Int[np.ndarray, " rows"],
    rotate: Complex[np.ndarray, "K p"],
) -> Float[np.ndarray, "K p"]:
    """Σ_{a in block} Σ_c Y[a, a-d, c] cos(k w (a+b-c)), for each key and distance d."""
    p = block.shape[1]
    b = (a[:, None] - np.arange(p)) % p
    # Σ_c Y cos(k w (a+b-c)) = Re(e^{ikw(a+b)} Σ_c Y e^{-ikwc}); two real products are faster than
    # one complex one.
    flat = block.reshape(-1, p)
    cosine, sine = flat @ rotate.real.T, flat @ rotate.imag.T
    spectrum = (cosine - 1j * sine).reshape(len(a), p, -1)
    by_distance = np.take_along_axis(spectrum, b[:, :, None], axis=1)
    turned = np.moveaxis(rotate[:, (a[:, None] + b) % p], 0, -1) * by_distance
    return turned.real.sum(axis=0).T


def _separable_profile(
    from_a: Float[np.ndarray, "p p"],
    from_b: Float[np.ndarray, "p p"],
    rotate: Complex[np.ndarray, "K p"],
    power: Float[np.ndarray, " K"],
) -> Float[np.ndarray, "K p"]:
    """The profile of Y[a,b,c] = from_a[a,c] + from_b[b,c], in p² |K| operations.

    Σ_a Re(e^{ikw(2a-d)} X_k[a]) = Re(e^{-ikwd} Σ_a e^{2ikwa} X_k[a]), with X_k[a] = Σ_c from_a[a,c]
    e^{-ikwc}; for from_b, a = b + d turns e^{-ikwd} into e^{+ikwd}.
    """
    p = len(from_a)
    doubled = rotate**2
    sum_a = (doubled * (from_a @ rotate.conj().T).T).sum(axis=1)
    sum_b = (doubled * (from_b @ rotate.conj().T).T).sum(axis=1)
    return (rotate.conj() * sum_a[:, None] + rotate * sum_b[:, None]).real * (1 / p**2 / power)[
        :, None
    ]


def _right_answers(
    logits: Float[np.ndarray, "rows p p"], a: Int[np.ndarray, " rows"]
) -> tuple[Float[np.ndarray, "rows p"], int]:
    """logit(a, b, a+b), and for how many (a, b) it beats every other."""
    p = logits.shape[1]
    answer = (a[:, None] + np.arange(p)) % p
    chosen = np.take_along_axis(logits, answer[:, :, None], axis=2)
    as_large = (logits >= chosen).sum(axis=2)
    return chosen[:, :, 0], int((as_large == 1).sum())


def _separable_variance(
    from_a: Float[np.ndarray, "p p"], from_b: Float[np.ndarray, "p p"]
) -> float:
    """Return the variance of from_a[a,c] + from_b[b,c] over all (a, b, c).

    It is that of each around its token mean, and of the means.
    """
    mean_a, mean_b = from_a.mean(axis=0), from_b.mean(axis=0)
    return float(
        np.square(from_a - mean_a).mean()
        + np.square(from_b - mean_b).mean()
        + (mean_a + mean_b).var()
    )


def skip_shares(collapsed: FloatTables) -> Float[np.ndarray, "p p"]:
    """Var_c(S_a[a,c] + S_b[b,c]) / Var_c(logit(a,b,c)) for every (a, b)   (figure `residual`).

    An input whose logits are all equal counts as 0.
    """
    shares = np.zeros((collapsed.p, collapsed.p))
    for a in range(collapsed.p):
        of_skip = (collapsed.S_a[a] + collapsed.S_b).var(axis=1)
        of_logits = collapsed.logits(a).var(axis=1)
        np.divide(of_skip, of_logits, out=shares[a], where=of_logits > 0)
    return shares


@short
@dataclass(frozen=True, eq=False)
class IdentityMatrix:
    """One half of the identity component, A[c,x] = Σ_{k,l} F[k,l] e^{iw(kc+lx)}.

    See `sec:identity-component-relu` of the paper.

    Attributes:
        matrix: A[c,x], x the token a or b.
        fourier: F = DFT(A)/p², so that a wave D cos(kwc + lwx) + E sin(kwc + lwx) has F[k,l] = (D -
            iE)/2.
        keys: Key frequencies.
        D: Coefficient of cos(k w (c - 2x)), for each key.
        E: Coefficient of sin(k w (c - 2x)); small where the phases cover the circle.
        share: Share of A's variance that these 2|K| waves hold; None when A does not vary.
    """

    matrix: Float[np.ndarray, "p p"]
    fourier: Complex[np.ndarray, "p p"]
    keys: tuple[int, ...]
    D: Float[np.ndarray, " K"]
    E: Float[np.ndarray, " K"]
    share: float | None

    def largest_waves(self, count: int) -> tuple[tuple[int, int, float, float], ...]:
        """Return the largest waves A cos(kwc + lwx + θ) as (k, l, A, θ), without the constant.

        l runs from -(p-1)/2 to p/2.
        """
        p = len(self.matrix)
        half = p // 2
        # A is real, so F[-k,-l] is the conjugate of F[k,l]: half the plane holds every wave once.
        # For even p row p/2 is its own mirror image as row 0 is, and the waves that are their own
        # conjugates stand once, not twice.
        doubled = 2 * self.fourier[: half + 1]
        own_mirror_rows = [0] if p % 2 else [0, half]
        doubled[np.ix_(own_mirror_rows, own_mirror_rows)] /= 2
        size = np.abs(doubled)
        size[own_mirror_rows, half + 1 :] = size[0, 0] = -1.0
        order = np.argsort(-size, axis=None, kind="stable")[: min(count, int((size >= 0).sum()))]
        waves = []
        for k, column in zip(*np.unravel_index(order, size.shape), strict=True):
            wave = doubled[k, column]
            signed = int(column) if column <= half else int(column) - p
            waves.append((int(k), signed, float(abs(wave)), float(np.angle(wave))))
        return tuple(waves)


@short
@dataclass(frozen=True, eq=False)
class IdentityComponent:
    """The odd part of the MLP's output: logit_id(a,b,c) = A[c,a] + B[c,b].

    Attributes:
        of_a: A[c,a] = ½ Σ_i W_L[c,i] U_a[a,i]; the paper's `logit_id1` when the output is read at
            b.
        of_b: B[c,b] = ½ Σ_i W_L[c,i] U_b[b,i], with the residual stream's own copy of b and the
            biases.
    """

    of_a: IdentityMatrix
    of_b: IdentityMatrix

    @property
    def D(self) -> Float[np.ndarray, " K"]:
        """D_k of the two-term form: the halves' D add up.

        cos(kw(c-2a)) + cos(kw(c-2b)) = 2 cos 2u cos(kw(a+b-c)).
        """
        return self.of_a.D + self.of_b.D


def identity_component(collapsed: FloatTables, keys: tuple[int, ...]) -> IdentityComponent:
    """Both matrices with their 2-D Fourier form."""
    A, B = identity_matrices(collapsed)
    return IdentityComponent(_analyse(A, keys), _analyse(B, keys))


def _analyse(matrix: Float[np.ndarray, "p p"], keys: tuple[int, ...]) -> IdentityMatrix:
    p = len(matrix)
    fourier = np.fft.fft2(matrix) / p**2
    k = np.array(keys, dtype=np.int64)
    power = mean_squares(p, k)
    # A sign wave is its own conjugate: it stands once in the spectrum.
    wave = fourier[k, -2 * k % p] / power
    variance = float(matrix.var())
    share = float((power * np.square(np.abs(wave))).sum()) / variance if variance > 0 else None
    return IdentityMatrix(matrix, fourier, keys, wave.real, -wave.imag, share)
