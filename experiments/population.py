"""Put the lens's columns of the models that were trained again into the shipped population.

    python experiments/population.py

Reads `data/0_*.parquet`, one file per seed, and writes src/quadlens/data/population.parquet; what
is not measured is empty. The models are of the same seeds and settings, not the same bits: see
`quadlens.training.population.dataset`.
"""

import polars as pl

from data import measured_models
from quadlens.training.population.dataset import lens_schema, lens_values, schema, shipped_path


def main() -> None:
    """Every measured seed."""
    columns = list(lens_schema())
    found = []
    for model in measured_models(0):
        sha256 = model.values["proofs"]["moments"]["model_sha256"]
        found.append({"seed": model.values["seed"], **lens_values(model.values["lens"], sha256)})
    lens = pl.DataFrame(found, schema={"seed": pl.Int64, **lens_schema()})
    frame = pl.read_parquet(shipped_path())
    kept = frame.drop([name for name in columns if name in frame.columns])
    joined = kept.join(lens, on="seed", how="left", maintain_order="left").select(list(schema()))
    if not joined.drop(columns).equals(kept):
        raise RuntimeError("the other columns changed")
    joined.write_parquet(shipped_path(), compression="zstd", compression_level=19)
    print(f"{len(found)} of {len(frame)} models")


if __name__ == "__main__":
    main()
