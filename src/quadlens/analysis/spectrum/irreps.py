"""Irreducible representations of a finite group from its Cayley table alone.

They are what frequencies are for a cyclic group.

Characters are the common eigenvectors of the class matrices (Burnside, Dixon): with c a class
function, the matrix M_c[j,k] = Σ_{y in class j} c(z_k y⁻¹) has the eigenvector ω_k = |C_k| χ(z_k)/d
for every irreducible character χ. One random c with c(x⁻¹) = conj c(x) separates all of them, and
in the coordinates ω_k/√|C_k| it is Hermitian, so that one eigendecomposition gives the whole table.
It is checked by orthogonality, whole dimensions and Σ d² = n.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Complex, Float, Int

from quadlens.analysis.spectrum.symmetric_groups import cycle_type, partitions, specht_character
from quadlens.base.display import short
from quadlens.base.errors import BadConfig
from quadlens.network.groups import elements_of
from quadlens.network.study import Study
from quadlens.network.task import Task

# How far rounding may leave characters from orthogonality and dimensions from integers.
TOLERANCE = 1e-6


@short
@dataclass(frozen=True, eq=False)
class Irrep:
    """A real irreducible part: a real irrep, or a complex one with its conjugate.

    Weights are real.

    Attributes:
        name: As `trivial`, `sign`, `standard`, `frequency 7`, or by dimension: `3d-a`.
        dimension: Of the real representation.
        complex_dimension: d of the irrep, or of either of the pair.
        rank: Dimension of the functions on the group that are in it: d², or 2 d² for a pair.
        character: χ by class, of the irrep or of one of the pair.
    """

    name: str
    dimension: int
    complex_dimension: int
    rank: int
    character: Complex[np.ndarray, " classes"]

    def weights(self, n: int) -> Float[np.ndarray, " classes"]:
        """(d/n) χ by class, χ and its conjugate added where they are a pair.

        n is the order of the group.
        """
        return self.character.real * (self.rank / (self.complex_dimension * n))


@dataclass(frozen=True, eq=False)
class Irreps:
    """All irreps of a group.

    Attributes:
        task: The group.
        inverse: x⁻¹ of each element.
        class_of: Number of the conjugacy class of each element.
        parts: Every irrep; the trivial one first, then by dimension.
    """

    task: Task
    inverse: Int[np.ndarray, " n"]
    class_of: Int[np.ndarray, " n"]
    parts: tuple[Irrep, ...]

    @cached_property
    def quotient_class(self) -> Int[np.ndarray, "n n"]:
        """Class of x y⁻¹, [x, y]."""
        return self.class_of[self.task.answers[:, self.inverse]]

    def projection(self, part: Irrep) -> Float[np.ndarray, "n n"]:
        """Return P[x,y] = (d/n) χ̄(x y⁻¹), the pair added up.

        It is the orthogonal projection of functions onto the part.
        """
        return part.weights(self.task.n)[self.quotient_class]

    def energies(self, gram: Float[np.ndarray, "n n"]) -> Float[np.ndarray, " parts"]:
        """Return ‖P f‖² summed over functions f whose Gram matrix Σ f f^T is given.

        It takes one pass over n² numbers for all parts.
        """
        classes = int(self.class_of.max()) + 1
        by_class = np.bincount(self.quotient_class.ravel(), weights=gram.ravel(), minlength=classes)
        # A projection's energy is not negative; rounding may be.
        return np.maximum([float(part.weights(self.task.n) @ by_class) for part in self.parts], 0.0)

    def shares(self, functions: Float[np.ndarray, "n columns"]) -> Float[np.ndarray, " parts"]:
        """Return the share of each part in the columns around their means.

        The trivial part, the mean itself, has share 0.
        """
        return self.shares_of_gram(functions @ functions.T)

    def shares_of_gram(self, gram: Float[np.ndarray, "n n"]) -> Float[np.ndarray, " parts"]:
        """`shares` of functions whose Gram matrix is given."""
        energies = self.energies(gram)
        energies[0] = 0.0
        total = float(energies.sum())
        return energies / total if total > 0 else energies


def find_irreps(task: Task) -> Irreps:
    """Every irrep of the group that a task is.

    Raises:
        BadConfig: when its table is not a group's.
    """
    if not task.is_group or task.identity is None:
        raise BadConfig(f"the task {task.name} ({task.words}) is no group, so it has no irreps")
    table = task.answers
    inverse = np.argmax(table == task.identity, axis=1)
    conjugates = table[table, inverse[:, None]]  # [y, x] → y x y⁻¹
    _, class_of = np.unique(conjugates.min(axis=0), return_inverse=True)
    characters = character_table(table, inverse, class_of)
    squares = class_of[table[np.arange(task.n), np.arange(task.n)]]
    parts: list[Irrep] = []
    for chi in characters:
        if any(np.allclose(chi.conj(), part.character, atol=TOLERANCE) for part in parts):
            continue
        d = round(chi[class_of[task.identity]].real)
        # Frobenius and Schur: 1 for a real irrep, 0 for one of a complex pair, -1 for a
        # quaternionic one.
        indicator = round(float(chi[squares].sum().real) / task.n)
        pair = 2 if indicator == 0 else 1
        parts.append(Irrep("", d if indicator == 1 else 2 * d, d, pair * d * d, chi))
    parts.sort(key=lambda part: (part.dimension, *(-np.round(part.character.real, 6)).tolist()))
    # The trivial part has the largest character everywhere, so that it is the first of dimension 1.
    irreps = Irreps(task, inverse, class_of, tuple(parts))
    named = _names(irreps)
    return replace(
        irreps,
        parts=tuple(replace(part, name=name) for part, name in zip(parts, named, strict=True)),
    )


def character_table(
    table: Int[np.ndarray, "n n"], inverse: Int[np.ndarray, " n"], class_of: Int[np.ndarray, " n"]
) -> Complex[np.ndarray, "classes classes"]:
    """One row per irreducible character, one column per class."""
    n, sizes = len(table), np.bincount(class_of)
    first = np.unique(class_of, return_index=True)[1]
    for seed in range(8):
        draw = np.random.default_rng(seed).standard_normal((2, len(sizes)))
        c = draw[0][class_of] + 1j * draw[1][class_of]
        c = c + c[inverse].conj()
        quotients = c[table[first[:, None], inverse]]  # [k, y] → c(z_k y⁻¹)
        M = np.stack([quotients[:, class_of == j].sum(axis=1) for j in range(len(sizes))])
        roots = np.sqrt(sizes)
        _, vectors = np.linalg.eigh(M * roots / roots[:, None])
        characters = (vectors / roots[:, None]).T
        at_one = characters[:, class_of[int(np.flatnonzero(table[0] == 0)[0])]]
        characters = characters * (np.sqrt(n) * np.abs(at_one) / at_one)[:, None]
        if _is_character_table(characters, sizes, np.sqrt(n) * np.abs(at_one)):
            return characters
    raise ArithmeticError("the characters of this group could not be separated numerically")


def _is_character_table(
    characters: Complex[np.ndarray, "classes classes"],
    sizes: Int[np.ndarray, " classes"],
    dimensions: Float[np.ndarray, " classes"],
) -> bool:
    """Orthonormal rows, whole dimensions at least 1, and Σ d² = n."""
    n = int(sizes.sum())
    products = (characters * sizes) @ characters.conj().T / n
    whole = np.round(dimensions)
    return bool(
        np.abs(products - np.eye(len(sizes))).max() < TOLERANCE
        and np.abs(dimensions - whole).max() < TOLERANCE
        and whole.min() >= 1
        and int(np.square(whole).sum()) == n
    )


def _names(irreps: Irreps) -> list[str]:
    """Usual names where there are any, the dimension and a letter where there are none."""
    names = _usual_names(irreps)
    signs = [i for i, part in enumerate(irreps.parts) if part.dimension == 1 and i > 0]
    names |= {0: "trivial"} | ({signs[0]: "sign"} if len(signs) == 1 else {})
    counts: dict[int, int] = {}
    for i, part in enumerate(irreps.parts):
        if i not in names:
            counts[part.dimension] = counts.get(part.dimension, 0) + 1
            names[i] = f"{part.dimension}d-{_letters(counts[part.dimension])}"
    return [names[i] for i in range(len(irreps.parts))]


def _letters(count: int) -> str:
    """1 → a, 26 → z, 27 → aa.

    >>> _letters(1), _letters(28)
    ('a', 'ab')
    """
    letters = ""
    while count:
        count, rest = divmod(count - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return letters


def _usual_names(irreps: Irreps) -> dict[int, str]:
    """Name irreps by their elements: frequencies of C_n and D_n, partitions of S_n and A_n."""
    task, n = irreps.task, irreps.task.n
    expected: dict[str, Float[np.ndarray, " n"]] = {}
    if task.cyclic is not None:
        # The renumbering that frequencies are of, from the identity on: an isomorphism to addition.
        power = (task.cyclic.of_c - task.cyclic.of_c[task.identity or 0]) % n
        expected = {
            f"frequency {k}": np.cos(2 * np.pi * k * power / n) for k in range(1, (n + 1) // 2)
        }
    elif task.name.startswith("D") and task.name[1:].isdigit() and n == 2 * int(task.name[1:]):
        turns = np.arange(n // 2)
        expected = {
            f"frequency {k}": np.concatenate(
                [2 * np.cos(4 * np.pi * k * turns / n), np.zeros(n // 2)]
            )
            for k in range(1, (n // 2 + 1) // 2)
        }
    else:
        elements = elements_of(task.name, task.answers)
        if elements is not None:
            degree = len(elements[0])
            types = [cycle_type(element) for element in elements]
            for shape in partitions(degree):
                values = {kind: float(specht_character(shape, kind)) for kind in set(types)}
                expected[_partition_name(shape, values[(1,) * degree])] = np.array(
                    [values[kind] for kind in types]
                )
    characters = [part.character.real[irreps.class_of] for part in irreps.parts]
    return {
        i: name
        for name, character in reversed(expected.items())
        for i, part_character in enumerate(characters)
        if np.allclose(part_character, character, atol=TOLERANCE)
    }


def _partition_name(shape: tuple[int, ...], dimension: float) -> str:
    degree = sum(shape)
    usual = {
        (1,) * degree: "sign",
        (2,) + (1,) * (degree - 2): "standard-sign",
        (degree - 1, 1): "standard",
        (degree,): "trivial",
    }
    return usual.get(shape, f"{int(dimension)}d ({','.join(map(str, shape))})")


def irreps_of(study: Study) -> Irreps | None:
    """Return the irreducible parts of the task's group; None for a cyclic one and for no group.

    A cyclic group has frequencies.
    """
    task = study.config.need_pairs().task
    return find_irreps(task) if task.cyclic is None and task.is_group else None
