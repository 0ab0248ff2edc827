"""Where things are: tests lie in folders by package."""

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
