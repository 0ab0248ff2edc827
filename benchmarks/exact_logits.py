"""Time all p³ exact logits: `python benchmarks/exact_logits.py`.

The network has the paper's architecture.
"""

import json
import time

import numpy as np

from quadlens.network import Config, Weights
from quadlens.network.exact import exact_logits


def main() -> None:
    """Print seconds for p = 59, d_mlp = 512 on random float32 weights of a trained model's size."""
    config, rng = Config.paper(), np.random.default_rng(0)
    shapes = config.shapes
    model = Weights(
        config=config,
        **{n: (0.07 * rng.standard_normal(s)).astype(np.float32) for n, s in shapes.items()},
    )
    start = time.perf_counter()
    exact_logits(model)
    print(
        json.dumps(
            {"p": config.p, "d_mlp": config.d_mlp, "seconds": round(time.perf_counter() - start, 3)}
        )
    )


if __name__ == "__main__":
    main()
