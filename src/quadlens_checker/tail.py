"""From attention's output to logits on a box, by affine forms in integers over 2^Q.

That is norm, MLP, norm and logits.

A form (c, a, e) stands for every c + Σ_k a_k ε_k + η with |ε_k| ≤ 1, the same in all forms of a
box, and |η| ≤ e. Sums keep what forms share; a product or a curve adds what it cannot share to e.
Every rounding down of c or an a_k is below one unit, and is in e.
"""

from dataclasses import dataclass, field
from functools import cached_property
from operator import mul, sub
from typing import NamedTuple

from quadlens_checker import limits
from quadlens_checker.curves import Line, Q, activation, inverse_root
from quadlens_checker.matrices import Rows, largest
from quadlens_checker.reading import Clock, require
from quadlens_checker.sequence_file import Network
from quadlens_checker.sequence_tables import P, SequenceTables, at_bits

OF_TAIL = (
    *("b_O", "ln2_w", "ln2_b", "W_in", "b_in", "W_gate", "b_gate", "W_out", "b_out"),
    *("ln_final_w", "ln_final_b", "W_U", "b_U"),
)
Box = list[tuple[int, int]]  # of each coordinate: centre and radius, over 2^Q


class AffineForm(NamedTuple):
    """c + Σ_k a_k ε_k ± e."""

    c: int
    a: list[int]
    e: int

    @property
    def radius(self) -> int:
        """No value is further from c."""
        return sum(map(abs, self.a)) + self.e

    def line(self, line: Line) -> "AffineForm":
        """A curve of this form, by α (x - p) + v ± δ on its range."""
        slope, p, v, delta = line
        a = [slope * x >> Q for x in self.a]
        return AffineForm(
            (slope * (self.c - p) >> Q) + v, a, (abs(slope) * self.e >> Q) + delta + len(a) + 2
        )

    def times(self, other: "AffineForm") -> "AffineForm":
        """(c + x)(d + y) = c d + c y + d x + x y, and |x y| is at most the product of the radii."""
        (c, a, e), (d, b, f) = self, other
        products = [(c * y + d * x) >> Q for x, y in zip(a, b, strict=True)]
        error = (abs(c) * f + abs(d) * e + self.radius * other.radius >> Q) + len(a) + 2
        return AffineForm(c * d >> Q, products, error)

    def plus(self, constant: int) -> "AffineForm":
        """A constant more, itself rounded by less than 2."""
        return AffineForm(self.c + constant, self.a, self.e + 2)


def mean_square(forms: list[AffineForm], n: int, eps: int) -> tuple[AffineForm, int, int]:
    """Return the mean of squares plus eps, with its range.

    (c + x)² = c² + 2 c x + x², 0 ≤ x² ≤ r², r the radius. The squares are added up, over n.
    """
    radii = [form.radius for form in forms]
    half = sum(r * r for r in radii) // 2 + 1
    c = (sum(x.c * x.c for x in forms) + half) // (n << Q) + eps
    a = [
        2 * sum(map(mul, (x.c for x in forms), column)) // (n << Q)
        for column in zip(*(x.a for x in forms), strict=True)
    ]
    e = (2 * sum(abs(x.c) * x.e for x in forms) + half) // (n << Q) + len(a) + 3
    square = AffineForm(c, a, e)
    least = (
        sum(max(abs(x.c) - r, 0) ** 2 for x, r in zip(forms, radii, strict=True)) // (n << Q) + eps
    )
    most = sum((abs(x.c) + r) ** 2 for x, r in zip(forms, radii, strict=True)) // (n << Q) + eps + 2
    return square, max(c - square.radius, least), min(c + square.radius, most)


class Direction(NamedTuple):
    """A direction v of the stream after the MLP, over 2^P, and what is written into it.

    Attention and MLP write into it, over 2^Q.

    basis: B_k · v; neurons: W_out · v and its sizes; bias: b_out · v; rest: Σ_i |v_i| rest_i, the
    radius of `SequenceTables.rest`, and `ReadDirections.slack`.
    """

    v: list[int]
    basis: list[int]
    neurons: list[int]
    sizes: list[int]
    bias: int
    rest: int


class CentredBox(NamedTuple):
    """A box: the centres and the radii of its coordinates, over 2^Q."""

    centres: list[int]
    radii: list[int]

    @classmethod
    def of(cls, box: Box) -> "CentredBox":
        return cls([centre for centre, _ in box], [radius for _, radius in box])


class Written(NamedTuple):
    """The neurons on a box: centres, coefficients by symbol, errors, and Σ (|c| + radius)."""

    centres: list[int]
    coefficients: list[list[int]]
    errors: list[int]
    size: int


class Undecided(Exception):
    """The box is too large to divide by a norm."""


@dataclass(frozen=True, eq=False)
class Tail:
    """The network behind attention, for one position and its own token.

    base: the stream there, and the middle of what no coordinate has, over 2^P.
    """

    parts: "ReadDirections"
    base: list[int]
    places: dict[int, int] = field(
        default_factory=dict
    )  # base · v over 2^Q by the direction's identity

    def read(self, direction: Direction, ends: "CentredBox") -> AffineForm:
        """The product x · v for the stream x before the MLP."""
        key = id(direction)
        if key not in self.places:
            self.places[key] = sum(map(mul, self.base, direction.v)) >> (2 * P - Q)
        c = self.places[key] + (sum(map(mul, direction.basis, ends.centres)) >> Q)
        return AffineForm(
            c, [n >> Q for n in map(mul, direction.basis, ends.radii)], direction.rest
        )

    def neurons(self, ends: "CentredBox") -> list[AffineForm]:
        """Return each neuron's output."""
        parts, network = self.parts, self.parts.network
        scale = (
            self.scale("mlp", [self.read(v, ends) for v in parts.axes["mlp"]])
            if network.norms["mlp"]
            else None
        )

        def into(name: str) -> list[AffineForm]:
            forms = [(self.read(v, ends), bias) for v, bias in parts.into[name]]
            return [(x.times(scale) if scale else x).plus(bias) for x, bias in forms]

        def active(x: AffineForm) -> AffineForm:
            radius = x.radius
            return x.line(activation(network.activation, x.c - radius, x.c + radius))

        if not network.gated:
            return [active(x) for x in into("in")]
        return [active(x).times(y) for x, y in zip(into("gate"), into("in"), strict=True)]

    def scale(self, place: str, forms: list[AffineForm]) -> AffineForm:
        """1/√(mean square + eps)."""
        norm = self.parts.network.norms[place]
        over, eps = (norm.over(len(forms)), norm.eps_at(Q)) if norm else (len(forms), 0)
        square, low, high = mean_square(forms, over, eps)
        if low <= 0:
            raise Undecided
        return square.line(inverse_root(low, max(low, high)))


@dataclass(frozen=True, eq=False)
class TailOnBox:
    """A tail on one box: its neurons and its final norm's factor.

    Every difference of logits follows from these.
    """

    tail: Tail
    box: Box

    @cached_property
    def ends(self) -> CentredBox:
        """The box by centres and radii."""
        return CentredBox.of(self.box)

    @cached_property
    def written(self) -> Written | None:
        """Return the neurons' output; None without neurons."""
        if not self.tail.parts.network["d_mlp"]:
            return None
        hidden = self.tail.neurons(self.ends)
        coefficients = [list(a) for a in zip(*(x.a for x in hidden), strict=True)]
        size = sum(abs(x.c) + x.radius for x in hidden)
        return Written([x.c for x in hidden], coefficients, [x.e for x in hidden], size)

    def after(self, direction: Direction) -> AffineForm:
        """The product x · v for the stream x after the MLP."""
        form, written = self.tail.read(direction, self.ends), self.written
        if written is None:
            return form
        neurons = direction.neurons
        c = form.c + direction.bias + (sum(map(mul, neurons, written.centres)) >> Q)
        a = [
            x + (sum(map(mul, neurons, column)) >> Q)
            for x, column in zip(form.a, written.coefficients, strict=True)
        ]
        lost = sum(map(mul, direction.sizes, written.errors)) + 2 * written.size
        return AffineForm(c, a, form.e + (lost >> Q) + len(a) + 3)

    @cached_property
    def factor(self) -> AffineForm | None:
        """Return the factor of the final norm; None without a norm."""
        if self.tail.parts.network.norms["final"] is None:
            return None
        return self.tail.scale("final", [self.after(v) for v in self.tail.parts.axes["final"]])

    def lead(
        self, token: int, other: int, plane: AffineForm | None = None, floor: int | None = None
    ) -> tuple[int, AffineForm]:
        """No more than logit(token) - logit(other) on the whole box, and the form it comes from.

        Or, where that is more, no more than the same less a plane. The product with the final
        norm's factor is not formed where the ends of both show `floor` already.
        """
        direction, bias = self.tail.parts.lead(token, other)
        form, scale = self.after(direction), self.factor
        low = form.c - form.radius
        if scale is not None:
            natural = low * (scale.c - scale.radius if low >= 0 else scale.c + scale.radius) >> Q
            if plane is None and floor is not None and natural + bias - 1 >= floor:
                return natural + bias - 1, form
            form = form.times(scale)
            low = max(natural, form.c - form.radius)
        if plane is not None:
            form = AffineForm(form.c - plane.c, list(map(sub, form.a, plane.a)), form.e + plane.e)
            low = max(low, form.c - form.radius)
        return low + bias - 1, form


@dataclass(frozen=True, eq=False)
class ReadDirections:
    """The directions that norms, neurons and logits read, and the basis attention writes in.

    Directions are over 2^P. Weights of the tail are below 2^24 and known to one unit, so that a
    direction, a difference of weights times another and less its mean, is known to 2^27 units in
    each entry: 2^-133. Widths are below 2^12, and streams, reach and the radius of
    `SequenceTables.rest` below 2^40: then x · v is off by less than 2^-81, and so are the rest's
    share of it, W_out · v, B · v and constants.
    """

    tables: SequenceTables
    known: dict[tuple[int, int], tuple[Direction, int]] = field(default_factory=dict)

    @property
    def network(self) -> Network:
        return self.tables.network

    @cached_property
    def weights(self) -> dict[str, Rows]:
        """The weights over 2^P, rounded down."""
        require(max(self.network.sizes.values()) < 1 << 12, "a width of 2^12 or more")
        require(
            all(largest(b) < 1 << (self.tables.basis_bits + 10) for b in self.tables.basis),
            "a basis beyond 2^10",
        )
        tensors = {
            name: self.network.tensors[name] for name in OF_TAIL if name in self.network.tensors
        }
        require(
            all(largest(x) < 1 << (shift + 24) for x, shift in tensors.values()),
            "a weight beyond 2^24",
        )
        return {
            name: [at_bits(row, shift, P) for row in values]
            for name, (values, shift) in tensors.items()
        }

    @cached_property
    def basis(self) -> Rows:
        """B of all heads over 2^P."""
        return [
            at_bits(row, self.tables.basis_bits, P) for basis in self.tables.basis for row in basis
        ]

    @cached_property
    def reach(self) -> list[int]:
        """No coordinate is larger in size, over 2^Q."""
        reach = []
        for basis, head in zip(self.tables.basis, self.tables.coordinates, strict=True):
            sizes = [[abs(x) + e for x in row] for at in head for row, e in at.values()]
            reach += [(max(column) >> (P - Q)) + 1 for column in zip(*sizes, strict=True)][
                : len(basis)
            ]
        require(max(reach, default=0) < 1 << (Q + 40), "coordinates beyond 2^40")
        return reach

    @cached_property
    def slack(self) -> int:
        """Units that reading a direction on a box within `reach` can lose by rounding."""
        return 8 + sum(2 * (most >> Q) + 4 for most in self.reach)

    def check(self) -> None:
        """Refuse weights and coordinates that are too large for what is said above."""
        _ = self.weights, self.reach

    def at(self, query: int, token: int) -> Tail:
        """Return the tail of a position that holds a token.

        Its stream includes attention's bias and what no coordinate has.
        """
        middle, radius = self.tables.rest
        base = list(
            map(
                sum,
                zip(self.tables.streams[query][token], self.weights["b_O"][0], middle, strict=True),
            )
        )
        require(largest([base, radius]) < 1 << (P + 40), "a stream beyond 2^40")
        return Tail(self, base)

    def direction(self, place: str | None, v: list[int]) -> Direction:
        """Return a direction, less its mean where the norm at `place` subtracts the mean."""
        norm = self.network.norms[place] if place else None
        if norm and norm.takes_mean:
            mean = sum(v) // len(v)
            v = [x - mean for x in v]

        def along(rows: Rows) -> list[int]:
            return [sum(map(mul, v, row)) >> (2 * P - Q) for row in rows]

        neurons = along(self.weights["W_out"]) if self.network["d_mlp"] else []
        bias = along(self.weights["b_out"])[0] if self.network["d_mlp"] else 0
        rest = (sum(map(mul, map(abs, v), self.tables.rest[1])) >> (2 * P - Q)) + self.slack
        return Direction(v, along(self.basis), neurons, [abs(x) + 1 for x in neurons], bias, rest)

    @cached_property
    def axes(self) -> dict[str, list[Direction]]:
        """The entries of the stream, as the norms before the MLP and at the end square them."""
        d = self.network["d_model"]
        unit = [[(i == j) << P for i in range(d)] for j in range(d)]
        return {place: [self.direction(place, v) for v in unit] for place in ("mlp", "final")}

    def read_by(self, place: str, W: Rows, b: list[int], norm: str) -> list[tuple[Direction, int]]:
        """For each column of W, return the direction read behind a norm, and its constant.

        The constant is over 2^Q.
        """
        read, normed = [], self.network.norms[place] is not None
        for n, column in enumerate(zip(*W, strict=True)):
            v, constant = list(column), b[n]
            if normed:
                constant += sum(map(mul, self.weights[f"{norm}_b"][0], v)) >> P
                v = [x * w >> P for x, w in zip(v, self.weights[f"{norm}_w"][0], strict=True)]
            read.append((self.direction(place, v), constant >> (P - Q)))
        return read

    @cached_property
    def into(self) -> dict[str, list[tuple[Direction, int]]]:
        """Return the directions that neurons (`in`) and their gates (`gate`) read."""
        names = ("in", "gate") if self.network.gated else ("in",) if self.network["d_mlp"] else ()
        return {
            name: self.read_by(
                "mlp", self.weights[f"W_{name}"], self.weights[f"b_{name}"][0], "ln2"
            )
            for name in names
        }

    def lead(self, token: int, other: int) -> tuple[Direction, int]:
        """Return the direction of logit(token) - logit(other) behind the final norm.

        Its constant comes with it.
        """
        if (token, other) not in self.known:
            W = [[row[token] - row[other]] for row in self.weights["W_U"]]
            b = [self.weights["b_U"][0][token] - self.weights["b_U"][0][other]]
            (self.known[token, other],) = self.read_by("final", W, b, "ln_final")
        return self.known[token, other]


class HalfSpace(NamedTuple):
    """The points with sign · (Σ_k g_k r_k - end) ≥ 0; g and end are over 2^bits."""

    slope: list[int]
    end: int
    bits: int
    sign: int

    def on(self, box: Box) -> AffineForm:
        """Return the form of sign · (Σ_k g_k r_k - end) on a box.

        Every entry is rounded down, by less than one.
        """
        g, bits = [self.sign * x for x in self.slope], self.bits
        c = (sum(x * c for x, (c, _) in zip(g, box, strict=True)) >> bits) - (
            self.sign * self.end << Q >> bits
        )
        return AffineForm(
            c, [x * r >> bits for x, (_, r) in zip(g, box, strict=True)], len(box) + 2
        )


def proved(
    tail: Tail,
    box: Box,
    right: frozenset[int],
    margin: int | None,
    clock: Clock,
    side: HalfSpace | None = None,
) -> bool:
    """Say whether one right token leads all others by `margin` on all of a box.

    With `side`, on the box's part on one side of a hyperplane.

    Without a margin: whether some other token leads every right one. A box that does not show it is
    cut in two, where the form that says least has most; MAX_CUTS at most. Margins are over 2^Q.
    """
    tokens = range(tail.parts.network["d_vocab_out"])
    others = [token for token in tokens if token not in right]
    first, second, floor = (
        (sorted(right), others, margin) if margin is not None else (others, sorted(right), 1)
    )
    boxes = [box]
    if not first or not second:
        return not second
    for _ in range(limits.MAX_CUTS):
        if not boxes:
            return True
        clock(0)
        here = boxes.pop()
        plane = side.on(here) if side else None
        if plane and plane.c + plane.radius < 0:
            continue
        cut = undecided(tail, here, first, second, floor, plane)
        if cut is None:
            continue
        c, r = here[cut] if here else (0, 0)
        if r <= 1:
            return False
        half = (r + 1) // 2
        boxes += [
            [*here[:cut], (c + side * (r - half), half), *here[cut + 1 :]] for side in (-1, 1)
        ]
    return False


def undecided(
    tail: Tail,
    box: Box,
    first: list[int],
    second: list[int],
    floor: int,
    plane: AffineForm | None = None,
) -> int | None:
    """Return None where one of the first tokens leads all of the second by `floor`.

    Otherwise return the coordinate to cut.

    With a plane f only points with f ≥ 0 matter, and a lead of f + floor on the whole box is
    enough.
    """
    best: tuple[int, AffineForm] | None = None
    try:
        pieces = TailOnBox(tail, box)
        for token in first:
            leads = (pieces.lead(token, other, plane, floor) for other in second)
            least, form = min(leads, key=lambda lead: lead[0])
            if least >= floor:
                return None
            if best is None or least > best[0]:
                best = least, form
    except Undecided:
        pass
    # Where most of a form is what it cannot share, its slopes do not say what to cut: a width is
    # what makes that small.
    radii, sizes = [r for _, r in box], list(map(abs, best[1].a)) if best else []
    cut = sizes.index(max(sizes)) if best and sum(sizes) > best[1].e else None
    return cut if cut is not None and radii[cut] > 1 else radii.index(max(radii)) if radii else 0
