"""What Zhong et al. published of their models: quantiles of three measures by tenths of the attention rate."""

import json
from dataclasses import dataclass

from quadlens.network.bundled import data_directory

MEASURES = ("gradient_symmetricity", "distance_irrelevance", "circularity")
PUBLISHED = "attention_published.json"


@dataclass(frozen=True)
class PublishedBin:
    """What Zhong et al. published of the models with rates in one tenth.

    Attributes:
        low: Where the tenth begins; the last one includes 1.
        runs: How many models.
        quantiles: Measure → its quantiles 10, 25, 50, 75 and 90 %.
    """

    low: float
    runs: int
    quantiles: dict[str, tuple[float, ...]]


def published() -> tuple[PublishedBin, ...]:
    """The shipped quantiles, by tenths of the rate."""
    rows = json.loads((data_directory() / PUBLISHED).read_bytes())["bins"]
    return tuple(
        PublishedBin(
            row["attention_rate_from"],
            row["runs"],
            {name: tuple(row[f"{name}_q10_25_50_75_90"]) for name in MEASURES},
        )
        for row in rows
    )
