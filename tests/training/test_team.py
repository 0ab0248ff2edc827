"""The threads of a training step: all run, failures surface, shares cover."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadlens.training.team import Team, share_out

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_member_runs_every_task(size: int) -> None:
    team = Team(size)
    seen: list[int] = []
    for _ in range(20):
        team.run(seen.append)
    team.close()
    assert sorted(seen) == sorted(list(range(size)) * 20)


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_of_any_member_is_raised_and_the_team_goes_on(failing: int) -> None:
    team = Team(2)
    seen: list[int] = []

    def task(member: int) -> None:
        if member == failing:
            raise ValueError(f"member {member}")

    with pytest.raises(ValueError, match=f"member {failing}"):
        team.run(task)
    team.run(seen.append)
    team.close()
    assert sorted(seen) == [0, 1]


@given(st.integers(0, 3000), st.integers(1, 8))
def test_shares_cover_everything_once(total: int, parts: int) -> None:
    shares = share_out(total, parts)
    assert len(shares) == parts
    assert [i for share in shares for i in range(share.start, share.stop)] == list(range(total))
