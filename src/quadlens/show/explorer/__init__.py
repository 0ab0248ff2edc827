"""One offline HTML page in which a person plays with a model and sees why it adds."""

from quadlens.show.explorer.layout import LARGEST_P
from quadlens.show.explorer.page import build_page

__all__ = ["LARGEST_P", "build_page"]
