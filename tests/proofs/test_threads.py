"""Proofs and bounds agree in one thread and in several: Arb has one global precision."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from flint import ctx

from any_model import network
from quadlens.analysis.quadrature.scheme import reduced
from quadlens.base.numbers import precision
from quadlens.proofs.pairs import float_layer
from quadlens.proofs.pairs.produce import certify

THREADS = 4


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads that change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_certificates_are_the_same_bytes_in_several_threads() -> None:
    every = [network(np.random.default_rng((31, number))) for number in range(20)]
    alone = [certify(model, "brute").to_bytes() for model in every]
    float_layer.tabulated.cache_clear()
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(lambda model: certify(model, "brute").to_bytes(), every))
    assert together == alone


@pytest.mark.usefixtures("impatient")
def test_a_precision_is_kept_until_its_end_whatever_other_threads_ask_for() -> None:
    before, seen = ctx.prec, set()

    def work(bits: int) -> None:
        for _ in range(300):
            with precision(bits):
                sum(range(50))
                seen.add((bits, ctx.prec))

    threads = [threading.Thread(target=work, args=(bits,)) for bits in (60, 200, 1152)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert seen == {(bits, bits) for bits in (60, 200, 1152)}
    assert ctx.prec == before


@pytest.mark.usefixtures("impatient")
def test_huge_phases_are_reduced_alike_in_several_threads() -> None:
    phases = np.random.default_rng(0).standard_normal(200) * 1e250
    alone = reduced(phases)
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(lambda _: reduced(phases), range(8)))
    assert all(np.array_equal(one, alone) for one in together)
