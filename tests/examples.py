"""Set on how many examples a property is tried.

They are few when it has to be quick and many when there is time.
"""

from hypothesis import settings

# The profiles of conftest.py have 100 examples, 5 and 5,000: a test that takes fewer than 100 takes
# its share of these.
USUAL, FEWEST = 100, 3


def examples(number: int) -> settings:
    """As `settings(max_examples=number)`, in proportion to the profile's own number of examples."""
    return settings(max_examples=max(FEWEST, number * settings().max_examples // USUAL))
