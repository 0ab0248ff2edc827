"""Run the checker's first stages on a certificate before its file is written."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from quadlens.base.door import DOOR
from quadlens.base.errors import BadConfig

# A proof that takes longer to check, or has more leaves, is left to `quadlens check`.
SECONDS, LEAVES = 10.0, 1_500


def check_before_writing(
    certificate: dict[str, Any], model: bytes, tell: Callable[[str], None]
) -> None:
    """Refuse a certificate that the checker rejects.

    Args:
        certificate: Its JSON.
        model: The model's file, or the file that `save` would write.
        tell: Called with a sentence where the proof is too long to be checked here.

    Raises:
        BadConfig: with the checker's reason.
    """
    about = {**certificate["model"], "sha256": hashlib.sha256(model).hexdigest()}
    text = json.dumps({**certificate, "model": about}).encode()
    verdict, reason = DOOR.checker().check_before_writing(text, model, SECONDS, LEAVES)
    if verdict == "REJECTED":
        raise BadConfig(
            f"{certificate['verdict']}, but no certificate is written, for the "
            f"checker rejects it: {reason}; "
            "run without -o to see the proof"
        )
    if verdict != "VERIFIED":
        tell(
            "the certificate is not checked in full before it is written "
            f"({reason}); `quadlens check` does it"
        )
