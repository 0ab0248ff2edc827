"""The proofs of a study, each made once."""

from typing import Any

from quadlens.analysis.spectrum.anatomy import Anatomy
from quadlens.analysis.spectrum.of_study import study_anatomy
from quadlens.base.errors import BadConfig
from quadlens.network.study import Study
from quadlens.proofs.long_work import TIME_LIMIT
from quadlens.proofs.pairs.certificate import Certificate
from quadlens.proofs.pairs.produce import Prover, best_certificate, strategies

# Past this many of brute force's operations, proofs in exact integers take minutes and are left
# out.
EXACT_LIMIT = 10**9


class Proofs:
    """One study's prover and its certificates by strategy; none is sent to a process.

    Attributes:
        prover: What all proofs of the model share.
    """

    def __init__(self, anatomy: Anatomy, sha256: str) -> None:
        self.prover = Prover(anatomy, sha256)
        self._made: dict[tuple[str, bool], Certificate] = {}

    def certify(self, strategy: str = "auto", checkable: bool = False) -> Certificate:
        """The proof by one strategy; parameters and errors as for `quadlens.certify`."""
        if (strategy, checkable) in self._made:
            return self._made[strategy, checkable]
        certificate = self.prover.certify(strategy, checkable)
        if certificate.proof.reason != TIME_LIMIT:
            self._made[strategy, checkable] = certificate
        return certificate

    def __reduce__(self) -> Any:
        return Proofs, (self.prover.anatomy, self.prover.given_sha256)


def made_proofs(study: Study) -> Proofs:
    """The prover and its certificates."""
    return Proofs(study.once(study_anatomy), study.sha256)


def with_proofs(study: Study) -> bool:
    """Whether proofs are part of the study: they are, unless they were left out."""
    return True


def without_proofs(study: Study) -> Study:
    """Return the study with all that it has computed but proofs.

    Its `certificates` is empty.
    """
    return study.given(
        {
            with_proofs: False,
            certificates_of: (),
            certificate_of: None,
            no_proofs: "the proofs were left out",
        }
    )


def proofs_of(study: Study) -> tuple[Certificate, ...]:
    """Return one certificate per strategy, cheapest first.

    Brute force is there only where no cheaper strategy is exact.
    """
    certify = study.once(made_proofs).certify
    tried = strategies(study.once(study_anatomy).config, EXACT_LIMIT)
    made = [certify(name) for name in tried if name != "brute"]
    if "brute" in tried and not any(certificate.proof.exact for certificate in made):
        made.append(certify("brute"))
    return tuple(sorted(made, key=lambda certificate: certificate.total_flops))


def no_proofs(study: Study) -> str | None:
    """Why nothing is proved, as the end of a sentence; None where something is."""
    try:
        return None if study.once(proofs_of) else "no strategy applies"
    except BadConfig as error:
        return str(error)


def certificates_of(study: Study) -> tuple[Certificate, ...]:
    """The proofs that are part of the study, by the strategies that apply to the model."""
    return (
        tuple(made for made in study.once(proofs_of) if made.proof.applies)
        if study.once(no_proofs) is None
        else ()
    )


def certificate_of(study: Study) -> Certificate | None:
    """The one to show, by the rule of `best_certificate`."""
    return best_certificate(study.once(certificates_of))
