"""The picture of a report in README and on the site: ``python tools/report_picture.py checkup/report.html`` writes it.

What the page says first stands above its first failures; what lies between is left out. Needs Chromium.
"""

import io
import os
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "report.png"
WIDTH, ROWS, LIMIT = 1440, 520, 200_000
"""Pixels across, of the failures downwards, and bytes of the file."""


def parts(page: Page) -> list[Image.Image]:
    """The title with three findings, and the first two rows of failures with what filters them."""
    third = page.locator(".findings > :nth-child(3)").bounding_box()
    gallery = page.locator("md-gallery").bounding_box()
    assert third is not None
    assert gallery is not None
    return [_seen(page, 0, third["y"] + third["height"] + 8), _seen(page, gallery["y"], gallery["y"] + ROWS)]


def _seen(page: Page, top: float, bottom: float) -> Image.Image:
    clip = {"x": 0, "y": top, "width": WIDTH, "height": bottom - top}
    return Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip))).convert("RGB")


def written(report: Path) -> None:
    """Write the picture of ``report``."""
    chromium = os.environ.get("MISDETECT_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 2600}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        page.wait_for_timeout(2000)
        above, below = parts(page)
        browser.close()
    whole = Image.new("RGB", (WIDTH, above.height + below.height), "white")
    whole.paste(above, (0, 0))
    whole.paste(below, (0, above.height))
    for colours in (256, 128, 64):
        whole.quantize(colours, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
        if PICTURE.stat().st_size <= LIMIT:
            return
    raise SystemExit(f"{PICTURE} has {PICTURE.stat().st_size} bytes, more than {LIMIT}.")


if __name__ == "__main__":
    written(Path(sys.argv[1]))
