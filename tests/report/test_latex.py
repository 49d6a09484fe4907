"""A study without a table of its paper says so."""

import pytest

from misdetect.report.latex import latex
from misdetect.said.errors import BadData


def test_a_study_without_a_table_is_refused():
    with pytest.raises(BadData, match="no table that a run of detect fills; those of attack, explain"):
        latex([{"study": "detect"}])
