"""Check a certificate by a program that shares no code with the one that wrote it."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import quadlens_checker
from quadlens.base.arguments import checked
from quadlens.base.errors import WrongArgument, kind_of, refusals_of_a_check
from quadlens.network.of_study import save
from quadlens.network.study import study_of
from quadlens.proofs.proved import check_proved
from quadlens_checker import CheckReport

if TYPE_CHECKING:
    from quadlens.network.named import ModelLike
    from quadlens.proofs.long_work import Progress
    from quadlens.proofs.pairs.certificate import Certificate
    from quadlens.proofs.sequences.certificate import SequenceCertificate


@checked
def check(
    certificate: "Certificate | SequenceCertificate | str | Path",
    model: "ModelLike",
    *,
    max_seconds: float = 600.0,
    proved: bool = False,
    progress: "Progress | None" = None,
) -> CheckReport:
    """Check a certificate from scratch, by a program independent of its writer.

    Args:
        certificate: What `certify` returned, or a file.
        model: The model it is about.
        max_seconds: Give up after this, with the verdict TIMEOUT.
        proved: By the checker that Coq proved sound, which `make proved` builds (page `trust` of
            the documentation).
        progress: Called about once a second with how long the check has taken, as `print`.

    >>> import quadlens
    >>> quadlens.check(quadlens.certify("pizza"), "pizza").verdict
    'VERIFIED'
    """
    if not isinstance(certificate, str | Path) and not hasattr(certificate, "verdict"):
        raise WrongArgument(
            f"got {kind_of(certificate)}; expected a certificate of certify(), or its file"
        )
    study = study_of(model)
    with tempfile.TemporaryDirectory() as directory:
        weights, proof = study.file, certificate
        if weights is None:
            weights = save(study, Path(directory) / "model.safetensors")
        if not isinstance(proof, str | Path):
            proof.need_claims()
            content, proof = proof.to_bytes(), Path(directory) / "certificate.json"
            proof.write_bytes(content)
        run = check_proved if proved else quadlens_checker.check
        with refusals_of_a_check(str(weights)):
            return run(str(proof), str(weights), max_seconds, progress=progress)
