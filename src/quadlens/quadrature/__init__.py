"""From a cluster to rectangles, exact integrals, bounds and the exact error."""
