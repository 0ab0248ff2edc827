"""From the collapsed model and its clusters to what the logits are made of."""
