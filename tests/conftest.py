"""Shapes and types of every function are checked while testing; tests are repeatable."""

import os

from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# Before any room is imported: from here on every annotated shape is checked at run time.
install_import_hook("quadlens", "beartype.beartype")

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("long", settings.get_profile("default"), max_examples=5000, derandomize=False)
settings.load_profile(os.environ.get("QUADLENS_HYPOTHESIS", "default"))
