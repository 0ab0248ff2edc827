"""The paper's own model, trained again: what agrees with the paper's numbers, what does not, and
its errata."""

from dataclasses import replace

import numpy as np
import pytest

import quadlens
from cli_runner import quadlens as run
from quadlens.analysis.explanation import Explanation
from quadlens.analysis.explanation.value import beside_paper
from quadlens.analysis.published import as_printed, read_published
from quadlens.analysis.quadrature import Exact, by_papers_relu_rule, papers_cells, tables
from quadlens.analysis.quadrature.claims import printed
from quadlens.network.weights import Weights


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    return quadlens.study("original").explanation


def test_every_coefficient_and_r2_is_the_papers(explanation: Explanation) -> None:
    paper, logits = read_published(), explanation.logits
    assert logits is not None
    form, r2 = logits.forms.by_parts, logits.r2
    for ours, theirs in ((form.C, paper.C), (form.D, paper.D)):
        assert explanation.key_frequencies == tuple(k for k, _ in theirs)
        assert all(round(float(x), 1) == y for x, (_, y) in zip(ours, theirs, strict=True))
    fits = (
        r2.all_logits.pizza,
        r2.all_logits.clock,
        r2.abs_component.pizza,
        r2.abs_component.clock,
    )
    assert tuple(round(x or 0.0, 2) for x in fits) == paper.r2


def test_explain_has_the_papers_numbers_beside_ours(explanation: Explanation) -> None:
    coefficients, fits = (table.to_markdown() for table in beside_paper(explanation))
    assert "| C, the paper | 13.9 | 15.1 | 12.1 | 11.2 |" in coefficients
    assert "| the paper | 0.86 | 0.98 | 0.99 | 0.85 |" in fits
    shown = run("explain", "original").out
    assert "Beside the paper's model" in shown
    assert beside_paper(quadlens.study("pizza").explanation) == ()


@pytest.mark.parametrize(
    ("phases", "agree", "by_rule"), [("all", 22, [27, 28, 29]), ("attention", 25, [31, 32, 31])]
)
def test_how_many_of_the_papers_cells_agree(phases: str, agree: int, by_rule: list[int]) -> None:
    result = run("bounds", "original", "--phases", phases)
    words = " ".join(result.out.split())
    assert f"{agree} of the 72 numbers that it prints for them" in words
    assert f"by the paper's rule {min(by_rule)} to {max(by_rule)} are" in words
    document = run("bounds", "original", "--phases", phases, "--json").document
    assert document["papers_numbers"] == {
        "agree": agree,
        "printed": 72,
        "agree_by_papers_relu_rule": by_rule,
    }


def test_the_papers_relu_rule_is_above_our_proved_bounds_on_its_model() -> None:
    """So its 16 numbers are bounds there, though the rule has no proof."""
    bounds = quadlens.bounds("original")
    proved = tables(bounds)[2]
    for boundary in (0, 1, 2):
        by_rule = by_papers_relu_rule(tables(bounds), bounds, boundary)[2]
        for ours, theirs in zip(proved.rows, by_rule.rows, strict=True):
            for bound, rule in zip(ours.claims, theirs.claims, strict=True):
                if "relu_bound" in ours.name:
                    assert rule.kind == "estimate"
                    assert printed(rule) > printed(bound)
                else:
                    assert rule is bound


def test_the_cells_by_loops() -> None:
    made = tables(quadlens.bounds("original"))
    agree = printed = 0
    for name in ("table_relative_error", "table_abs_and_identity", "table_relu"):
        (ours,) = (table for table in made if table.name == name)
        for row in ours.rows:
            for claim, theirs in zip(
                row.claims, read_published().table(name).row(row.name), strict=True
            ):
                if not row.name.startswith("naive_"):
                    value = claim.middle if isinstance(claim, Exact) else claim.value
                    low, high = as_printed(theirs)
                    printed, agree = printed + 1, agree + (low <= value <= high)
    assert papers_cells(made) == (agree, printed) == (22, 72)
    assert papers_cells(tables(quadlens.bounds("pizza"))) is None


def test_phases_of_attention_are_those_of_what_a_brings() -> None:
    """The output is read at b, so that only what comes from a has gone through attention alone."""
    anatomy = quadlens.study("original").anatomy
    spectrum = np.fft.rfft(anatomy.collapsed.U_a, axis=0)
    for one in anatomy.attention_clusters:
        wave = spectrum[one.k, one.neurons]
        np.testing.assert_allclose(np.exp(1j * one.phi), wave / np.abs(wave), atol=1e-9)
        np.testing.assert_allclose(one.rho, 2 * np.abs(wave) / 59, rtol=1e-9)
    found = quadlens.bounds("original", phases="attention").bounded
    assert [round(one.rows.angle_approximation_error.value, 3) for one in found] == [
        0.142,
        0.055,
        0.058,
        0.055,
    ]


def test_attention_alone_needs_attention_and_is_all_where_the_output_is_read_elsewhere() -> None:
    with pytest.raises(
        quadlens.QuadlensError, match="has no attention, whose path could be read alone"
    ):
        quadlens.bounds(
            quadlens.build(p=13, keys=(2, 5), neurons=60, architecture="mlp"), phases="attention"
        )
    with pytest.raises(
        quadlens.QuadlensError, match="phases = 'some'; expected one of all, attention"
    ):
        quadlens.bounds("pizza", phases="some")
    pizza = quadlens.load("pizza")
    assert isinstance(pizza, Weights)
    config = replace(pizza.config, attention=(0.5, 0.5, 0.0), read_position=2)
    anatomy = quadlens.study(pizza.replace(config)).anatomy
    pairs = zip(anatomy.clusters, anatomy.attention_clusters, strict=True)
    assert all(
        (one.phi == other.phi).all() and (one.rho == other.rho).all() for one, other in pairs
    )


def test_what_the_paper_leaves_out_of_d_is_a_quarter_of_it(explanation: Explanation) -> None:
    """Erratum 12: `logit_id2`, the embedding of b through the identity half, is 24 – 26 % of every
    printed D_k."""
    model, logits = quadlens.load("original"), explanation.logits
    assert isinstance(model, Weights)
    assert logits is not None
    W_L = quadlens.study("original").anatomy.collapsed.W_L
    id2 = 0.5 * W_L @ (model.W_E[:59].astype(float) @ model.W_in.astype(float)).T
    k = np.array(explanation.key_frequencies)
    wave = 2 * (np.fft.fft2(id2) / 59**2)[k, -2 * k % 59].real
    shares = wave / logits.identity.D
    assert 0.24 < shares.min() < shares.max() < 0.26
    np.testing.assert_allclose(logits.identity.of_b.D, logits.identity.of_a.D + wave, rtol=1e-6)


def test_a_secondary_frequency_is_not_just_added(explanation: Explanation) -> None:
    """Erratum 14: at the weak spot of k = 12 the two terms that the paper adds are far from what
    the MLP writes."""
    assert explanation.logits is not None
    spot = explanation.logits.weak_spots[0]
    both = spot.pizza_term + spot.secondary_term
    assert spot.k == 12
    assert both < 0.61 * (spot.abs_component + spot.identity_component)
    total = spot.abs_component + spot.identity_component + spot.skip
    assert total == pytest.approx(spot.all_logits, abs=1e-9)


def test_an_odd_activation_can_answer_less_than_chance() -> None:
    """λ₂ of tanh is 0 for a pure cosine; the double wave passes with the wrong sign (`lens.md`
    §2)."""
    assert (
        quadlens.evaluate(quadlens.edit.swap_activation("original", "tanh")).correct
        < 3481 / 59 / 10
    )
    collapsed = quadlens.study("original").anatomy.collapsed
    hidden = np.tanh(collapsed.U_a[:, None] + collapsed.U_b)
    a, b, c = np.ogrid[:59, :59, :59]
    logits = hidden @ collapsed.W_L.T
    for k in quadlens.study("original").keys:
        strength = (logits * np.cos(2 * np.pi * k / 59 * (a + b - c))).sum(axis=2)
        by_difference = [
            strength[np.arange(59), (np.arange(59) - d) % 59].mean() for d in range(59)
        ]
        assert np.mean(np.array(by_difference) < 0) > 0.65
