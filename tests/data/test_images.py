"""Image files: what every mode and orientation decodes to (Pillow's own tools as oracle), and what is refused."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from misdetect.data.images import (
    FileSource,
    ImageCorrupt,
    ImageMissing,
    ImageOutside,
    ImageTooLarge,
    WrongSize,
    check_name,
    image_size,
    list_images,
    read_image,
)

PHOTO = Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8))


def oriented(path: Path, orientation: int) -> Path:
    exif = Image.Exif()
    exif[0x0112] = orientation
    PHOTO.save(path, exif=exif)
    return path


def png_header(width: int, height: int) -> bytes:
    """A PNG that declares a size and holds no pixel."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">II4s", zlib.crc32(body), 99, b"IDAT")


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int, suffix: str) -> None:
    path = oriented(tmp_path / f"turned.{suffix}", orientation)
    with Image.open(path) as image:
        expected = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    np.testing.assert_array_equal(read_image(path), expected)
    assert image_size(path) == (expected.shape[1], expected.shape[0])


def test_declared_size_decides_in_which_frame_boxes_were_drawn(tmp_path: Path) -> None:
    path = oriented(tmp_path / "turned.png", 6)
    assert read_image(path, size=(20, 30)).shape == (30, 20, 3)
    np.testing.assert_array_equal(read_image(path, size=(30, 20)), np.asarray(PHOTO))
    turned, stored = FileSource(path, tmp_path, (20, 30)), FileSource(path, tmp_path, (30, 20))
    assert turned.key() != stored.key()  # equal keys would promise equal pixels
    assert turned.key() == FileSource(path, tmp_path).key()
    with pytest.raises(WrongSize, match="declare 31x20"):
        read_image(path, size=(31, 20))


MODES = {
    "L": PHOTO.convert("L"),
    "1": PHOTO.convert("1"),
    "LA": PHOTO.convert("LA"),
    "P": PHOTO.quantize(17),
    "RGBA": PHOTO.convert("RGBA"),
    "CMYK": PHOTO.convert("CMYK"),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    image = MODES[mode]
    path = tmp_path / ("image.tif" if mode == "CMYK" else "image.png")
    image.save(path)
    pixels = read_image(path)
    assert (pixels.dtype, pixels.shape) == (np.uint8, (20, 30, 3))
    np.testing.assert_array_equal(pixels, np.asarray(image.convert("RGB")))


def test_transparent_pixels_keep_their_colour(tmp_path: Path) -> None:
    clear = PHOTO.copy()
    clear.putalpha(0)
    clear.save(tmp_path / "clear.png")
    np.testing.assert_array_equal(read_image(tmp_path / "clear.png"), np.asarray(PHOTO))


def test_sixteen_bits_keep_their_high_byte(tmp_path: Path) -> None:
    deep = np.arange(0, 65536, 64, dtype=np.uint16).reshape(32, 32)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    pixels = read_image(tmp_path / "deep.png")
    np.testing.assert_array_equal(pixels, np.repeat((deep // 256).astype(np.uint8)[:, :, None], 3, axis=2))


def test_too_large_is_refused_from_the_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for width, height in [(9_000, 9_000), (60_000, 60_000)]:  # below and above Pillow's own limit
        (tmp_path / "bomb.png").write_bytes(png_header(width, height))  # decoding it could only fail as cut off
        with pytest.raises(ImageTooLarge):
            read_image(tmp_path / "bomb.png")
    PHOTO.save(tmp_path / "photo.png")
    monkeypatch.setenv("MISDETECT_MAX_PIXELS", "600")
    assert read_image(tmp_path / "photo.png").size == 1800
    monkeypatch.setenv("MISDETECT_MAX_PIXELS", "599")
    with pytest.raises(ImageTooLarge, match="30x20"):
        read_image(tmp_path / "photo.png")
    with pytest.raises(ImageTooLarge):
        FileSource(tmp_path / "photo.png", tmp_path).read()


def test_a_raised_limit_leaves_pillows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Image.MAX_IMAGE_PIXELS
    monkeypatch.setenv("MISDETECT_MAX_PIXELS", "500000000")
    (tmp_path / "large.png").write_bytes(png_header(20_000, 20_000))
    assert image_size(tmp_path / "large.png") == (20_000, 20_000)
    assert before == Image.MAX_IMAGE_PIXELS


@given(kept=st.floats(0, 0.98))
@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_a_file_cut_anywhere_is_named_corrupt(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, kept: float
) -> None:
    whole = tmp_path_factory.getbasetemp() / f"whole.{suffix}"
    PHOTO.save(whole)
    data = whole.read_bytes()
    path = whole.with_name(f"cut.{suffix}")
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(ImageCorrupt, match="cut"):
        read_image(path)


def test_other_formats_and_missing_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    with pytest.raises(ImageCorrupt, match="not an image"):
        read_image(tmp_path / "a.jpg")
    with pytest.raises(ImageMissing, match=r"b\.jpg does not exist"):
        read_image(tmp_path / "b.jpg")
    Image.fromarray(np.ones((4, 4), dtype=np.float32)).save(tmp_path / "c.tif")
    with pytest.raises(ImageCorrupt, match="floating-point"):
        read_image(tmp_path / "c.tif")


@pytest.mark.parametrize(
    "name",
    ["../a.jpg", "a/../../b.jpg", "/etc/passwd", "..\\a.jpg", "C:\\a.jpg", "\\\\host\\a.jpg", "a\0.jpg", "", None, 7],
)
def test_names_that_leave_the_folder_are_refused(name: object) -> None:
    with pytest.raises(ImageOutside):
        check_name(name, "record 1")


@pytest.mark.parametrize("name", ["a.jpg", "val/a.jpg", "a..b.jpg", "..a.jpg", "at 12:30.jpg"])
def test_odd_names_that_stay_inside_are_allowed(name: str) -> None:
    assert check_name(name, "record 1") == name


@pytest.mark.unix
def test_links_may_not_lead_out(tmp_path: Path) -> None:
    images, secret = tmp_path / "images", tmp_path / "secret.png"
    images.mkdir()
    PHOTO.save(secret)
    (images / "link.png").symlink_to(secret)
    source = FileSource(images / "link.png", images)
    for use in (source.read, source.key):
        with pytest.raises(ImageOutside, match="leads out"):
            use()
    PHOTO.save(images / "real.png")
    (images / "alias.png").symlink_to(images / "real.png")
    assert FileSource(images / "alias.png", images).key() == FileSource(images / "real.png", images).key()


def test_key_is_of_the_bytes_and_decodes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PHOTO.save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes())
    PHOTO.rotate(180).save(tmp_path / "c.png")

    def refuse(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", refuse)
    a, b, c = (FileSource(tmp_path / f"{name}.png", tmp_path).key() for name in "abc")
    assert a == b != c


def test_listing_is_sorted_and_skips_what_is_no_image(tmp_path: Path) -> None:
    for name in ["b.JPG", "a/z.png", "a/.hidden.png", ".git/x.png", "notes.txt"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert list_images(tmp_path) == ["a/z.png", "b.JPG"]
