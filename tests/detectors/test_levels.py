"""A detector's level is what it offers, and one that offers too little is told so in one sentence."""

import pytest

from misdetect.nouns.protocols import Detector, Differentiable, Traced, Trainable, level, require
from misdetect.said.errors import LevelTooLow, MisdetectError

OFFERS = {
    "Detector": ("detect",),
    "Traced": ("detect", "trace"),
    "Differentiable": ("detect", "trace", "gradient"),
    "Trainable": ("detect", "trace", "gradient", "losses", "parameters", "state", "save", "load"),
}
PROTOCOLS = {"Detector": Detector, "Traced": Traced, "Differentiable": Differentiable, "Trainable": Trainable}


def offering(*methods: str, **attributes):
    """An object of an unrelated class that has ``names`` and these methods."""
    body = {name: lambda self, *arguments: None for name in methods}
    return type("Mine", (), {"names": ("thing",), **body, **attributes})()


PLAIN = {
    "Detector": "returns boxes only",
    "Traced": "looks inside, and gives no gradients",
    "Differentiable": "gives gradients, and cannot be retrained",
    "Trainable": "",
}
"""What each level is called where people meet it."""


@pytest.mark.parametrize("name", OFFERS)
def test_the_level_is_what_is_offered_without_inheriting_anything(name):
    detector = offering(*OFFERS[name])
    assert level(detector) == name
    ranks = list(OFFERS)
    for rank, (other, protocol) in enumerate(PROTOCOLS.items()):
        if rank <= ranks.index(name):
            assert require(detector, protocol, "a study", "never mind") is detector
        else:
            with pytest.raises(
                LevelTooLow, match=rf"a study needs a detector that .* \({other}\); Mine {PLAIN[name]}: use this."
            ):
                require(detector, protocol, "a study", "use this")


@pytest.mark.parametrize("methods", [("detect", "losses"), ("detect", "parameters", "save", "load")])
def test_half_a_level_is_none(methods):
    assert level(offering(*methods)) == "Detector"


def test_what_cannot_look_at_images_is_no_detector():
    stored = offering("load", spec="predictions:r.json")
    assert level(stored) == level(object()) == "none"
    with pytest.raises(LevelTooLow) as caught:
        require(stored, Detector, "detect", "score takes stored predictions as they are")
    assert str(caught.value) == (
        "detect needs a detector; predictions:r.json is none: score takes stored predictions as they are."
    )
    assert isinstance(caught.value, MisdetectError)
    assert caught.value.exit_code == 2
