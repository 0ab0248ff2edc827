"""Side-by-side measurements, each a script: `python benchmarks/NAME.py`.

Not part of the package.
"""
