"""What the lens says of each model, as columns of the dataset: the mechanism's number beside its controls, and chains.

The shipped population was trained before the lens had controls, and its weights were not kept. Its columns are of
models trained again from the same seeds on another machine: not the same bits, so `lens_sha256` says which model they
are of, and `lens_key_frequencies` which keys that one has. They are empty where a model has not been trained again.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from quadlens.integration import BROKEN, KEPT, LOST, STANDS_FOR_LOGITS
from quadlens.numbers import decimals
from quadlens.table import Table

if TYPE_CHECKING:
    import polars

R2 = ("shared", "joint", "symmetric_part", "ceiling")
CONTROLS = (
    *("shared_permuted", "resampled_even", "resampled_half"),
    *("residual", "residual_permuted", "spacing", "spacing_permuted"),
)


def lens_schema() -> dict[str, Any]:
    """Names and types."""
    import polars as pl

    numbers = dict.fromkeys((f"lens_{name}" for name in ("answers_right", *R2, *CONTROLS)), pl.Float64)
    keys = {"lens_key_frequencies": pl.List(pl.Int32), "lens_chains": pl.List(pl.List(pl.Int32))}
    return {"lens_sha256": pl.String, "lens_integrates": pl.Boolean, **numbers, **keys}


def lens_values(document: Mapping[str, Any] | None, sha256: str) -> dict[str, Any]:
    """The columns of one model, from the lens's JSON view; nothing where there is none."""
    if document is None:
        return {}
    values = {"answers_right": document["answers_right"], **document["r2"], **document["controls"]}
    return {
        "lens_sha256": sha256,
        "lens_integrates": document["integrates"],
        **{f"lens_{name}": values.get(name) for name in ("answers_right", *R2, *CONTROLS)},
        "lens_key_frequencies": sorted(row["k"] for row in document["clusters"]),
        "lens_chains": document["chains"],
    }


def failing(row: Mapping[str, Any]) -> list[str]:
    """The parts of the lens's rule that a model does not meet."""
    shared, permuted = row["lens_shared"], row["lens_shared_permuted"]
    parts = {
        "shared": shared >= STANDS_FOR_LOGITS,
        "shared_permuted": permuted <= shared - LOST,
        "resampled_even": row["lens_resampled_even"] >= KEPT,
        "resampled_half": row["lens_resampled_half"] < BROKEN,
    }
    return [name for name, holds in parts.items() if not holds]


@dataclass(frozen=True)
class LensCounts:
    """How many of some models integrate, and what they have in the middle.

    Attributes:
        words: Which models.
        models: How many were measured.
        integrate: How many meet the rule.
        shared: Median, and smallest.
        joint: The same with chains read as one function.
        permuted: Median of `shared` with output phases permuted.
        symmetric: Median of the symmetric part, which is no evidence.
        fails: How often each part of the rule fails.
    """

    words: str
    models: int
    integrate: int
    shared: tuple[float, float] | None
    joint: tuple[float, float] | None
    permuted: float | None
    symmetric: float | None
    fails: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """The JSON view."""
        return asdict(self)


def lens_counts(frame: "polars.DataFrame") -> tuple[LensCounts, ...]:
    """All measured models; with a chain of doubled keys, and without."""
    measured = [row for row in frame.iter_rows(named=True) if row.get("lens_shared") is not None]
    kinds: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
        ("all", lambda row: True),
        ("a key is another's double", lambda row: bool(row["lens_chains"])),
        ("no key is another's double", lambda row: not row["lens_chains"]),
    )
    return tuple(_counted(words, [row for row in measured if belongs(row)]) for words, belongs in kinds)


def _counted(words: str, rows: list[dict[str, Any]]) -> LensCounts:
    def middle(name: str) -> float | None:
        values = sorted(row[f"lens_{name}"] for row in rows if row[f"lens_{name}"] is not None)
        return values[(len(values) - 1) // 2] if values else None

    def both(name: str) -> tuple[float, float] | None:
        values = [row[f"lens_{name}"] for row in rows if row[f"lens_{name}"] is not None]
        found = middle(name)
        return None if found is None else (found, min(values))

    fails: dict[str, int] = {}
    for row in rows:
        for part in failing(row):
            fails[part] = fails.get(part, 0) + 1
    integrate = sum(bool(row["lens_integrates"]) for row in rows)
    numbers = both("shared"), both("joint"), middle("shared_permuted"), middle("symmetric_part")
    return LensCounts(words, len(rows), integrate, *numbers, fails)


def lens_table(found: tuple[LensCounts, ...]) -> Table:
    """One row for each kind of models."""
    header = ("models", "measured", "integrate", "shared: median, least", "read jointly", "permuted", "symmetric part")
    rows = [
        (
            one.words,
            str(one.models),
            str(one.integrate),
            *("–" if pair is None else ", ".join(map(decimals, pair)) for pair in (one.shared, one.joint)),
            *("–" if value is None else decimals(value) for value in (one.permuted, one.symmetric)),
        )
        for one in found
    ]
    return Table("the lens, of models trained again where the shipped ones' weights are not kept", header, rows)
