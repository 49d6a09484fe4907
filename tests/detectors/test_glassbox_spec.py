"""Specs of the glass box: what is read, whom options reach, and one sentence for each mistake."""

import pytest
from glassbox_toys import COCO66, NAMES, toys

from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import (
    FAULTS,
    Cap,
    HallucinatePart,
    MoveNear,
    NoProposal,
    OtherClass,
    Shift,
    Sink,
    TopK,
    parse_faults,
)
from misdetect.said.errors import BadSpec

READ = {
    "none": (),
    "no-proposal/class=cup,bowl/size=small": (NoProposal(classes=("cup", "bowl"), size="small"),),
    "shift/shift=.7/region=0:0:.5:1+sink/rate=.25/seed=3": (
        Shift(shift=0.7, region=(0, 0, 0.5, 1)),
        Sink(rate=0.25, seed=3),
    ),
    "other-class/to=dog+top-k/k=9+cap/cap=4": (OtherClass(to="dog"), TopK(k=9), Cap(cap=4)),
    "move-near/distance=12.5/shift=.8": (MoveNear(distance=12.5, shift=0.8),),
    "hallucinate-part/neighbours=2": (HallucinatePart(neighbours=2),),
}


@pytest.mark.parametrize(("text", "faults"), READ.items())
def test_faults_are_read(text, faults):
    assert parse_faults(text, {}) == faults


def test_shared_options_reach_the_faults_that_know_them():
    assert parse_faults("shift+top-k/k=2+sink", {"shift": ".8"}) == (Shift(shift=0.8), TopK(k=2), Sink())
    assert parse_faults("shift+sink/rate=.9", {"rate": ".5"}) == (Shift(rate=0.5), Sink(rate=0.9))


@pytest.mark.parametrize("kind", FAULTS.values(), ids=list(FAULTS))
def test_a_fault_prints_the_call_that_makes_it(kind):
    fault = kind() if kind in (TopK, Cap) else kind(classes=("cup",), rate=0.5, region=(0, 0, 1, 0.5))
    assert eval(repr(fault), {kind.__name__: kind}) == fault


def test_the_spec_makes_a_detector_of_the_data_it_names():
    if not COCO66.exists():
        pytest.skip("the coco66 fixture is not there")
    text = f"glassbox:sink,class=person,rate=.5,visible=.4,data=coco:{COCO66},images={COCO66.parent / 'images'}"
    detector = load_detector(text)
    assert isinstance(detector, GlassBox)
    assert detector.faults == (Sink(classes=("person",), rate=0.5),)
    assert (detector.visible, len(detector.dataset), detector.spec) == (0.4, 66, text)
    assert detector.settings["faults"] == ["Sink(classes=('person',), rate=0.5)"]


def test_options_after_data_belong_to_the_data():
    detector = load_detector("glassbox:sink/size=small,data=rooms:val,size=64,count=2")
    assert detector.faults == (Sink(size="small"),)
    assert (len(detector.dataset), detector.dataset[0].width) == (2, 64)


WRONG = {
    "glassbox:sink": "needs data=SPEC",
    "glassbox:melt,data=rooms:val": "there is no fault 'melt'",
    "glassbox:sink/colour=red,data=rooms:val": "sink has no option 'colour=red'",
    "glassbox:sink,distance=3,data=rooms:val": "no fault has the option 'distance'",
    "glassbox:none,rate=.5,data=rooms:val": "there is no fault that could take the option 'rate'",
    "glassbox:sink,rate=2,data=rooms:val": "rate should be a share from 0 to 1",
    "glassbox:sink,rate=half,data=rooms:val": "rate=half cannot be read",
    "glassbox:sink,size=huge,data=rooms:val": "size should be small, medium, large or LOW:HIGH",
    "glassbox:sink,region=0:0:0:1,data=rooms:val": "region should be",
    "glassbox:shift,shift=1.5,data=rooms:val": "shift should be a share",
    "glassbox:cap,rate=.5,data=rooms:val": "it applies to whole images",
    "glassbox:sink,class=unicorn,data=rooms:val": "has no class 'unicorn'",
    "glassbox:other-class,to=unicorn,data=rooms:val": "has no class 'unicorn'",
    "glassbox:none,unknown=maybe,data=rooms:val": "is not one of error, empty",
    "glassbox:none,visible=7,data=rooms:val": "visible should be a share",
    "glassbox:hallucinate-part,data=rooms:val": "needs data with part states",
    "glassbox:none,data=attic:val": "'attic' is none of",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items())
def test_mistakes_are_named(text, message):
    with pytest.raises(BadSpec, match=message):
        load_detector(text)


def test_data_that_cannot_carry_the_fault_is_refused():
    lonely = Dataset("lonely", ("cup",), 0, lambda i: toys()[i], fingerprint="x")
    with pytest.raises(BadSpec, match="no second class"):
        GlassBox(lonely, [OtherClass()])
    with pytest.raises(BadSpec, match="has no classes"):
        GlassBox(Dataset("bare", (), 0, lambda i: toys()[i], fingerprint="x"))
    assert GlassBox(toys()).names == NAMES
