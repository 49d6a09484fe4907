"""What has to hold before this detector is shipped. Which detector, and on what data, is in pytest.ini."""

import pytest

import misdetect as md


def test_it_scores_enough(misdetect_detector, misdetect_data, misdetect_out):
    md.assert_score(misdetect_detector, misdetect_data, AP50=0.6, AR100=0.4, out=misdetect_out / "score")


def test_it_reports_no_parts_that_are_missing(misdetect_detector, misdetect_data, misdetect_out):
    md.assert_no_hallucination(misdetect_detector, misdetect_data, most=0.1, out=misdetect_out / "verify")


def test_nothing_vanishes_beside_an_inserted_object(misdetect_detector, misdetect_data, misdetect_out):
    md.assert_stable(misdetect_detector, misdetect_data, most=20, queries=24, out=misdetect_out / "fuzz")


@pytest.mark.parametrize("gate", ["miss_rate > 0.3", "failed > 0"])
def test_no_gate_fails(explained, gate):
    (verdict,) = explained.check(gate)
    assert not verdict.failed, verdict.says


@pytest.fixture(scope="session")
def explained(misdetect_detector, misdetect_data):
    return md.explain(misdetect_detector, misdetect_data)
