#!/usr/bin/env python3
"""Train and measure the registered models, one after another; nothing that is done is done again.

    python experiments/run.py [--until HH:MM] [--only 1,2,3] [--keep DIR]
    python experiments/run.py --only 0          # the 151 models of the population, trained again
    python experiments/run.py --only 0 --kept --proofs   # prove again what has been measured

Every model becomes one Parquet file in experiments/data/: a row per neuron, and the model's own
values as JSON (zlib, base64) in the file's metadata under `model`: `experiments/data.py` reads
both. A file is written whole or not at all. The weights stay in DIR; an analysis that was
interrupted goes on from there.
"""

import argparse
import base64
import dataclasses
import datetime
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import quadlens
from data import read
from ladder import ladder
from lens_swap import swap_activations
from noise_bounds import bounds as term_bounds
from product_waves import added_products, measured, plane_of, product_part
from quadlens.analysis.infinite_width.inputs import inputs_of
from quadlens.analysis.infinite_width.waves import plane_spectrum
from quadlens.analysis.logits.algorithm import algorithm_measures, right_logits
from quadlens.analysis.parameterisation import parameterise
from quadlens.analysis.quadrature.views import to_json as bounds_to_json
from quadlens.analysis.spectrum.of_study import no_waves
from quadlens.base.schema import plain
from quadlens.network.study import Study, study_of
from quadlens.network.tables import FloatTables
from quadlens.proofs.pairs.certificate import summary
from quadlens.training.config import load_config
from quadlens.training.outputs import snapshot_epochs
from quadlens.training.train import Hooks, train

EPOCHS, LONG, SNAPSHOTS = 3000, 10_000, 12
DATA = Path(__file__).parent / "data"
# The bundled clock's coefficients of product waves in g, over that of its sum waves
# (registered/4_product_waves.md).
CLOCK_PRODUCTS = (0.1619 + 0j, -0.0468 + 0j)
# Harmonics of a neuron's pre-activation that are kept, in units of its cluster's frequency.
HARMONICS = ((1, 0), (0, 1), (2, 0), (0, 2), (3, 0), (0, 3), (4, 0), (0, 4), (1, 1), (1, -1))
# Bits after the leading one that are kept of harmonics; of phases and weights all 23.
KEPT_BITS = 12
GATE_WAVES = 8
# Terms of the noise expansion that are kept, of each complexity.
TERMS = 16


@dataclasses.dataclass(frozen=True)
class Run:
    """One model to train."""

    experiment: int
    preset: str
    p: int
    d_mlp: int
    seed: int
    epochs: int = EPOCHS

    @property
    def name(self) -> str:
        """Its file, without the ending."""
        longer = "" if self.epochs == EPOCHS else f"_e{self.epochs}"
        return f"{self.experiment}_{self.preset}_p{self.p}_d{self.d_mlp}_s{self.seed}{longer}"

    @property
    def removes(self) -> bool:
        """Whether product waves are taken away from it."""
        return self.experiment == 1 and self.p in (61, 67)

    @property
    def adds(self) -> bool:
        """Whether product waves are put into it."""
        return self.experiment == 2 and self.seed <= 160


def registered() -> list[Run]:
    """All models in the order in which they are made: in turns of the experiments 2, 1, 3."""
    order = [Run(2, "paper", 59, 512, seed) for seed in range(151, 161)]
    two = iter([Run(2, "paper", 59, 512, seed, LONG) for seed in range(161, 211)])
    one = iter([Run(1, "zhong", p, 512, seed) for seed in range(10) for p in (61, 67, 71)])
    widths = (128, 256, 64, 1024, 512, 2048)
    three = iter([Run(3, "paper", 59, width, seed) for seed in range(400, 405) for width in widths])
    turns: list[Iterator[Run]] = [one, two, three]
    while len(order) < 120:
        order += [run for turn in turns if (run := next(turn, None)) is not None]
    return order


def population() -> list[Run]:
    """List the 151 models of the shipped population, which `--only 0` makes again."""
    return [Run(0, "paper", 59, 512, seed, LONG) for seed in range(151)]


def model_of(run: Run, keep: Path) -> tuple[Path, float | None, list[dict[str, Any]]]:
    """The trained weights, how long it took, and what snapshots of experiment 3 say."""
    path = keep / f"{run.name}.safetensors"
    said = path.with_suffix(".json")
    if path.is_file() and said.is_file():
        known = json.loads(said.read_text())
        return path, known["seconds"], known["snapshots"]
    config = load_config(
        run.preset, flags={"p": run.p, "d_mlp": run.d_mlp, "seed": run.seed, "epochs": run.epochs}
    )
    moments: list[dict[str, Any]] = []
    hooks = Hooks()
    if run.experiment == 3:
        hooks = Hooks(
            snapshots=snapshot_epochs(SNAPSHOTS, run.epochs),
            on_snapshot=lambda epoch, models: moments.append(
                {"epoch": epoch, "clusters": rules(study_of(models[0]))}
            ),
        )
    began = time.perf_counter()
    result = train(config, device="cpu", threads=1, hooks=hooks)
    seconds = time.perf_counter() - began
    quadlens.save(result.params, path)
    said.write_text(json.dumps(plain({"seconds": seconds, "snapshots": moments})))
    return path, seconds, moments


def rules(study: Study) -> list[dict[str, Any]]:
    """Moments, random level and exact error of every cluster's rule."""
    found = study.bounds
    if found is None:
        return []
    exact = {row["k"]: row for row in bounds_to_json(found)["clusters"]}
    rows = []
    for one in study.anatomy.clusters:
        w = 2 * np.pi * one.rho * one.omega / (one.rho * one.omega).sum()
        moments = [
            float(np.abs((w * np.exp(1j * q * one.phi)).sum()) / 2 / np.pi) for q in range(1, 13)
        ]
        level = float(np.sqrt(np.square(w).sum()) / 2 / np.pi)
        names = (
            "relative_exact",
            "relative_exact_psi",
            "relative_bound",
            "exact_abs_error",
            "moment_bound",
            "r2_angles",
        )
        row = {name: exact.get(one.k, {}).get(name) for name in names}
        rows.append(
            {
                "k": one.k,
                "neurons": len(one.neurons),
                "moments": moments,
                "random_level": level,
                **row,
            }
        )
    return rows


def guarded(compute: Callable[[], Any]) -> Any:
    """A value, or the reason why there is none: one quantity that fails costs no model."""
    try:
        return compute()
    except Exception as error:  # whatever it is, the other quantities are worth keeping
        return {"failed": f"{type(error).__name__}: {error}"[:300]}


def values_of(run: Run, study: Study) -> dict[str, Any]:
    """The model's own values."""
    layer, lens = study.anatomy.layer, study.lens
    inputs = inputs_of(layer)
    document = lens.to_dict()
    for row, one in zip(document["clusters"], lens.clusters, strict=True):
        row["A"], row["period"] = one.reading.rule.A, one.reading.rule.period
        F = np.fft.fft(one.reading.shared.F, axis=1) / lens.n
        top = [
            (m, int(j))
            for m in range(len(F))
            for j in np.flatnonzero(np.abs(F[m]) > 1e-6 * np.abs(F).max())
        ]
        row["shared_waves"] = [[m, j, F[m, j].real, F[m, j].imag] for m, j in top]
    plane = plane_of(inputs)
    changed: dict[str, Any] = {}
    if run.removes or run.adds:
        changed["before"] = guarded(lambda: measured(plane))
    if run.removes:
        less = dataclasses.replace(plane, all_pre=plane.all_pre - product_part(plane, lens.parts))
        changed["removed"] = guarded(lambda: measured(less))
    if run.adds:
        more = plane.all_pre + added_products(plane, lens.parts, CLOCK_PRODUCTS)
        changed["added"] = guarded(lambda: measured(dataclasses.replace(plane, all_pre=more)))
    # `study.explanation` may fail too, so it is read inside.
    explanation = guarded(lambda: study.explanation.to_dict())  # noqa: PLW0108
    return {
        "evaluation": guarded(lambda: dataclasses.asdict(study.evaluation)),
        "explanation": {name: value for name, value in explanation.items() if name != "neurons"},
        "key_frequencies": list(study.keys),
        "lens": document,
        "rules": guarded(lambda: rules(study)),
        "bounds": guarded(lambda: bounds_without_claims(study)),
        "measures": guarded(lambda: algorithm_measures(study.model, right_logits(layer)).to_dict()),
        "product_waves": changed,
        "swaps": guarded(lambda: [vars(one) for one in swap_activations(layer)]),
        "gates": guarded(lambda: gate_waves(layer)) if layer.gated else None,
        "planes": guarded(lambda: planes(study)),
        "proofs": {name: guarded(partial(proof, study, name)) for name in proof_names(run)},
        "appendix": guarded(lambda: appendix(study)) if run.experiment == 0 else None,
    }


def proof_names(run: Run) -> tuple[str, ...]:
    """The strategies that are tried where attention is constant; proofs of gates take minutes."""
    if run.experiment == 0:
        return ("moments", "thin")
    return ("moments",) if run.preset == "paper" else ()


def appendix(study: Study) -> dict[str, Any]:
    """Measure the paper's last appendix: few numbers by ingredients, and bounds on the rest."""
    small = parameterise(study.anatomy)
    rows = []
    for row in term_bounds(study.model, small.model):
        facts = {
            name: getattr(row, name)
            for name in ("name", "added", "together", "proved", "operations", "seconds")
        }
        largest = sorted(row.terms.items(), key=lambda term: -term[1])[:TERMS]
        rows.append({**facts, "terms": [[part, *noise, size] for (part, noise), size in largest]})
    return {
        "ladder": [dataclasses.asdict(rung) for rung in ladder(study.anatomy, small)],
        "numbers": dataclasses.asdict(small.numbers),
        "bounds": rows,
    }


def proof(study: Study, name: str) -> dict[str, Any]:
    """Verdict, cost and margin of one strategy."""
    return summary(study.certify(name))


def bounds_without_claims(study: Study) -> Any:
    """The three tables of the paper for this model."""
    if study.bounds is None:
        return None
    table = bounds_to_json(study.bounds)
    return [
        {name: value for name, value in row.items() if name != "claims"}
        for row in table["clusters"]
    ]


def gate_waves(layer: FloatTables) -> list[dict[str, Any]]:
    """The mean and the strongest waves of every gate over (a, b)."""
    n = layer.p
    gates = np.stack(
        [layer.gates(np.full(n, a), np.arange(n)) for a in range(n)], axis=2
    )  # [position, head, a, b]
    found = []
    for position, head in np.ndindex(gates.shape[:2]):
        waves = np.fft.rfft2(gates[position, head]) / n**2
        order = np.argsort(-np.abs(waves), axis=None)[: GATE_WAVES + 1]
        rows = [(*map(int, np.unravel_index(one, waves.shape)), waves.flat[one]) for one in order]
        found.append(
            {
                "position": position,
                "head": head,
                "waves": [[j, h, c.real, c.imag] for j, h, c in rows],
            }
        )
    return found


def planes(study: Study) -> dict[str, Any]:
    """Measure planes in W_E and W_U: singular values of cos and sin of each key and its double."""
    tensors, p = study.model.tensors, study.config.p
    x = 2 * np.pi * np.arange(p) / p
    found: dict[str, Any] = {"weights": int(sum(array.size for array in tensors.values()))}
    for k in sorted(
        {k for key in study.lens.parts.keys for k in (key, min(2 * key % p, -2 * key % p))}
    ):
        both = np.stack([np.cos(k * x), np.sin(k * x)]) * np.sqrt(2 / p)
        of = {
            "W_E": both @ tensors["W_E"][:p].astype(float),
            "W_U": both @ tensors["W_U"].T[:p].astype(float),
        }
        found[str(k)] = {
            name: np.linalg.svd(one, compute_uv=False).tolist() for name, one in of.items()
        }
    return found


def neurons_of(study: Study) -> pa.Table:
    """Make a row per neuron: what it reads and writes at its cluster's frequency, or 0."""
    inputs = inputs_of(study.anatomy.layer)
    spectrum = plane_spectrum(inputs.pre, inputs.W_L)
    d, n = inputs.W_L.shape[1], inputs.n
    columns: dict[str, np.ndarray] = {
        "k": np.zeros(d, np.int16),
        "explained_k": np.zeros(d, np.int16),
    }
    exact = {
        f"{way}{name}": np.zeros(d)
        for way in ("", "explained_")
        for name in ("rho", "phi", "omega", "psi")
    }
    exact["delta"] = np.zeros(d)
    waves = {f"wave_{j}_{h}": np.zeros(d, complex) for j, h in HARMONICS}
    waves |= {f"written_{name}": np.zeros(d, complex) for name in ("double", "half", "triple")}
    for one in study.lens.parts.readings:
        cluster, i, k = one.cluster, one.cluster.neurons, one.cluster.k
        columns["k"][i] = k
        for name in ("rho", "phi", "omega", "psi", "delta"):
            exact[name][i] = getattr(cluster, name)
        for j, h in HARMONICS:
            waves[f"wave_{j}_{h}"][i] = 2 * spectrum.at(j * k, h * k)[i]
        half = k // 2 if k % 2 == 0 else (n - k) // 2 if (n - k) % 2 == 0 else 0
        for name, other in (("double", 2 * k % n), ("half", half), ("triple", 3 * k % n)):
            mirrored = other > n // 2
            found = spectrum.written[n - other if mirrored else other, i]
            waves[f"written_{name}"][i] = found.conj() if mirrored else found
    for explained in study.anatomy.clusters if study.once(no_waves) is None else ():
        columns["explained_k"][explained.neurons] = explained.k
        for name in ("rho", "phi", "omega", "psi"):
            exact[f"explained_{name}"][explained.neurons] = getattr(explained, name)
    columns |= {name: values.astype(np.float32) for name, values in exact.items()}
    columns |= {"constant": rounded(spectrum.at(0, 0).real), "energy": rounded(spectrum.energy)}
    for name, values in waves.items():
        columns |= {f"{name}_re": rounded(values.real), f"{name}_im": rounded(values.imag)}
    return pa.table(columns)


def rounded(values: np.ndarray) -> np.ndarray:
    """As float32 with few bits, so that files are small."""
    drop = 23 - KEPT_BITS
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    kept = (bits + np.uint32(1 << (drop - 1))) & np.uint32(~((1 << drop) - 1) & 0xFFFFFFFF)
    return kept.view(np.float32)


def shorter(value: Any) -> Any:
    """Floats of a JSON document with nine digits."""
    if isinstance(value, dict):
        return {str(name): shorter(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [shorter(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def write(run: Run, table: pa.Table, values: dict[str, Any]) -> Path:
    """One file, whole or not at all."""
    said = json.dumps(shorter(plain(values)), separators=(",", ":"))
    path = DATA / f"{run.name}.parquet"
    draft = DATA / f".{run.name}.tmp"
    floats = [field.name for field in table.schema if pa.types.is_float32(field.type)]
    with pq.ParquetWriter(
        draft,
        table.schema,
        compression="zstd",
        compression_level=19,
        use_dictionary=False,
        store_schema=False,
        use_byte_stream_split=floats,
        write_statistics=False,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(
            {"model": base64.b64encode(zlib.compress(said.encode(), 9)).decode()}
        )
    os.replace(draft, path)
    return path


def make(run: Run, keep: Path) -> Path:
    """Train and measure one model."""
    path, seconds, snapshots = model_of(run, keep)
    study = study_of(path)
    began = time.perf_counter()
    values = {
        **dataclasses.asdict(run),
        "train_seconds": seconds,
        "snapshots": snapshots,
        "version": quadlens.__version__,
        **values_of(run, study),
    }
    values["analysis_seconds"] = time.perf_counter() - began
    return write(run, neurons_of(study), values)


def prove_again(run: Run, keep: Path) -> Path:
    """Only the proofs of a model that has been measured, where its weights are still those."""
    table, values = (
        pq.read_table(DATA / f"{run.name}.parquet"),
        read(DATA / f"{run.name}.parquet").values,
    )
    study = study_of(model_of(run, keep)[0])
    proofs = {name: guarded(partial(proof, study, name)) for name in proof_names(run)}
    if any(
        proofs[name].get("model_sha256") != one.get("model_sha256")
        for name, one in values["proofs"].items()
    ):
        raise RuntimeError("the weights are not those that were measured; measure it again")
    return write(run, table.replace_schema_metadata(None), {**values, "proofs": proofs})


def main() -> int:
    """Go through the list."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--until", help="start no model after this time of the clock, HH:MM")
    parser.add_argument("--only", default="1,2,3", help="experiments")
    parser.add_argument("--keep", type=Path, default=Path("experiments/weights"))
    parser.add_argument("--names", default="", help="only models whose name contains this")
    parser.add_argument("--again", action="store_true", help="measure what has been measured")
    parser.add_argument(
        "--kept", action="store_true", help="train nothing: only models whose weights are there"
    )
    parser.add_argument(
        "--proofs",
        action="store_true",
        help="of what has been measured, prove again and nothing else",
    )
    parser.add_argument(
        "--share",
        default="0/1",
        help="I/N: every Nth model from the Ith on, for N processes at once",
    )
    options = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    options.keep.mkdir(parents=True, exist_ok=True)
    first, step = (int(n) for n in options.share.split("/"))
    for run in [*registered(), *population()][first::step]:
        if str(run.experiment) not in options.only or options.names not in run.name:
            continue
        # Weights are written before the line that says how long they took.
        if options.kept and not (options.keep / f"{run.name}.json").is_file():
            continue
        if options.until and datetime.datetime.now().strftime("%H:%M") >= options.until:
            break
        known = (DATA / f"{run.name}.parquet").is_file()
        if known != options.proofs and not (known and options.again):
            continue
        try:
            path = (prove_again if options.proofs else make)(run, options.keep)
        except Exception as error:  # one model that fails costs no other; its name is on stderr
            print(f"{run.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            continue
        print(
            f"{datetime.datetime.now():%H:%M:%S} {run.name} {path.stat().st_size // 1024} kB",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
