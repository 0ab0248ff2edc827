"""The public name of `quadlens.analysis.edit`."""

import sys

from quadlens.analysis import edit

sys.modules[__name__] = edit
