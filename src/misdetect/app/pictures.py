"""Pictures on demand: photos of the data, and edited ones made again from their description, never stored in bulk.

What is asked for is looked up in what is known (a number of the data, a scene of a run); nothing of an address reaches
the file system. What was drawn is kept for a while, within a bound.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import cv2
import numpy as np

from misdetect.app.shelf import Shelved
from misdetect.app.store import Store
from misdetect.data.dataset import Dataset
from misdetect.drawing.scenes import Row, Stage, places
from misdetect.nouns.picture import Pixels
from misdetect.report.album import shrunk
from misdetect.report.scenes import image_records, stage_of
from misdetect.said.errors import BadData, MisdetectError
from misdetect.studies.documents import data_of
from misdetect.studies.looked import evidence_of

CACHE = 48 << 20
"""Bytes of encoded pictures that are kept."""
LONGEST = 960
"""Pixels of the longer side of a picture that is sent."""
_QUALITY = 88


class Kept:
    """Values by key, the least recently used forgotten beyond ``most`` of ``weigh``; for several threads."""

    def __init__(self, most: int, weigh: Callable[[Any], int]) -> None:
        self._most, self._weigh, self._held = most, weigh, 0
        self._values: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """The value of ``key``, made where it is not known."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            if key not in self._values:
                self._values[key] = value
                self._held += self._weigh(value)
            while self._held > self._most and len(self._values) > 1:
                self._held -= self._weigh(self._values.popitem(last=False)[1])
        return value


class Pictures:
    """The pictures of the runs in ``store``, and what is drawn on them."""

    def __init__(self, store: Store, most: int = CACHE) -> None:
        self._store, self._shelf = store, store.shelf
        self._pictures = Kept(most, len)
        self._places: dict[int, dict[str, int]] = {}
        self._stages: dict[int, Stage] = {}
        self._lock = threading.Lock()

    def lacking(self) -> list[str]:
        """Why there are no photos, of each data set that cannot be opened."""
        found = []
        for number in sorted({each.data for each in self._shelf.runs}):
            try:
                self._shelf.data(number)
            except MisdetectError as error:
                found.append(str(error))
        return found

    def photo(self, number: int, index: int) -> bytes:
        """A photo of the data as JPEG."""

        def make() -> bytes:
            data = self._shelf.data(number)
            if not 0 <= index < len(data):
                raise BadData(f"{data.spec} has no image {index}.")
            return _jpeg(data[index].image)

        found: bytes = self._pictures.get(("photo", number, index), make)
        return found

    def edited(self, each: Shelved, scene: str) -> bytes:
        """The edited picture of a ``scene`` as JPEG; a ``BadData`` where there is none."""
        found: bytes = self._pictures.get(("edited", each.number, scene), lambda: self._edited(each, scene))
        return found

    def _edited(self, each: Shelved, scene: str) -> bytes:
        with self._lock, each.lock:
            stage = self._stage(each)
            try:
                stage.load([scene])
                drawn = stage.pictures(scene) if stage.scene(scene) is not None else None
            except (LookupError, ValueError) as error:
                if isinstance(error, MisdetectError):
                    raise
                drawn = None
        if drawn is None:
            raise BadData(f"{each.name} has no such picture.")
        return _jpeg(drawn[1])

    def _stage(self, each: Shelved) -> Stage:
        if each.number not in self._stages:
            stage = stage_of(each.run, data_of(each.run)) if evidence_of(each.run).stage is not None else None
            if stage is None:
                raise BadData(f"{each.name} edits no pictures.")
            self._stages[each.number] = stage
        return self._stages[each.number]

    def describe(self, rows: Sequence[Row], by_name: Mapping[str, Shelved]) -> dict[str, dict[str, Any]]:
        """What is drawn of ``rows``: ``images`` and ``scenes``. Each row gets the keys of its own, ``record`` and
        ``stage``."""
        for row in rows:
            each = by_name[row["run"]]
            row["record"] = f"{each.detector}/{each.data}/{row['image']}"
            row["stage"] = f"{each.number}/{row['scene']}" if evidence_of(each.run).stage is not None else None
        images: dict[str, Any] = {}
        for each in {by_name[row["run"]].group: by_name[row["run"]] for row in rows}.values():
            own = {row["record"]: row["image"] for row in rows if by_name[row["run"]].group == each.group}
            images |= self.images(each, own)
        scenes: dict[str, Any] = {}
        for each in {row["run"]: by_name[row["run"]] for row in rows if row["stage"] is not None}.values():
            keys = list(dict.fromkeys(row["scene"] for row in rows if row["run"] == each.name))
            scenes |= self._scenes(each, keys, images)
        return {"images": images, "scenes": scenes}

    def images(self, each: Shelved, wanted: Mapping[str, str]) -> dict[str, Any]:
        """Size, truth, detections and address of images, by the keys in ``wanted``: none where the data is lacking."""
        try:
            data = self._shelf.data(each.data)
        except MisdetectError:
            return {}
        place = self._where(each.data, data)
        images = list(dict.fromkeys(wanted.values()))
        known = image_records(self._store.edition.boxes(each, images), data, images, place)
        for image, record in known.items():
            record["picture"] = f"/picture/photo/{each.data}/{place[image]}"
        return {key: known[image] for key, image in wanted.items() if image in known}

    def _where(self, number: int, data: Dataset) -> dict[str, int]:
        with self._lock:
            if number not in self._places:
                self._places[number] = places(data)
            return self._places[number]

    def _scenes(self, each: Shelved, keys: Sequence[str], images: Mapping[str, Any]) -> dict[str, Any]:
        """The scenes of one run; the whole edited picture takes the place of a patch."""
        found: dict[str, Any] = {}
        with self._lock, each.lock:
            try:
                stage = self._stage(each)
            except MisdetectError:
                return found
            stage.load(keys)
            for key in keys:
                scene = stage.scene(key)
                if scene is not None:
                    found[f"{each.number}/{key}"] = scene
        for key, scene in found.items():
            record = images.get(f"{each.detector}/{each.data}/{scene['image']}")
            if record is not None:
                address = f"/picture/edited/{each.number}?scene={quote(key.partition('/')[2], safe='')}"
                scene["patch"] = [address, 0, 0, record["width"], record["height"]]
        return found


def _jpeg(image: Pixels) -> bytes:
    small = shrunk(image, LONGEST)[0]
    done, data = cv2.imencode(".jpg", np.ascontiguousarray(small[:, :, ::-1]), [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    if not done:
        raise BadData("the picture cannot be encoded.")
    return data.tobytes()
