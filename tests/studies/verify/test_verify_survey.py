"""What data says of its parts: which are counted, who lends pixels, and what is refused; on parts written by hand."""

import numpy as np
import pytest
from verify_toys import BOXES, NAMES, SIZE, Noise, data

from misdetect.data.dataset import Sample
from misdetect.nouns.detections import Truth
from misdetect.said.errors import BadData
from misdetect.studies.verify.settings import VerifySettings
from misdetect.studies.verify.survey import DONORS, Survey, groups, survey

HOW = VerifySettings()
KNOWN = np.arange(3)


def parts(states, labels=(0, 1, 2), boxes=BOXES, crowd=None):
    return Truth(boxes, labels, states=states, crowd=crowd)


def made(*truths):
    """Data of these truths."""
    return data(len(truths), lambda i: Sample(f"p{i}", Noise(i), truths[i], SIZE, SIZE))


def test_a_part_is_present_missing_or_left_out_for_the_first_reason():
    flat = np.repeat(BOXES[:1], 7, axis=0)
    flat[:5, 2] = flat[:5, 0]
    truth = parts(("absent", "occluded", "absent", "absent", "absent", "absent", "intact"), [0] * 7, flat,
                  crowd=np.arange(7) == 0)  # fmt: skip
    how = VerifySettings(missing=("absent",), ignored=("occluded",))
    known = np.array([False, False, False, True, True, True, True])
    assert groups(truth, known, how) == [
        "crowd", "ignored-state", "unknown-class", "no-box", "no-box", "missing", "present"
    ]  # fmt: skip
    assert groups(Truth.empty(), np.zeros(0, bool), how) == []


def test_images_in_which_a_part_is_missing_lend_their_pixels():
    truths = [parts(("absent", "intact", "intact")), parts(("intact",) * 3), parts(("absent", "absent", "intact")),
              parts(("absent",), [2], BOXES[2:])]  # fmt: skip
    found = survey(made(*truths), KNOWN, HOW)
    assert found.missing == {0: [0, 2], 1: [2], 2: [3]}
    unknown = survey(made(*truths), np.array([-1, 0, 1]), HOW)
    assert unknown.missing == {1: [2], 2: [3]}, "a part that the detector does not know is not judged"


@pytest.mark.parametrize("count", [0, 1, 2, DONORS - 1, DONORS, DONORS + 1, 2 * DONORS, 100])
def test_donors_are_a_few_other_images_spread_over_the_data(count):
    images = list(range(10, 10 + count))
    found = Survey({4: images})
    everybody = found.donors(4, -1)
    assert set(everybody) <= set(images)
    assert min(count, DONORS // 2 + 1) <= len(everybody) <= DONORS
    assert len(set(np.diff(everybody).tolist())) <= 1, "evenly"
    if count:
        assert (everybody[0], images[-1] - everybody[-1] < max(count / 4, 1)) == (10, True)
    for image in images:
        assert found.donors(4, image) == [other for other in everybody if other != image]
        assert found.donors(4, image) or count == 1
    assert found.donors(3, 0) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (made(), "toys has no images."),
        (made(Truth.empty()), "toys: it has no states of parts; verify needs"),
        (
            made(*[parts(None)] * 2, Truth.empty(), parts(("intact",) * 3)),
            "toys: 2 of 4 images have no states of parts",
        ),
        (
            made(parts(("a", "b", "b")), parts(("c", "d", "e")), parts(("f", "intact", "absent"))),
            r"7 of 9 parts have a state .* \(2 'b', 1 'a', 1 'c', 1 'd', 1 'e', …\); name it",
        ),
        (
            made(parts(("a", "b", "b")), parts(("c", "d", "e")), parts(("intact",) * 3)),
            r"6 of 9 parts have a state .* \(2 'b', 1 'a', 1 'c', 1 'd', 1 'e'\); name it",
        ),
        (
            made(parts(("intact",) * 3, [0, 0, 0]), parts(("intact",) * 3, [1, 2, 2]), parts(("intact",) * 3)),
            r"more than once in an image, 2 times in all \(first: 'bell' 3 times in image 'p0'\)",
        ),
    ],
)
def test_what_is_wrong_is_said_with_counts(given, says):
    with pytest.raises(BadData, match=says):
        survey(given, KNOWN, HOW)


def test_crowds_are_no_second_part_and_data_of_which_nothing_counts_is_refused():
    crowd = parts(("intact",) * 3, [0, 0, 1], crowd=np.array([True, False, False]))
    assert survey(made(crowd), KNOWN, HOW).missing == {}
    with pytest.raises(BadData, match=r"none of its 6 parts can be counted \(6 'unknown-class'\)"):
        survey(made(*[parts(("intact", "absent", "intact"))] * 2), np.full(len(NAMES), -1), HOW)
    for state in ("intact", "absent"):
        survey(made(parts((state,), [0], BOXES[:1])), KNOWN, HOW)
