"""What happened while a model was trained: losses, accuracies, frequencies."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from quadlens.analysis.spectrum.amplitude_phase import amplitude_phase
from quadlens.base.errors import BadFile
from quadlens.base.reading import record_input
from quadlens.network.weights import Weights

if TYPE_CHECKING:
    import polars as pl

POWER_COLUMNS = ("input_power", "output_power")
CURVE_COLUMNS = ("epoch", "train_loss", "train_accuracy", "validation_loss", "validation_accuracy")


@dataclass(frozen=True, eq=False)
class History:
    """Rows recorded during a run; every row describes the weights before the step with that index.

    Attributes:
        curves: One row per recorded epoch, columns `CURVE_COLUMNS` (NaN where there are no
            validation pairs).
        spectrum_epochs: Epochs at which the collapsed spectrum was recorded.
        input_power: Σ_i A_k² of (U_a + U_b)/2, one row per epoch, column k-1; gates of softmax at
            their means.
        output_power: Σ_i A_k² of W_L, likewise.
    """

    curves: Float[np.ndarray, "rows 5"]
    spectrum_epochs: Int[np.ndarray, " spectra"]
    input_power: Float[np.ndarray, "spectra half"]
    output_power: Float[np.ndarray, "spectra half"]

    def curve_frame(self) -> "pl.DataFrame":
        """Learning curves, one row a recorded epoch."""
        import polars as pl

        frame = pl.DataFrame({name: self.curves[:, i] for i, name in enumerate(CURVE_COLUMNS)})
        return frame.with_columns(pl.col("epoch").cast(pl.Int64))

    def spectrum_frame(self) -> "pl.DataFrame":
        """Frequencies over training, one row per epoch and frequency."""
        import polars as pl

        spectra, half = self.input_power.shape
        return pl.DataFrame(
            {
                "epoch": np.repeat(self.spectrum_epochs, half),
                "k": np.tile(np.arange(1, half + 1), spectra),
                "input_power": self.input_power.ravel(),
                "output_power": self.output_power.ravel(),
            }
        )


@dataclass
class Recorder:
    """Collects the rows of a `History` during a run."""

    half: int
    curves: list[tuple[float, ...]] = field(default_factory=list)
    spectra: list[tuple[int, Float[np.ndarray, " half"], Float[np.ndarray, " half"]]] = field(
        default_factory=list
    )

    @classmethod
    def continuing(cls, history: History, every: int) -> "Recorder":
        """Continue `history` without its last step, unless it is one of `every` epochs."""
        recorder = cls(half=history.input_power.shape[1])
        recorder.curves = [tuple(row) for row in history.curves.tolist() if row[0] % every == 0]
        spectra = zip(
            history.spectrum_epochs.tolist(), history.input_power, history.output_power, strict=True
        )
        recorder.spectra = list(spectra)
        return recorder

    def add_spectrum(self, epoch: int, model: Weights) -> None:
        """Record the power of every frequency, summed over neurons.

        A task without frequencies has none to record.
        """
        if model.config.task.cyclic is None:
            return
        layer = model.collapse()
        collapsed = (layer if layer.is_additive else layer.with_mean_gates()).as_addition()
        reads = amplitude_phase((collapsed.U_a + collapsed.U_b) / 2).amplitude
        writes = amplitude_phase(collapsed.W_L).amplitude
        self.spectra.append((epoch, np.square(reads).sum(axis=1), np.square(writes).sum(axis=1)))

    def history(self) -> History:
        """The rows so far."""
        return History(
            curves=np.array(self.curves, dtype=float).reshape(-1, len(CURVE_COLUMNS)),
            spectrum_epochs=np.array([epoch for epoch, _, _ in self.spectra], dtype=np.int64),
            input_power=np.array([power for _, power, _ in self.spectra]).reshape(-1, self.half),
            output_power=np.array([power for _, _, power in self.spectra]).reshape(-1, self.half),
        )


def read_history(curves: Path, spectrum: Path) -> History:
    """A history from the two Parquet files that a run wrote."""
    import polars as pl

    try:
        record_input(curves)
        record_input(spectrum)
        curve_frame, spectrum_frame = pl.read_parquet(curves), pl.read_parquet(spectrum)
        epochs = spectrum_frame["epoch"].unique().sort()
        power = {
            name: spectrum_frame[name].to_numpy().reshape(len(epochs), -1 if len(epochs) else 0)
            for name in POWER_COLUMNS
        }
        return History(
            curve_frame.select(CURVE_COLUMNS).to_numpy().astype(float), epochs.to_numpy(), **power
        )
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise BadFile(f"{curves} and {spectrum} are not the history of a run: {error}") from None
