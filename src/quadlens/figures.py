"""The public name of `quadlens.show.figures`."""

import sys

from quadlens.show import figures

sys.modules[__name__] = figures
