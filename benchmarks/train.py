"""Our step, TransformerLens' step and the bare matrix products, side by side in one run.

Run: python benchmarks/train.py [--attention-rate R] [--turns N] [--threads N] [--p P] [--d-mlp D]
[--json]
"""

import argparse
import dataclasses
import itertools
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadlens.base.table import Table
from quadlens.training.config import TrainConfig, load_config
from quadlens.training.cpu import CpuEngine
from quadlens.training.engine import OptimiserState
from quadlens.training.initial import Start
from quadlens.training.layout import Layout
from quadlens.training.machines import start_of
from quadlens.training.train import available_threads

WARM_STEPS = 3
# Seconds of steps at the start of a turn that do not count: caches are cold, and the other's OpenMP
# threads spin for a while after their last product, on the cores of whoever is next.
SETTLING = 0.3
# Turns are short, so that noise on a shared machine meets all contestants alike.
STEPS_PER_TURN = {"quadlens": 20, "transformer_lens": 3, "gemm_floor": 20}


@dataclass(frozen=True)
class TrainBenchmark:
    """Milliseconds per epoch, and ratios taken turn by turn.

    Attributes:
        ms_per_epoch: Median over the turns, by contestant; without TransformerLens where it is not
            installed.
        ratio_to_transformer_lens: How many times faster we are: median over turns of theirs / ours.
        ratio_to_gemm_floor: How much slower than the bare products: median over turns of ours /
            bare.
        threads: Threads each contestant had.
        ms_per_phase: Where our step's time goes: median of each phase, and of the optimiser.
    """

    ms_per_epoch: dict[str, float]
    ratio_to_transformer_lens: float | None
    ratio_to_gemm_floor: float
    threads: int
    ms_per_phase: dict[str, float]


def benchmark_training(
    config: TrainConfig,
    threads: int,
    turns: int = 15,
    progress: Callable[[int], None] = lambda done: None,
) -> TrainBenchmark:
    """Let the contestants take turns of a few steps each, all from the same start."""
    start = start_of(config)
    engine = _engine(config, start, threads)
    contestants = {
        "quadlens": _ours(config, engine),
        "gemm_floor": _bare_products(config, start, threads),
    }
    peer = _transformer_lens(config, start, threads)
    if peer is not None:
        contestants["transformer_lens"] = peer
    for step in contestants.values():
        for _ in range(WARM_STEPS):
            step()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(turns):
        for name, step in contestants.items():
            began = time.perf_counter()
            while time.perf_counter() - began < SETTLING:
                step()
            began = time.perf_counter()
            for _ in range(STEPS_PER_TURN[name]):
                step()
            times[name].append(1e3 * (time.perf_counter() - began) / STEPS_PER_TURN[name])
        progress(turn + 1)
    phases = _phases(config, engine, turns)
    engine.close()
    return TrainBenchmark(
        ms_per_epoch={name: statistics.median(values) for name, values in times.items()},
        ratio_to_transformer_lens=_ratio(times["transformer_lens"], times["quadlens"])
        if peer is not None
        else None,
        ratio_to_gemm_floor=_ratio(times["quadlens"], times["gemm_floor"]),
        threads=threads,
        ms_per_phase=phases,
    )


def _ratio(slow: list[float], fast: list[float]) -> float:
    return statistics.median(x / y for x, y in zip(slow, fast, strict=True))


def _engine(config: TrainConfig, start: Start, threads: int) -> CpuEngine:
    theta = Layout.of_run(config).flatten(start.params)[None]
    state = OptimiserState(theta, np.zeros_like(theta), np.zeros_like(theta))
    return CpuEngine(config.model_config(), state, start.train, start.validation, threads)


def _ours(config: TrainConfig, engine: CpuEngine) -> Callable[[], None]:
    import torch

    epochs = itertools.count()

    def step() -> None:
        # Another contestant may have changed it; ours runs its own threads with single-threaded
        # products.
        torch.set_num_threads(1)
        engine.step(next(epochs), config, validate=False)

    return step


def _phases(config: TrainConfig, engine: CpuEngine, turns: int) -> dict[str, float]:
    """Return median milliseconds of each phase of our step.

    The optimiser is the rest of the whole step.
    """
    import torch

    torch.set_num_threads(1)
    times: dict[str, list[float]] = {name: [] for name in (*engine.phases(), "optimiser")}
    for epoch in range(turns * STEPS_PER_TURN["quadlens"]):
        for name, phase in engine.phases().items():
            began = time.perf_counter()
            phase()
            times[name].append(1e3 * (time.perf_counter() - began))
        began = time.perf_counter()
        engine.update(epoch, config)
        times["optimiser"].append(1e3 * (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in times.items()}


def _bare_products(config: TrainConfig, start: Start, threads: int) -> Callable[[], None]:
    """Time the three products that no exact full-batch step can do without.

    Their size is training pairs × d_mlp × p.
    """
    import torch

    rows, m, p = len(start.train), config.d_mlp, config.p
    dtype = getattr(torch, config.precision)
    hidden, d_hidden = torch.rand(rows, m, dtype=dtype), torch.zeros(rows, m, dtype=dtype)
    logits, gradient = torch.zeros(rows, p, dtype=dtype), torch.rand(rows, p, dtype=dtype)
    W_L, dW_L = torch.rand(p, m, dtype=dtype), torch.zeros(p, m, dtype=dtype)

    def step() -> None:
        torch.set_num_threads(threads)
        torch.mm(hidden, W_L.t(), out=logits)
        torch.mm(gradient, W_L, out=d_hidden)
        torch.mm(gradient.t(), hidden, out=dW_L)

    return step


def _transformer_lens(config: TrainConfig, start: Start, threads: int) -> Callable[[], None] | None:
    """Train as people do today: HookedTransformer and torch's AdamW.

    A hook replaces attention that is not softmax alone.
    """
    try:
        import torch
        from transformer_lens import HookedTransformer, HookedTransformerConfig
    except ModuleNotFoundError:
        return None
    import warnings

    model = config.model_config()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        peer = HookedTransformer(
            HookedTransformerConfig(
                n_layers=1,
                d_model=model.d_model,
                n_ctx=model.n_ctx,
                d_head=model.d_head,
                n_heads=model.n_heads,
                d_mlp=model.d_mlp,
                d_vocab=model.d_vocab,
                d_vocab_out=model.d_vocab_out,
                act_fn="relu",
                normalization_type=None,
                seed=config.seed,
                device="cpu",
            )
        )
    optimiser = torch.optim.AdamW(
        peer.parameters(),
        lr=config.lr,
        betas=(config.beta_1, config.beta_2),
        weight_decay=config.weight_decay,
    )
    tokens = torch.tensor(start.train)
    if model.has_equals:
        tokens = torch.cat([tokens, torch.full((len(tokens), 1), model.equals_token)], dim=1)
    right = tokens[:, :2].sum(dim=1) % config.p

    def mixed(pattern: Any, hook: Any) -> Any:
        scale = model.softmax.scale if model.softmax is not None else 0.0
        constant = torch.tensor(model.attention, dtype=pattern.dtype).expand_as(pattern)
        return scale * pattern + constant if scale else constant.clone()

    hooks: list[Any] = [] if config.attention_rate == 1 else [("blocks.0.attn.hook_pattern", mixed)]

    def step() -> None:
        torch.set_num_threads(threads)
        logits = peer.run_with_hooks(tokens, fwd_hooks=hooks)[:, -1].double()
        loss = -torch.log_softmax(logits, dim=-1).gather(-1, right[:, None]).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def main() -> None:
    """Print the measurements: a table, or one JSON document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--turns", type=int, default=15, help="how often each contestant takes its turn"
    )
    parser.add_argument("--threads", type=int, help="threads of each; all that help by default")
    parser.add_argument("--p", type=int, default=59, help="modulus, odd")
    parser.add_argument("--d-mlp", type=int, default=512, help="number of neurons")
    parser.add_argument(
        "--attention-rate",
        type=float,
        default=0.0,
        help="share of softmax; 0 is constant attention",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args()
    config = load_config(
        flags={"p": options.p, "d_mlp": options.d_mlp, "attention_rate": options.attention_rate}
    )
    result = benchmark_training(config, options.threads or available_threads(), options.turns)
    if options.json:
        print(json.dumps(dataclasses.asdict(result)))
        return
    from rich.console import Console

    whole, peer = sum(result.ms_per_phase.values()), result.ratio_to_transformer_lens
    rows = [(name, f"{ms:.2f} ms") for name, ms in result.ms_per_epoch.items()]
    rows.append(
        ("times faster than TransformerLens", "not installed" if peer is None else f"{peer:.1f}")
    )
    rows.append(("times slower than the bare products", f"{result.ratio_to_gemm_floor:.2f}"))
    rows += [
        (f"our {name}", f"{ms:.2f} ms, {ms / whole:.0%}")
        for name, ms in result.ms_per_phase.items()
    ]
    attention = (
        f"softmax {options.attention_rate:g}" if options.attention_rate else "constant attention"
    )
    title = (
        f"One epoch: {attention}, p = {options.p}, {options.d_mlp} neurons, {result.threads} "
        "threads"
    )
    Table(title, ("", "median"), rows, left=(0,)).print(Console())


if __name__ == "__main__":
    main()
