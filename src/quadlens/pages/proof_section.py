"""The theorem about this model: what is proved, at what cost, and how to check it."""

from quadlens.figures.picture import Picture
from quadlens.numbers import at_most
from quadlens.pages.blocks import Block, Facts, Figures, Formula, Notice, Section, Text, Verdict
from quadlens.proofs.certificate import Certificate
from quadlens.proofs.summary import rounded_up
from quadlens.studies import Results

TITLE = "The theorem about this model"


def proof_section(results: Results, pictures: tuple[Picture, ...]) -> Section:
    """The best certificate found, every strategy's cost, and the command that re-proves it."""
    certificate = results.certificate
    if certificate is None:
        return Section(
            "theorem",
            TITLE,
            (Notice("Nothing is claimed here: the proofs were left out (--no-proofs)."), Figures(pictures)),
        )
    blocks: list[Block] = [
        Text(
            "Everything above explains; this proves. The statement neglects no term: it is about the model's stored "
            "weights, and no rounding is neglected either. "
            + (
                "A checker that shares no code with the prover can re-prove it from the certificate."
                if certificate.checkable
                else "The stand-alone checker does not know this kind of proof, or not at this size, so there is no "
                "certificate file."
            )
        ),
        Verdict(certificate.verdict, certificate.statement),
    ]
    if certificate.proof.reason:
        blocks.append(Notice(f"Why not everything: {certificate.proof.reason}."))
    blocks.append(Facts(_facts(certificate)))
    if certificate.checkable:
        command = f"quadlens check data/certificate.json {results.name}"
        blocks += [Text("To check it yourself, in the directory of this page:"), Formula(command)]
    blocks += [Text(_strategies(results.certificates)), Figures(pictures)]
    return Section("theorem", TITLE, tuple(blocks))


def _facts(certificate: Certificate) -> tuple[tuple[str, str], ...]:
    proof, inputs = certificate.proof, certificate.p**2
    cost = proof.operations.total
    error = rounded_up(certificate.float32.error)
    facts = [
        ("inputs proved right", f"{certificate.certified_inputs:,} of {inputs:,}"),
        (f"operations of {proof.strategy}", f"{cost:,}"),
        ("brute force would take", f"{certificate.brute_force_flops / max(cost, 1):.1f} times as many"),
        ("float32 moves a logit", "–" if error is None else f"at most {at_most(error, 3)}"),
    ]
    for name, term in proof.terms.items():
        bound = rounded_up(term.bound)
        facts.append((f"error term {name}", "–" if bound is None else f"at most {at_most(bound, 3)}"))
    return tuple(facts)


def _strategies(certificates: tuple[Certificate, ...]) -> str:
    parts = [
        f"{one.proof.strategy} proves {one.certified_inputs:,} inputs with {one.proof.operations.total:,} operations"
        f"{' (its own small collapse included)' if one.proof.own_collapse else ''}"
        for one in certificates
    ]
    return "Every strategy on this model, beyond the collapse: " + "; ".join(parts) + "."
