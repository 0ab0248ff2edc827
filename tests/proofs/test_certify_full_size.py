"""The targets at full size, p = 59 and d_mlp = 512: cost, certificate size, time to check."""

import subprocess
import sys
from pathlib import Path

import pytest

from quadlens.network.bundled import bundled_on_pairs, load
from quadlens.network.handmade import Recipe, build_transformer
from quadlens.network.native import save
from quadlens.network.weights import Weights
from quadlens.proofs.pairs import certify
from quadlens_checker.archive import archive

pytestmark = pytest.mark.slow

BUNDLED = [
    name
    for name in bundled_on_pairs()
    if (load(name).config.p, load(name).config.d_mlp) == (59, 512)
    and not load(name).collapse().gated
]
# The hand-built model by the exact strategy, every bundled model of the paper's size by the compact
# one.
CASES = [("pizza", "arcs"), *((name, "moments") for name in BUNDLED)]


def model_named(name: str) -> Weights:
    if name == "pizza":
        return build_transformer(Recipe(59, (3, 5, 7, 11, 17), 512, jitter=0.02, noise=0.02))
    return load(name)


@pytest.mark.parametrize(("name", "strategy"), CASES)
def test_full_size_models_are_certified_cheaply_and_checked_quickly(
    name: str, strategy: str, tmp_path: Path
) -> None:
    model, certificate_path, model_path = (
        model_named(name),
        tmp_path / "cert.json",
        tmp_path / "model.safetensors",
    )
    certificate = certify(model, strategy)
    assert (certificate.verdict, certificate.certified_inputs) == ("CERTIFIED", 3481)
    flops, brute = certificate.proof.operations, certificate.brute_force_flops
    assert flops <= 0.12 * brute
    assert flops + certificate.collapse_flops <= 0.25 * brute
    assert len(certificate.to_bytes()) < 500_000
    save(model, model_path)
    certificate.save(certificate_path)
    program = tmp_path / "checker.pyz"
    program.write_bytes(archive())
    # In a process of its own, as a stranger would run it.
    run = subprocess.run(
        [sys.executable, "-I", "-S", str(program), str(certificate_path), str(model_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.startswith("VERIFIED"), run.stdout + run.stderr
