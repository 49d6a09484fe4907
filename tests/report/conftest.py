"""The report of a real checkup, made once, and one of data whose names are hostile."""

import json
from importlib import import_module

import numpy as np
import pytest
from browsed import EVIL, Opened
from page_parts import Page

import misdetect as md
from misdetect.data.memory import from_pairs


@pytest.fixture(scope="session")
def checked(made_once):
    """A checkup of the embedded detector on a few images: every study but verify."""
    return md.open(made_once("report", make_checkup))


def make_checkup(out):
    """Planned here, and not by how fast this computer is; attacks of a few steps."""
    out.mkdir()
    asked, plan = {"minutes": 0.1, "limit": None, "images": 12}, {"images": 12, "scan": 80, "fuzz": 32, "attack": 4}
    (out / "plan.json").write_text(json.dumps({"for": asked, "plan": plan}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("misdetect.studies.attack.checkup"), "_STEPS", 4)
        md.checkup("zoo:yolox", "rooms:val,count=12", minutes=0.1, pictures=1, out=out)


@pytest.fixture(scope="session")
def page(checked):
    return Page(checked.report)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """The page of data and a detector whose classes have names that are markup."""
    generator = np.random.default_rng(0)
    pairs = []
    for _ in range(4):
        image = generator.integers(0, 255, (64, 80, 3)).astype(np.uint8)
        pairs.append((image, {"boxes": [[4, 4, 30, 30], [40, 10, 70, 50]], "labels": [0, 1]}))
    answer = ([[5, 5, 30, 30], [41, 10, 70, 50], [2, 40, 20, 60]], [0.9, 0.8, 0.7], [1, 1, 2])
    detector = md.load_detector(lambda images: [answer] * len(images), names=EVIL)
    data = from_pairs(pairs, EVIL)
    folder = tmp_path_factory.mktemp("hostile") / "up"
    return Page(md.checkup(detector, data, minutes=0.1, pictures=1, out=folder).report)


@pytest.fixture
def open_page(browser):
    opened = []

    def open_(path, **how):
        opened.append(Opened(browser, path, **how))
        return opened[-1]

    yield open_
    for each in opened:
        each.tab.close()
