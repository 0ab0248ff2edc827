"""Studies that an older version pickled name this class; they are refused."""

from quadlens.base.errors import BadFile


class Study:
    """What a study was before its parts were functions."""

    def __setstate__(self, state: object) -> None:
        raise BadFile(
            "this study was pickled by an older version of quadlens; "
            "make it again with quadlens.study(…)"
        )
