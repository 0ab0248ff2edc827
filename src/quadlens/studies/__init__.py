"""One value for one model: everything the packages before say of it, each computed at most once and passed on."""

from quadlens.studies.rules import error_of
from quadlens.studies.study import MAX_FREQUENCIES, Study, study_of

__all__ = ["MAX_FREQUENCIES", "Study", "error_of", "study_of"]
