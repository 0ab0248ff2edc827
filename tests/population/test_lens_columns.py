"""The lens's numbers, controls and chains as columns of a population."""

from pathlib import Path

import polars as pl
import pytest

import quadlens
from quadlens.errors import BadFile
from quadlens.population import dataset
from quadlens.population.lens_columns import failing, lens_counts, lens_schema, lens_table, lens_values


def test_columns_are_what_the_lens_says() -> None:
    lens = quadlens.lens("pizza")
    row = lens_values(lens.to_dict(), "a" * 64)
    assert row.keys() == lens_schema().keys()
    assert (row["lens_shared"], row["lens_integrates"]) == (lens.r2.shared, True)
    assert row["lens_key_frequencies"] == [5, 9, 11]
    assert failing(row) == []
    assert failing({**row, "lens_shared": 0.5, "lens_resampled_half": 0.95}) == ["shared", "resampled_half"]
    assert lens_values(None, "") == {}


def test_the_shipped_models_that_were_trained_again_have_them() -> None:
    frame = dataset.read(dataset.shipped_path())
    measured = frame.filter(pl.col("lens_shared").is_not_null())
    assert {79, 96} <= set(measured["seed"])
    everything, chains, others = lens_counts(frame)
    assert everything.models == len(measured) == chains.models + others.models
    # The rule fails for the first version's two failures, both with a key that is another's double.
    assert {79, 96} <= set(measured.filter(~pl.col("lens_integrates"))["seed"])
    for row in measured.iter_rows(named=True):
        assert row["lens_integrates"] == (not failing(row))
    assert lens_table((everything, chains, others)).to_markdown().count("\n") == 4
    rows = {row["seed"]: row for row in dataset.by_model(frame)}
    assert rows[96]["lens_chains"] == [[10, 20]]


def test_datasets_from_before_have_empty_columns(tmp_path: Path) -> None:
    old = tmp_path / "old.parquet"
    frame = dataset.read(dataset.shipped_path())
    frame.drop(list(lens_schema())).write_parquet(old)
    assert dataset.read(old).columns == frame.columns
    assert {one.models for one in lens_counts(dataset.read(old))} == {0}
    frame.drop("lens_shared").write_parquet(old)
    with pytest.raises(BadFile, match="not the dataset of a sweep of this version"):
        dataset.read(old)
