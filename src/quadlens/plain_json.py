"""Values as JSON has them."""

import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """JSON types only: keys are strings, tuples are lists, and infinities and NaN, which JSON does not have, are null.

    >>> plain({1: (0.5, float("inf")), "rest": {"x": [float("nan")]}})
    {'1': [0.5, None], 'rest': {'x': [None]}}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
