"""From a config to trained weights with their history; the only room that needs PyTorch."""
