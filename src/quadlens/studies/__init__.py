"""Where an older version pickled its studies."""
