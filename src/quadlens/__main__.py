"""`python -m quadlens`."""

from quadlens.cli.main import main

# Worker processes import this file again; they must not run the command again.
if __name__ == "__main__":
    main()
