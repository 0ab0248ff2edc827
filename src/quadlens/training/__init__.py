"""From a config to trained weights with their history; the only package that needs PyTorch."""
