"""`python -m quadlens`."""

from quadlens.cli.main import main

main()
