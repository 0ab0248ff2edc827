"""Names that bundled models had before: the old one is still taken, and says once that there is a new one, and why."""

import sys

# Old name → new name and the reason.
FORMER_NAMES = {
    "mainline": (
        "pizza",
        "it is not the mainline model of the paper; `original` is that one, trained again",
    ),
}
_told: set[str] = set()


def current_name(name: str, *, quiet: bool = False) -> str:
    """The name that a bundled model has today; any other word as it is.

    >>> current_name("clock"), current_name("mainline", quiet=True)
    ('clock', 'pizza')

    Args:
        name: A bundled name, or a path.
        quiet: Say nothing on stderr, now and later; otherwise an old name is explained once per
            process.
    """
    if name not in FORMER_NAMES:
        return name
    new, reason = FORMER_NAMES[name]
    if name not in _told and not quiet:
        sys.stderr.write(f"the bundled model `{name}` is now called `{new}`: {reason}\n")
    _told.add(name)
    return new
