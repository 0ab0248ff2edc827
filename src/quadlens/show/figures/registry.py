"""Every figure, in the order of the paper, then ours: the entries of `figures.toml`."""

from collections.abc import Sequence
from typing import Any

from quadlens.base.door import DOOR
from quadlens.base.errors import BadConfig
from quadlens.network.study import Study
from quadlens.show.figures.listed import entries
from quadlens.show.figures.picture import Family, Picture


def _family(name: str, draw: str, **fields: Any) -> Family:
    module, function = draw.split(".")
    public = getattr(DOOR.load(f"quadlens.show.figures.{module}"), function)
    return Family(name, public, vars(public)["values"], **fields)


FIGURES: tuple[Family, ...] = tuple(_family(name, **fields) for name, fields in entries().items())
# What can be drawn of a model before anything is proved of it.
WITHOUT_PROOFS = tuple(family for family in FIGURES if not family.needs_proofs)


def families_of(names: list[str]) -> tuple[Family, ...]:
    """The families that pictures of these names come from, before anything is computed.

    Raises:
        BadConfig: for a name that no model has a figure of, with all the names there are.
    """
    for name in names:
        if not any(family.makes(name) for family in FIGURES):
            known = {
                text
                for family in FIGURES
                for text in (family.name, *family.names)
                if ":" not in text
            }
            listed = ", ".join(sorted(known))
            raise BadConfig(
                f"no figure is named {name!r}; there are (with K a key frequency): {listed}"
            )
    return tuple(family for family in FIGURES if any(family.makes(name) for name in names))


def needs_proofs(names: list[str]) -> bool:
    """Whether a picture with one of these names draws proofs."""
    return any(family.needs_proofs for family in families_of(names))


def pictures_by_family(
    study: Study, families: Sequence[Family] = FIGURES
) -> dict[str, tuple[Picture, ...]]:
    """Each family's name with the pictures it has for this model; () where the model has none."""
    return {family.name: family.of(study) for family in families}


def all_pictures(study: Study, families: Sequence[Family] = FIGURES) -> tuple[Picture, ...]:
    """Every picture of this model, the paper's first."""
    return tuple(picture for family in families for picture in family.of(study))


def chosen_pictures(study: Study, names: list[str]) -> tuple[Picture, ...]:
    """Return pictures by file name, by the paper's label, or by family.

    A family such as `quadrature` stands for all of its pictures. The order is as given, each
    picture once.

    Raises:
        BadConfig: for a name that this model has no picture of.
    """
    by_family = pictures_by_family(study, families_of(names))
    pictures, chosen = [picture for many in by_family.values() for picture in many], []
    for name in names:
        named = [picture for picture in pictures if name in (picture.name, picture.label)] or list(
            by_family.get(name, ())
        )
        if not named:
            raise BadConfig(
                f"no figure of this model is named {name}; there are: {_names_of(study)}"
            )
        chosen += [picture for picture in named if picture not in chosen]
    return tuple(chosen)


def _names_of(study: Study) -> str:
    """Return every name that this model has a picture of.

    No proof is run for it; names of figures that draw proofs are there all the same.
    """
    by_family = pictures_by_family(study, WITHOUT_PROOFS)
    names = {name for name, many in by_family.items() if many} | {
        picture.name for many in by_family.values() for picture in many
    }
    proved = {family.name for family in FIGURES if family.needs_proofs and family.is_of(study)}
    return ", ".join(sorted(names | proved))
