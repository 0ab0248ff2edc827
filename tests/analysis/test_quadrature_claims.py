"""Estimates, bounds and exact values cannot be taken for one another."""

import pytest

from quadlens.analysis.quadrature import Exact, UpperBound
from quadlens.analysis.quadrature.claims import Cost, Estimate, claim_to_dict, shown


def bound(
    value: float, assumption: str = "x", operations: int = 10, order: str = "d"
) -> UpperBound:
    return UpperBound(value, "error", "eq", (assumption,), Cost(operations, order))


def enclosure(lower: float, upper: float) -> Exact:
    return Exact(lower, upper, "error", "eq", ("x",), Cost(5, "p"))


def test_adding_bounds_adds_costs_and_joins_assumptions() -> None:
    total = bound(0.1, "x", 10, "d") + bound(0.2, "y", 7, "d log d + p")
    assert total.value > 0.1 + 0.2 - 1e-17
    assert total.value >= 0.30000000000000004
    assert total.cost == Cost(17, "d + d log d + p")
    assert total.assumptions == ("x", "y")


def test_kinds_do_not_mix() -> None:
    for left, right in (
        (bound(1.0), Estimate(1.0, "guess")),
        (bound(1.0), enclosure(0.0, 1.0)),
        (enclosure(0.0, 1.0), Estimate(1.0, "guess")),
        (Estimate(1.0, "guess"), bound(1.0)),
    ):
        with pytest.raises(TypeError):
            _ = left + right  # type: ignore[operator]
    for claim in (bound(1.0), enclosure(0.0, 1.0), Estimate(1.0, "guess")):
        with pytest.raises(TypeError):
            float(claim)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            _ = claim < 2.0  # type: ignore[operator]


def test_bounds_are_rounded_up_and_enclosures_outwards() -> None:
    assert bound(0.1).times(3.0).value > 0.1 * 3
    relative = bound(1.0).relative_to(enclosure(0.8, 0.9))
    assert relative.value > 1 / 0.8
    assert relative.cost.operations == 16
    both = enclosure(0.1, 0.2) + enclosure(0.1, 0.2)
    assert both.lower < 0.2
    assert both.upper > 0.4
    part = enclosure(0.1, 0.2).relative_to(enclosure(0.8, 0.9))
    assert part.lower < 0.1 / 0.9
    assert part.upper > 0.2 / 0.8
    assert enclosure(0.1, 0.2).as_upper_bound().value == 0.2
    assert enclosure(0.1, 0.2).width == pytest.approx(0.1)


def test_a_shown_bound_is_still_a_bound() -> None:
    assert shown(bound(0.3621), 2) == "0.37"
    assert shown(enclosure(0.3621, 0.3621), 2) == "0.36"
    assert shown(Estimate(0.3621, "guess"), 3) == "0.362"
    assert shown(enclosure(0.3621, 0.3921), 2) == "0.36…0.40"


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_bound_is_a_finite_size(value: float) -> None:
    with pytest.raises(ValueError, match="finite and not negative"):
        bound(value)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="lower ≤ upper"):
        enclosure(1.0, 0.5)
    with pytest.raises(ValueError, match="turn the inequality around"):
        bound(1.0).times(-1.0)
    with pytest.raises(ValueError, match="cannot divide by"):
        bound(1.0).relative_to(enclosure(0.0, 1.0))
    with pytest.raises(ValueError, match="for sizes"):
        enclosure(-1.0, 1.0).relative_to(enclosure(0.5, 1.0))
    with pytest.raises(ValueError, match="cannot be negative"):
        Cost(-1, "d")


def test_json_says_what_kind_of_number_it_is() -> None:
    assert claim_to_dict(bound(1.0))["kind"] == "upper_bound"
    assert claim_to_dict(enclosure(0.0, 1.0))["kind"] == "exact"
    assert claim_to_dict(Estimate(1.0, "guess")) == {
        "kind": "estimate",
        "value": 1.0,
        "how": "guess",
    }
    assert claim_to_dict(bound(1.0))["operations"] == 10
