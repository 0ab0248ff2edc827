"""A study of anything that stands for a network, and what a run says over time."""

from quadlens.model.study import Study, study_of

__all__ = ["Study", "study_of"]
