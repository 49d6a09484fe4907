"""Reading image files: untrusted bytes in, ``[H, W, 3]`` uint8 RGB out.

The header is checked before anything is decoded, a file never leaves its folder, and every failure is a ``BadImage``
that names the file. Pillow decodes, because it reports a truncated file where OpenCV returns grey pixels in silence;
on JPEG the two are equally fast and give equal pixels.
"""

import io
import os
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from threading import Lock
from typing import BinaryIO, Final

import numpy as np
from PIL import Image, UnidentifiedImageError

from misdetect.kept.files import open_regular
from misdetect.kept.mirror import readdressed
from misdetect.nouns.picture import Pixels, digest
from misdetect.said.errors import BadImage

MAX_PIXELS: Final = 80_000_000
"""Largest image that is decoded, unless the environment variable MISDETECT_MAX_PIXELS says otherwise."""

LARGEST_FILE: Final = 1 << 30
"""Bytes of the largest image file that is read."""

FORMATS: Final = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "PPM")
"""Pillow's other readers are left out: some of them run programs (EPS), none is used for photos."""

SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm"})
"""What counts as an image when a folder is listed."""

_ORIENTATION = 0x0112
_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_CORRUPT = (OSError, ValueError, SyntaxError, EOFError, struct.error, IndexError, KeyError, TypeError, MemoryError)
_pillow_limit = Lock()
warnings.filterwarnings("ignore", module=r"PIL\.")  # what is wrong with a file is said here, or does not matter


class ImageMissing(BadImage):
    """The file does not exist. Check ``images=`` in the spec."""

    kind = "image-missing"


class ImageCorrupt(BadImage):
    """The file is not an image, is cut off, or is of a kind that is not read."""

    kind = "image-corrupt"


class ImageTooLarge(BadImage):
    """The image has more pixels than allowed. Raise MISDETECT_MAX_PIXELS if it is meant to be read."""

    kind = "image-too-large"


class ImageOutside(BadImage):
    """The file name leads out of the image folder, which no data set may do."""

    kind = "image-outside"


class WrongSize(BadImage):
    """The file's size is not the one that the annotations declare, so boxes would land elsewhere."""

    kind = "wrong-size"


def check_name(file_name: object, where: str) -> str:
    """``file_name`` itself if it stays, as written, below the folder it is joined to; ``where`` names the record."""
    if not isinstance(file_name, str) or not file_name or "\0" in file_name:
        raise ImageOutside(f"{where}: expected a file name. Got {file_name!r}.")
    if ".." not in file_name and file_name[0] not in "/\\" and ":" not in file_name:
        return file_name
    windows, posix = PureWindowsPath(file_name), PurePosixPath(file_name)
    if ".." in windows.parts or ".." in posix.parts or posix.is_absolute() or windows.root or windows.drive:
        raise ImageOutside(
            f"{where}: the file name {file_name!r} leaves the image folder; it must be a path inside it."
        )
    return file_name


def inside(path: Path, root: Path) -> Path:
    """``path`` with links resolved, if that is still below ``root``; else ``ImageOutside``."""
    try:
        real, top = path.resolve(), root.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a name too long for any file
        raise ImageCorrupt(f"{path} cannot be found: {error}.") from None
    if not real.is_relative_to(top):
        raise ImageOutside(f"{path} leads out of its image folder {root}; put the file itself there.")
    return real


def list_images(folder: Path) -> list[str]:
    """Names of all images below ``folder``, relative to it, ``/``-separated and sorted; hidden ones are left out."""
    found = []
    for directory, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        here = Path(directory).relative_to(folder)
        found += [
            (here / name).as_posix()
            for name in files
            if os.path.splitext(name)[1].lower() in SUFFIXES and not name.startswith(".")
        ]
    for name in found:
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):  # bytes that are no UTF-8
            raise ImageOutside(f"{folder} holds {name!r:.80}, whose name is not valid Unicode; rename it.")
    return sorted(found)


def image_folder(given: str, path: Path, file_names: Iterable[str], part: str | None = None) -> Path:
    """The folder ``given``, else that of the images of the annotation file ``path``.

    Tried in turn: ``images/`` beside the file; the file's own folder; the folder its name ends in
    (``instances_val2017.json`` → ``val2017/``) beside it, one level up, and below ``images/`` one level up; ``images/``
    one level up. ``part`` is that folder's name where another part of the file's name says it.
    """
    if given:
        return Path(given)
    here, last = path.parent, path.stem.rsplit("_", 1)[-1] if part is None else part
    up = here / ".."
    candidates = (here / "images", here, here / last, up / last, up / "images" / last, up / "images")
    return folder_with(next(iter(file_names), ""), candidates)


def folder_with(name: str, candidates: Iterable[Path]) -> Path:
    """The first of ``candidates`` that holds the file ``name``; if none does, the first that exists."""
    folders = [folder for folder in candidates if folder.is_dir()]
    return next((folder for folder in folders if name and (folder / name).is_file()), folders[0])


def pixel_limit() -> int:
    """The limit in force: MISDETECT_MAX_PIXELS, or ``MAX_PIXELS``."""
    text = os.environ.get("MISDETECT_MAX_PIXELS", "")
    if not text:
        return MAX_PIXELS
    if not text.isdigit() or int(text) < 1:
        raise BadImage(f"MISDETECT_MAX_PIXELS should be a whole number of pixels. Got {text!r}.")
    return int(text)


def image_size(path: Path, *, data: bytes | None = None) -> tuple[int, int]:
    """Width and height in pixels as seen by a viewer (EXIF applied), from the header alone; ``data`` as in
    ``read_image``."""
    with _opened(path, data) as image:
        width, height = image.size
        return (height, width) if _turn(image, None) in (5, 6, 7, 8) else (width, height)


def read_image(path: Path, *, data: bytes | None = None, size: tuple[int, int] | None = None) -> Pixels:
    """The pixels of an image file, ``[H, W, 3]`` uint8 RGB; with ``data``, of these bytes, which ``path`` only names.

    EXIF orientation is applied, except where ``size`` (the width and height that the annotations declare) fits the
    stored image and not the turned one: then boxes were drawn on the stored pixels. A file that fits ``size`` neither
    way is refused. Grey, palette, CMYK, 1-bit and 16-bit images become 8-bit RGB; alpha is dropped, as training code
    does. An image above the limit in force is refused before it is decoded.
    """
    with _opened(path, data) as image:
        turn = _turn(image, size)
        width, height = image.size[::-1] if turn >= 5 else image.size
        if size is not None and size != (width, height):
            raise WrongSize(
                f"{path} has {width}x{height} pixels, but the annotations declare {size[0]}x{size[1]}; "
                f"boxes would land in the wrong place."
            )
        try:
            image.load()
            pixels = _to_rgb(image, path)
        except BadImage:
            raise
        except _CORRUPT as error:
            raise ImageCorrupt(f"{path} is damaged or cut off: {error}.") from error
    return pixels if turn == 1 else np.asarray(Image.fromarray(pixels).transpose(_TURNS[turn]))


@dataclass(frozen=True)
class FileSource:
    """Pixels of one file below ``root``; ``size`` is the declared width and height, or None where none is declared."""

    path: Path
    root: Path
    size: tuple[int, int] | None = None

    def read(self) -> Pixels:
        try:
            return read_image(inside(self.path, self.root), size=self.size)
        except BadImage as error:
            raise readdressed(error, self.path) from error

    def measure(self) -> tuple[int, int]:
        """Width and height by the file's header."""
        return image_size(inside(self.path, self.root))

    def key(self) -> str:
        """Hash of the file's bytes. A picture shown as stored, against its EXIF, hashes differently from one turned."""
        with open_image(inside(self.path, self.root)) as file:
            return key_of(self.path, file.read(), self.size)


@dataclass(frozen=True)
class StoredSource:
    """Pixels of an encoded image that lies inside another file: ``load`` gives its bytes, ``path`` names it."""

    path: Path
    load: Callable[[], bytes]
    size: tuple[int, int] | None = None

    def read(self) -> Pixels:
        return read_image(self.path, data=self.load(), size=self.size)

    def measure(self) -> tuple[int, int]:
        """Width and height by the image's header."""
        return image_size(self.path, data=self.load())

    def key(self) -> str:
        """Hash of the bytes: the same as that of a file that holds them."""
        return key_of(self.path, self.load(), self.size)


def key_of(path: Path, data: bytes, size: tuple[int, int] | None) -> str:
    """The key of the image file ``path`` whose bytes are ``data`` and whose declared size is ``size``."""
    with _opened(path, data) as image:
        against_exif = _turn(image, None) != _turn(image, size)
    return digest(data, "as stored") if against_exif else digest(data)


def open_image(path: Path) -> BinaryIO:
    """The bytes of an image file, to be read; a ``BadImage`` where it is no file, or one without end."""
    try:
        return open_regular(path, LARGEST_FILE)
    except FileNotFoundError:
        raise ImageMissing(f"{path} does not exist; check the image folder in the data spec.") from None
    except (OSError, ValueError) as error:
        raise ImageCorrupt(f"{path} cannot be read: {getattr(error, 'strerror', error)}.") from error


@contextmanager
def _opened(path: Path, data: bytes | None) -> Iterator[Image.Image]:
    """The image with only its header read, refused if it is too large."""
    limit = pixel_limit()
    with open_image(path) if data is None else io.BytesIO(data) as file, _header(path, file, limit) as image:
        width, height = image.size
        if width * height > limit:
            raise ImageTooLarge(
                f"{path} has {width}x{height} pixels, above the limit of {limit}; set MISDETECT_MAX_PIXELS to read it."
            )
        yield image


def _header(path: Path, file: BinaryIO, limit: int) -> Image.Image:
    try:
        return _identify(file, limit)
    except Image.DecompressionBombError as error:
        raise ImageTooLarge(f"{path} is above the limit of {limit} pixels ({error}).") from error
    except UnidentifiedImageError:
        raise ImageCorrupt(f"{path} is not an image that can be read ({', '.join(FORMATS)}).") from None
    except _CORRUPT as error:
        raise ImageCorrupt(f"{path} cannot be read as an image: {error}.") from error


def _identify(file: BinaryIO, limit: int) -> Image.Image:
    """Pillow's own limit is global and lower than some users need; it is lifted only for the time of one open."""
    if Image.MAX_IMAGE_PIXELS is None or limit <= Image.MAX_IMAGE_PIXELS:
        return Image.open(file, formats=FORMATS)
    with _pillow_limit:
        before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, limit
        try:
            return Image.open(file, formats=FORMATS)
        finally:
            Image.MAX_IMAGE_PIXELS = before


def _turn(image: Image.Image, size: tuple[int, int] | None) -> int:
    """EXIF orientation (1 to 8) to apply. A PNG whose EXIF comes after its pixels would have to be decoded: 1."""
    if image.format == "PNG" and "exif" not in image.info:
        return 1
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except _CORRUPT:
        return 1
    turn = value if isinstance(value, int) and value in _TURNS else 1
    if turn >= 5 and size is not None and image.size == size and size[0] != size[1]:
        return 1
    return turn


def _to_rgb(image: Image.Image, path: Path) -> Pixels:
    if image.mode == "F":
        raise ImageCorrupt(f"{path} holds floating-point pixels, whose range is unknown; save it as 8-bit.")
    if image.mode == "I" or image.mode.startswith("I;16"):
        deep = np.asarray(image)
        if deep.min(initial=0) < 0 or deep.max(initial=0) > 65535:
            raise ImageCorrupt(f"{path} holds 32-bit pixels, whose range is unknown; save it as 8-bit.")
        grey = (deep >> 8).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    return np.array(image if image.mode == "RGB" else image.convert("RGB"), dtype=np.uint8)
