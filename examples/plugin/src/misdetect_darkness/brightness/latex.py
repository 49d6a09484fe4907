"""The table of runs as a paper prints it."""

from collections.abc import Iterator, Sequence

from misdetect.drawing.tables import Table, called, number
from misdetect.studies.contract import Document


def tables(documents: Sequence[Document]) -> Iterator[Table]:
    """Percent of the objects that are lost, by the light left."""
    lights = list(documents[0]["by_light"])
    rows = [[called(each), *(number(each["by_light"].get(light), times=100) for light in lights)] for each in documents]
    yield Table("Objects lost, in percent, by the light left.", ["", *lights], rows)
