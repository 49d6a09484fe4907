"""``Pool``: objects to insert into photos, cut from data with masks or found by a segmenter (paper 4, 4.1 and 4.2).

A pool is built once, refined (``refine``), stored as a folder of RGBA images (``files``) and used again.
Which of its objects suits a photo is decided by ``misdetect.pools.similarity``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np

from misdetect.data import load_data
from misdetect.data.cutouts import Cutout, cut
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.export import whole_folder
from misdetect.nouns.boxes import Bools
from misdetect.nouns.labels import plain_name
from misdetect.nouns.picture import digest
from misdetect.pools.files import MAX_PIXELS, read_folder, write_folder
from misdetect.pools.refine import CRITERIA, Outline, Refinement
from misdetect.said.errors import BadData, BadSpec

Progress = Callable[[int, int], None]
SEGMENTED = 0.3
"""Least score of an object that a segmenter cuts out (the paper's)."""
_MIRRORED = "mirrored:"


class Pool(Sequence[Cutout]):
    """Cutouts in a fixed order, with what is known of how they were chosen.

    ``sources[i]`` is the key of the photo that object ``i`` was cut from ("" where unknown). ``extracted`` counts the
    objects before refinement, ``dropped`` those that each criterion left out, in the order applied; ``settings`` say
    from what and how it was built, and ``notes`` what else a reader should know. ``spec`` is the data's, ``found_at``
    what ``load_pool`` finds it by: its folder, or the data.
    """

    def __init__(
        self,
        cutouts: Iterable[Cutout],
        sources: Sequence[str] | None = None,
        *,
        spec: str = "",
        extracted: int | None = None,
        dropped: Mapping[str, int] | None = None,
        settings: Mapping[str, Any] | None = None,
        notes: Sequence[str] = (),
        found_at: str = "",
    ) -> None:
        self._cutouts = tuple(cutouts)
        self.sources = tuple(sources) if sources is not None else ("",) * len(self._cutouts)
        if len(self.sources) != len(self._cutouts):
            raise BadData(f"a pool of {len(self._cutouts)} objects has {len(self.sources)} sources; expected as many.")
        self.spec, self.found_at = spec, found_at or spec
        self.extracted = len(self._cutouts) if extracted is None else extracted
        self.dropped = dict(dropped or {})
        self.settings = dict(settings or {})
        self.notes = tuple(notes)

    def __len__(self) -> int:
        return len(self._cutouts)

    @overload
    def __getitem__(self, index: int) -> Cutout: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Cutout, ...]: ...
    def __getitem__(self, index: int | slice) -> Cutout | tuple[Cutout, ...]:
        return self._cutouts[index]

    def __repr__(self) -> str:
        return f"Pool({self.spec!r}: {len(self)} objects, {len(self.labels)} classes)"

    @cached_property
    def by_label(self) -> dict[str, tuple[int, ...]]:
        """The indices of each class, by its name as written, sorted."""
        found: dict[str, list[int]] = {}
        for i, cutout in enumerate(self._cutouts):
            found.setdefault(cutout.label, []).append(i)
        return {label: tuple(found[label]) for label in sorted(found)}

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, sorted."""
        return tuple(self.by_label)

    @cached_property
    def _by_plain_name(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for label, places in self.by_label.items():
            found[plain_name(label)] = tuple(sorted((*found.get(plain_name(label), ()), *places)))
        return found

    def of(self, label: str) -> tuple[int, ...]:
        """The indices of the objects of class ``label``, compared as ``join_labels`` does; none is an empty tuple."""
        return self._by_plain_name.get(plain_name(label), ())

    def own(self, sample: Sample) -> Bools:
        """Which objects were cut from ``sample``, ``[P]`` bool: its id or its content is that of the object's photo.

        Either counts, since one photo may have another id in other data, and other bytes under the same id.
        """
        key = sample.key
        return np.array(
            [c.sample == sample.id or s == key for c, s in zip(self, self.sources, strict=True)], dtype=np.bool_
        )

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the objects, their classes, their order and where they come from."""
        return digest("pool", [(c.key, c.label, c.sample, s) for c, s in zip(self, self.sources, strict=True)])


def build_pool(
    data: Dataset,
    *,
    refinement: Refinement | None = None,
    found_by: tuple[str, float] | None = None,
    progress: Progress | None = None,
) -> Pool:
    """The objects of ``data`` that pass ``refinement`` (by default ``Refinement()``), in the data's order.

    They are cut by the data's masks; crowd regions are no objects. ``found_by``: the segmenter that found these masks
    and the least score it had to give them, where they are not annotations. ``progress`` gets images done and in all.
    """
    refinement = refinement or Refinement()
    segmenter, score = found_by or (None, None)
    settings: dict[str, Any] = {
        "data": data.spec,
        "images": len(data),
        "segmenter": segmenter,
        "score": score,
        "refinement": refinement.document(),
    }
    passed, extracted, dropped = _outlines(data, refinement, progress)
    chosen = refinement.largest(passed)
    dropped["keep"] = len(passed) - len(chosen)
    if not chosen:
        raise BadData(_why_empty(data.spec, extracted, dropped))
    pixels = sum(outline.size for outline in chosen)
    if pixels > MAX_PIXELS:
        raise BadData(
            f"{len(chosen)} objects of {data.spec} have {pixels} pixels, more than the {MAX_PIXELS} a pool may hold; "
            "keep a smaller share (--keep), or use fewer images (--limit)."
        )
    cutouts, sources = _cut(data, chosen)
    failed = [warned for warned in data.warnings if warned.kind == "segmenter-failed"]
    notes = [f"{each.count} images could not be segmented; the first: {each.example}" for each in failed]
    return Pool(cutouts, sources, spec=data.spec, extracted=extracted, dropped=dropped, settings=settings, notes=notes)


def _outlines(
    data: Dataset, refinement: Refinement, progress: Progress | None
) -> tuple[list[Outline], int, dict[str, int]]:
    """The objects that pass by themselves, how many there were, and how many each criterion dropped."""
    passed: list[Outline] = []
    dropped = dict.fromkeys(CRITERIA, 0)
    extracted = 0
    for index, sample in enumerate(data):
        truth = sample.truth
        for row in range(len(truth)):
            if truth.masks is None or not truth.masks.has(row) or (truth.crowd is not None and truth.crowd[row]):
                continue
            mask = truth.masks[row]
            rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
            if not rows.size:
                continue
            extracted += 1
            box = int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
            fault = refinement.fault(mask[box[1] : box[3], box[0] : box[2]], box, mask.shape[1], mask.shape[0])
            if fault is not None:
                dropped[fault] += 1
            else:
                passed.append(Outline(index, row, data.names[int(truth.labels[row])], box))
        if progress is not None:
            progress(index + 1, len(data))
    return passed, extracted, dropped


def _cut(data: Dataset, chosen: Sequence[Outline]) -> tuple[list[Cutout], list[str]]:
    """The chosen objects and the keys of their photos; each photo is read once."""
    cutouts: list[Cutout] = []
    sources: list[str] = []
    sample, image, at = data[chosen[0].image], data[chosen[0].image].image, chosen[0].image
    for outline in chosen:
        if outline.image != at:
            sample, at = data[outline.image], outline.image
            image = sample.image
        cutouts.append(cut(sample, outline.row, data.names, data=data.spec, image=image))
        sources.append(sample.key)
    return cutouts, sources


def _why_empty(spec: str, extracted: int, dropped: Mapping[str, int]) -> str:
    if not extracted:
        return f"no object of {spec} has a mask to cut it out by; use data with masks, or a segmenter (--segmenter)."
    reasons = ", ".join(f"{name.replace('_', '-')} {count}" for name, count in dropped.items() if count)
    return f"none of the {extracted} objects of {spec} passes the refinement ({reasons}); loosen it."


def write_pool(pool: Pool, folder: Path) -> None:
    """Write ``pool`` to ``folder``, which must be absent or empty: it appears whole or not at all."""
    document = {
        "spec": pool.spec,
        "settings": pool.settings,
        "extracted": pool.extracted,
        "dropped": pool.dropped,
        "notes": list(pool.notes),
    }
    with whole_folder(folder) as partial:
        write_folder(partial, document, pool, pool.sources)


def mirrored(pool: Pool) -> Pool:
    """The objects of ``pool`` and, in the same order after them, their mirror images; ``load_pool`` finds it by
    "mirrored:" and what it finds ``pool`` by."""
    turned = [replace(cutout, rgba=np.ascontiguousarray(cutout.rgba[:, ::-1])) for cutout in pool]
    return Pool(
        [*pool, *turned],
        2 * pool.sources,
        spec=pool.spec,
        extracted=pool.extracted,
        dropped=pool.dropped,
        settings=pool.settings,
        notes=pool.notes,
        found_at=_MIRRORED + pool.found_at,
    )


def load_pool(spec: str | Path | Pool) -> Pool:
    """The pool stored in the folder ``spec``, or one built from the data spec ``spec`` with the default refinement;
    after "mirrored:" either, with the mirror images of its objects."""
    if isinstance(spec, Pool):
        return spec
    if isinstance(spec, str) and spec.startswith(_MIRRORED):
        return mirrored(load_pool(spec.removeprefix(_MIRRORED)))
    folder = Path(spec)
    if isinstance(spec, Path) or folder.is_dir():
        document, cutouts, sources = read_folder(folder)
        if not cutouts:
            raise BadData(f"{folder / 'pool.json'} lists no objects; an empty pool is of no use.")
        return Pool(cutouts, sources, **document, found_at=str(folder))
    if ":" not in spec:
        raise BadSpec(f"{spec!r} is neither the folder of a stored pool nor a data spec such as coco:FILE.")
    return build_pool(load_data(spec))
