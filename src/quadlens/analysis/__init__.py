"""What a network does: waves, clusters, logits, quadrature, the lens, few numbers."""
