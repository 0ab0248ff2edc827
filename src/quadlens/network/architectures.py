"""The kinds of networks, by the names that files have for them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int

from quadlens.base.errors import BadConfig
from quadlens.network.config import Config
from quadlens.network.mlp_config import MLPConfig
from quadlens.network.sequence import SequenceConfig

ARCHITECTURES: dict[str, type[Config] | type[SequenceConfig]] = {
    "transformer": Config,
    "mlp": MLPConfig,
    "sequence": SequenceConfig,
}


def config_from_dict(
    data: Any, where: str, table: Int[np.ndarray, "..."] | None = None
) -> Config | SequenceConfig:
    """Read the config that `to_dict` wrote.

    `where` names the source in messages; `table` is the task's, if it has one.
    """
    if not isinstance(data, Mapping):
        raise BadConfig(
            f"{where}: the config is a {type(data).__name__}; expected names with values"
        )
    architecture = data.get("architecture")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise BadConfig(f"{where}: architecture {architecture!r}; expected one of {known}")
    return ARCHITECTURES[architecture].from_dict(data, where, table)
