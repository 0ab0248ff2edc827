"""Numbers and their rounding, errors, files, printed tables, processes: what every wing uses."""
