"""What a data format says of itself, and the project's own formats.

A package declares a ``Format`` for each scheme of data specs that it brings, and names it under the entry points
``misdetect.data``. Importing a declaration imports no reader.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

from misdetect.data.dataset import Dataset
from misdetect.nouns.spec import Spec
from misdetect.registry import DATA, registered
from misdetect.said.errors import BadPlugin, MisdetectError, MissingExtra


def _nowhere(target: str) -> None:
    return None


@dataclass(frozen=True)
class Format:
    """A scheme of data specs: ``what`` it is in a few words, and how it is written, for example.

    ``loader`` is ``module:function``, called with a ``Spec``; it returns a ``Dataset``. What it needs beyond the core
    is brought by the ``extra`` of misdetect. ``folder``: its target is a folder, not a file. ``drawn``: it is made on
    demand, in splits train, val and test. ``annotated``: it says what is in its images. ``beyond`` tells which place
    beyond this machine a target would be fetched from, if any. ``looks`` is ``module:function`` as well: called with
    the path of a file or folder, it returns the spec that this is opened by, or ``None`` where it is of another format.
    """

    what: str
    example: str
    loader: str
    folder: bool = False
    drawn: bool = False
    extra: str | None = None
    beyond: Callable[[str], str | None] = _nowhere
    looks: str | None = None
    annotated: bool = True

    def load(self, spec: Spec) -> Dataset:
        """The data set that ``spec`` names; a ``MissingExtra`` where what it needs is not installed."""
        try:
            found: Dataset = resolve_name(self.loader)(spec)
        except ImportError as error:
            if self.extra is None or isinstance(error, MisdetectError):
                raise
            raise MissingExtra.named(f"{spec.scheme}:", self.extra) from error
        return found

    def recognise(self, path: Path) -> str | None:
        """The spec by which ``path`` is opened, where it is of this format."""
        if self.looks is None:
            return None
        found: str | None = resolve_name(self.looks)(path)
        return found


def examples() -> str:
    """How specs are written, one of each format that can be used: first of what needs no files, then by name."""
    found = []
    for each in registered(DATA).values():
        with suppress(BadPlugin):  # said where it is used
            found.append(each.load(Format))
    texts = [each.example for each in sorted(found, key=lambda each: (not each.drawn, each.example))]
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def _hub(target: str) -> str | None:
    """The Hub, unless ``target`` is a folder or was fetched before."""
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    here = Path(target).exists() or (hub / f"datasets--{target.replace('/', '--')}").is_dir()
    return None if here else "the Hugging Face Hub"


_SEEN = "misdetect.data.recognise:"
ROOMS = Format("procedural rooms", "rooms:SPLIT", "misdetect.data.rooms:load_rooms", drawn=True)
BIKES = Format("procedural bicycles", "bikes:SPLIT", "misdetect.data.bikes:load_bikes", drawn=True)
COCO = Format("COCO instances", "coco:FILE[,images=DIR]", "misdetect.data.coco:load_coco", looks=_SEEN + "coco")
VOC = Format(
    "PASCAL VOC XML",
    "voc:DIR[,split=NAME]",
    "misdetect.data.voc:load_voc",
    folder=True,
    looks=_SEEN + "voc",
)
YOLO = Format("YOLO labels", "yolo:data.yaml[,split=val]", "misdetect.data.yolo:load_yolo", looks=_SEEN + "yolo")
LABELME = Format(
    "LabelMe JSON",
    "labelme:DIR",
    "misdetect.data.labelme:load_labelme",
    folder=True,
    looks=_SEEN + "labelme",
)
CVAT = Format("CVAT for images 1.1", "cvat:FILE", "misdetect.data.cvat:load_cvat", looks=_SEEN + "cvat")
LABEL_STUDIO = Format(
    "Label Studio JSON",
    "labelstudio:FILE[,images=DIR]",
    "misdetect.data.labelstudio:load_labelstudio",
    looks=_SEEN + "labelstudio",
)
OPEN_IMAGES = Format(
    "Open Images boxes",
    "openimages:FILE[,images=DIR]",
    "misdetect.data.open_images:load_open_images",
    looks=_SEEN + "openimages",
)
HFDATA = Format(
    "the `datasets` library",
    "hfdata:ID-OR-FOLDER[,split=NAME]",
    "misdetect.data.hfdata:load_hfdata",
    extra="hfdata",
    beyond=_hub,
)
FIFTYONE = Format(
    "a data set of your FiftyOne database", "fiftyone:NAME", "misdetect.data.fiftyone:load_fiftyone", extra="fiftyone"
)
DELFTBIKES = Format(
    "parts with states",
    "delftbikes:FILE[,images=DIR]",
    "misdetect.data.delftbikes:load_delftbikes",
    looks=_SEEN + "delftbikes",
)
FOLDER = Format(
    "images without annotations",
    "folder:DIR",
    "misdetect.data.folder:load_folder",
    folder=True,
    looks=_SEEN + "folder",
    annotated=False,
)
