"""Which positions a figure shows, on a few written down by hand."""

from written_runs import position, thing, write

from misdetect.studies.scan.ranking import ranked


def test_each_position_adds_most_classes_that_were_not_seen_so_far(tmp_path):
    cup, own = [thing("cup", outcome="kept")], thing("cup", own=True)
    run = write(
        tmp_path / "run",
        [
            position(0, 0, [thing("bowl", score=0.9), own], cup),
            position(8, 0, [thing("bowl"), thing("bed"), own], cup),
            position(0, 8, [thing("vase", score=0.3), thing("bed", score=0.9)], cup),
            position(8, 8, [thing("vase", score=0.6), thing("vase", score=0.1)], cup),
            position(9, 9, [thing("cup", score=0.9)], cup),
            position(5, 5, [thing("bowl"), thing("bed"), thing("lamp")], cup, pair=1),
            position(5, 5, [thing("bowl"), thing("bed"), thing("lamp")], cup, condition="control"),
        ],
    )
    found = ranked(run, 0)
    places = [(each.x, each.y) for each in found]
    assert places == [(0, 8), (0, 0)], "two classes that are surer than the two of another, then what is left"
    assert [[new["label"] for new in each.new] for each in found] == [["vase", "bed"], ["bowl"]]
    assert [each.objects[0]["label"] for each in found] == ["cup", "cup"]
    assert [(each.x, each.y) for each in ranked(run, 0, 1)] == places[:1]
    assert [len(each.new) for each in ranked(run, 1)] == [3]
    assert [len(each.new) for each in ranked(run, 0, condition="control")] == [3]
    assert ranked(run, 2) == []


def test_of_equal_positions_the_upper_left_comes_first(tmp_path):
    bed = [thing("bed")]
    run = write(tmp_path / "run", [position(9, 9, bed), position(3, 9, bed), position(7, 2, bed), position(4, 2, bed)])
    (found,) = ranked(run, 0)
    assert (found.x, found.y) == (4, 2)
