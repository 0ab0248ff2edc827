"""Write the checker as one file that runs anywhere Python does.

The same sources always give the same bytes.
"""

import io
import zipfile
from importlib.resources import files

START = """import sys

from quadlens_checker.__main__ import main

sys.exit(main(sys.argv[1:]))
"""


def archive() -> bytes:
    """A zip of this package that Python runs: `python checker.pyz CERTIFICATE MODEL`."""
    sources = {
        f"quadlens_checker/{file.name}": file.read_bytes()
        for file in files("quadlens_checker").iterdir()
        if file.name.endswith(".py")
    }
    sources["__main__.py"] = START.encode()
    content = io.BytesIO()
    content.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(content, "a") as target:
        for name in sorted(sources):
            entry = zipfile.ZipInfo(
                name
            )  # stored, dated 1980: nothing of this machine or moment is in it
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            target.writestr(entry, sources[name])
    return content.getvalue()
