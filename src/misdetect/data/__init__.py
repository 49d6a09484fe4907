"""Data sets by spec: ``load_data("coco:instances.json")``. One file per format, each registered as an entry point.

Opening reads annotations only. See docs/data.md for the formats, their options and what is refused.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from misdetect.data.dataset import Dataset
from misdetect.data.formats import Format
from misdetect.data.recognise import recognised
from misdetect.data.renaming import read_renaming
from misdetect.kept.mirror import local_path, opened_before, readdressed
from misdetect.kept.remote import as_url
from misdetect.nouns.spec import Spec, did_you_mean
from misdetect.registry import DATA, registered
from misdetect.said.errors import BadSpec, MisdetectError

_PATHS = {"images", "labels"}
"""Options that are paths."""


def load_data(spec: str | Dataset | Iterable[tuple[Any, Any]], names: Sequence[str] | None = None) -> Dataset:
    """The data set that ``spec`` names, e.g. ``coco:FILE,images=DIR`` or only ``FILE`` where that says what it is; a
    data set is returned as it is.

    Pairs of an image (uint8 RGB array) and a ``Truth`` (or a dict of its fields) are data too; their labels are names,
    or indices into ``names``.
    """
    if isinstance(spec, Dataset):
        return spec
    if not isinstance(spec, str):
        from misdetect.data.memory import from_pairs

        return from_pairs(spec, names)
    parsed, known = Spec.parse(recognised(spec)[0]), registered(DATA)
    if parsed.scheme not in known:
        raise BadSpec(
            f"{spec!r} is no data spec: {parsed.scheme!r} is none of {', '.join(sorted(known))}."
            f"{did_you_mean(parsed.scheme, known)}"
        )
    scheme = known[parsed.scheme]
    kind = scheme.load(Format)
    parsed.target = str(_here(parsed.target, folder=kind.folder))
    for name in _PATHS & parsed.options.keys():
        parsed.options[name] = str(_here(parsed.options[name], folder=name == "images"))
    labels = parsed.take("labels", "")
    try:
        found = kind.load(parsed)
    except BadSpec as error:
        raise BadSpec(parsed.misspelt() or str(error)) from error
    except MisdetectError as error:
        raise readdressed(error, Path(parsed.target)) from error
    except Exception as error:  # whatever a stranger's reader may raise, as when it is imported
        if scheme.own:
            raise
        raise scheme.broken(f"{type(error).__name__}: {str(error).rstrip('.')}") from error
    if not isinstance(found, Dataset):
        raise scheme.broken(f"{kind.loader} returned no Dataset but a {type(found).__name__}")
    return found.renamed(read_renaming(Path(labels), found.names)) if labels else found


def _here(path: str, folder: bool) -> Path | str:
    """``path``, or where the mirror of that address is. Of a file its folder is mirrored, with the images."""
    url = as_url(path)
    if url is None:
        return path
    if folder:
        return local_path(url, data=True)
    parent, _, name = url.rpartition("/")
    return local_path(parent, data=True) / name


def drawn(spec: str) -> bool:
    """Whether ``spec`` names data that is made on demand, in splits train, val and test."""
    scheme = registered(DATA).get(spec.strip().partition(":")[0].lower())
    return scheme is not None and scheme.load(Format).drawn


def unseen(spec: str) -> str | None:
    """The place beyond this machine that opening ``spec`` would read and that was never opened here, which nobody
    should do because a stranger's file says so; ``None`` if there is none."""
    try:
        parsed = Spec.parse(spec)
        urls = [as_url(path) for path in (parsed.target, *parsed.options.values())]
    except BadSpec:
        return None  # it is not opened
    scheme = registered(DATA).get(parsed.scheme)
    place = None if scheme is None else scheme.load(Format).beyond(parsed.target)
    return place or next((url for url in urls if url is not None and not opened_before(url)), None)
