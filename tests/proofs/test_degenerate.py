"""Edge cases: nothing can be wrong, numbers beyond floats, the smallest margins."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadlens
from cli_runner import quadlens as command
from quadlens.base.errors import QuadlensError
from quadlens.network import Weights
from quadlens.network.sequence import Automaton, Fed, SequenceConfig, Step, TaskSpec
from quadlens.network.sequence_forward import sequence_config
from quadlens.proofs.sequences.certificate import certify_sequence
from sequence_oracle import check

BITS = 3000  # of the truth: sums of 1e300 and 1e-300 cancel


def of_one_letter(
    right: tuple[int, int], answers: tuple[tuple[int, ...], ...], **sizes: int
) -> SequenceConfig:
    """One letter of two symbols, read where it stands; which answer each has."""
    table = Automaton(
        next=(((0, 0),),),
        positions=(Fed(0, ((0, 1),)),),
        steps=(Step(0, 0, (right,)),),
        answers=answers,
    )
    numbers = {
        "d_vocab": 2,
        "d_vocab_out": 2,
        "n_ctx": 1,
        "d_model": 1,
        "n_heads": 1,
        "d_head": 1,
        "d_value": 1,
    }
    task = TaskSpec("one", automaton=table)
    return SequenceConfig(**{**numbers, "d_mlp": 0, **sizes}, task=task)  # type: ignore[arg-type]


def plain(config: SequenceConfig, W_U: Any, **tensors: Any) -> Weights:
    """Streams 1 and 2, which attention doubles, times W_U."""
    one, zero = np.ones((1, 1, 1)), np.zeros((1, 1, 1))
    kept = {
        "W_E": np.array([[1.0], [2.0]]),
        "W_Q": zero,
        "W_K": zero,
        "W_V": one,
        "W_O": one,
        "W_U": np.array([W_U]),
    }
    if config.d_mlp:
        kept |= {"W_in": np.ones((1, config.d_mlp)), "W_out": np.ones((config.d_mlp, 1))}
    return Weights(
        config, **{**kept, **{name: np.asarray(x, dtype=np.float64) for name, x in tensors.items()}}
    )


def written(weights: Weights, folder: Path) -> tuple[Any, str]:
    """The certificate as the command writes it, and the checker's verdict."""
    model = quadlens.save(weights, folder / "model.safetensors")
    run = command("certify", model, "-o", folder / "certificate.json", "--json")
    assert "internal error" not in run.err, run.err
    return run, quadlens.check(folder / "certificate.json", model).verdict


# Steps at which nothing can be wrong.

ALL_RIGHT = {
    "every token": plain(of_one_letter((0, 0), ((0, 1),)), [0.0, 1.0]),
    "every token behind an MLP": plain(of_one_letter((0, 0), ((0, 1),), d_mlp=1), [0.0, 1.0]),
    "the only token": plain(of_one_letter((0, 0), ((0,),), d_vocab_out=1), [1.0]),
    "the only token behind an MLP": plain(
        of_one_letter((0, 0), ((0,),), d_vocab_out=1, d_mlp=1), [1.0]
    ),
}


@pytest.mark.parametrize("name", ALL_RIGHT)
def test_a_step_at_which_every_token_is_right(name: str, tmp_path: Path) -> None:
    weights = ALL_RIGHT[name]
    run, verdict = written(weights, tmp_path)
    assert (run.code, run.document["verdict"], verdict) == (0, "CERTIFIED", "VERIFIED")
    assert run.document["margin_attained"] is None
    check(certify_sequence(weights), BITS)
    page = quadlens.report(weights, tmp_path / "report").page.read_text(encoding="utf-8")
    assert "every token is right" in page


def test_a_letter_of_which_every_token_is_right_and_another(tmp_path: Path) -> None:
    weights = plain(of_one_letter((0, 1), ((0, 1), (1,))), [0.0, 1.0])
    run, verdict = written(weights, tmp_path)
    assert (run.document["verdict"], verdict) == ("CERTIFIED", "VERIFIED")
    assert run.document["worst_input"] == [1]
    assert 3.9 < run.document["margin_lower_bound"] <= 4 <= run.document["margin_attained"] < 4.1
    check(certify_sequence(weights), BITS)


# Numbers that float64 cannot hold.

BEYOND: dict[str, dict[str, Any]] = {
    "scores": {"W_Q": [[[1e200]]], "W_K": [[[1e200]]]},
    "streams": {"W_E": [[1e308], [-1e308]], "W_O": [[[1e10]]]},
    "values": {"W_V": [[[1e300]]], "W_O": [[[1e300]]]},
    "logits": {"W_E": [[1e140], [-1e140]], "b_U": [1e308, -1e308]},
    "tiny": {"W_E": [[5e-324], [1e-320]], "W_V": [[[1e-300]]]},
}


@pytest.mark.parametrize("d_mlp", [0, 1])
@pytest.mark.parametrize("name", BEYOND)
def test_numbers_beyond_float64_are_refused_or_nothing_false_is_said(
    name: str, d_mlp: int, tmp_path: Path
) -> None:
    config = of_one_letter((0, 1), ((0,), (1,)), d_mlp=d_mlp)
    weights = plain(config, [1.0, 0.0], **BEYOND[name])
    path = quadlens.save(weights, tmp_path / "beyond.safetensors")
    assert "internal error" not in command("certify", path, "-o", tmp_path / "beyond.json").err
    run = command("certify", path)
    assert "internal error" not in run.err
    assert "internal error" not in command("explain", path).err
    assert "internal error" not in command("report", path, "-o", tmp_path / "report").err
    if run.code == 2:
        with pytest.raises(QuadlensError, match="beyond float64"):
            certify_sequence(weights)
        return
    check(certify_sequence(weights), BITS)


def several(seed: int) -> Weights:
    """Sums of two bits, weights of sizes from 5e-324 to 1e300."""
    from small_sequences import addition_task, random_config, random_network

    draw = np.random.default_rng(seed)
    weights = random_network(random_config(seed, addition_task(1, 2), 4, 6), seed)
    sizes = 10.0 ** draw.choice(
        [0, 0, 0, 5, 15, 30, 100, 150, 200, 300, -30, -150, -300], len(weights.tensors)
    )
    kept = ("mask", "rope_cos", "rope_sin")
    tensors = {
        name: x if name in kept else np.clip(x.astype(np.float64) * size, -1e308, 1e308)
        for (name, x), size in zip(weights.tensors.items(), sizes, strict=True)
    }
    return Weights(replace(sequence_config(weights)), **tensors)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_weights_of_any_size_end_in_no_internal_error(first: int) -> None:
    for seed in range(first, first + 20):
        try:
            certificate = certify_sequence(several(seed))
            certificate.summary(), certificate.to_bytes()
        except QuadlensError:
            continue
        check(certificate, BITS)


# Margins as small as floats go.


@pytest.mark.parametrize("margin", [1e-8, 1e-12, 1e-17, 1e-19, 2.0**-61, 2.0**-70])
@pytest.mark.parametrize("d_mlp", [0, 1])
def test_a_small_margin_is_claimed_and_verified(margin: float, d_mlp: int, tmp_path: Path) -> None:
    weights = plain(of_one_letter((0, 0), ((0,), (1,)), d_mlp=d_mlp), [margin, 0.0])
    run, verdict = written(weights, tmp_path)
    claimed = Fraction(json.loads((tmp_path / "certificate.json").read_text())["claims"]["margin"])
    assert (run.document["verdict"], verdict) == ("CERTIFIED", "VERIFIED")
    least = (2 + 2 * d_mlp) * Fraction(
        margin
    )  # of the stream 1, which attention doubles, and the MLP once more
    assert 0.45 * least < claimed <= least
    assert "0.000000000" not in run.document["statement"]
    check(certify_sequence(weights), BITS)


def test_the_checkers_words_are_the_producers_for_every_margin() -> None:
    from quadlens.proofs.sequences.certificate import margin_words
    from quadlens_checker.sequence_verdict import statement

    draw = np.random.default_rng(0)
    for exponent in range(-1074, 40):
        for margin in (
            Fraction(2) ** exponent,
            Fraction(float(draw.random())) * Fraction(2) ** exponent,
        ):
            words = margin_words(margin)
            assert statement({"name": "t"}, 1, 0, 0, margin).endswith(f"by at least {words}.")
            top, _, power = words.partition("^")
            assert (Fraction(2) ** int(power) if power else Fraction(top)) <= margin
