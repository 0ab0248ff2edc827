"""From the collapsed model to amplitudes, phases, frequencies and clusters of neurons."""
