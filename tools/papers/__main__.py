"""``make papers [ARGS="--quick --fixtures DIR"]``: run what is missing, draw the figures, write docs/papers.md."""

import argparse
import sys
from pathlib import Path

from misdetect.kept.files import write_atomically
from papers.catalogue import FOLDER, ROOT, Catalogue
from papers.figures import DOCS, draw, listed
from papers.page import page
from papers.runs import Places, run_missing
from papers.verdicts import Results


def main() -> int:
    """Exit code 1 where something could not be run; the page is written all the same, from what there is."""
    parser = argparse.ArgumentParser(prog="make papers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="minutes instead of hours, with wider intervals")
    fixtures = ROOT.parent / "shared" / "fixtures"
    parser.add_argument("--fixtures", type=Path, default=fixtures, help="folder of photos and real detectors")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "papers", help="where run directories are kept")
    parser.add_argument("--only", nargs="*", default=[], help="runs by the beginning of their name, as scan-ssd")
    parser.add_argument("--page", action="store_true", help="run nothing, only write the page and its figures again")
    chosen = parser.parse_args()
    places = Places(chosen.runs.resolve(), FOLDER / "results", chosen.fixtures.resolve())
    catalogue = Catalogue()
    failed = [] if chosen.page else run_missing(catalogue, "quick" if chosen.quick else "full", places, chosen.only)
    results = Results(places.results)
    draw(catalogue, results, places)
    write_atomically(DOCS / "papers.md", page(catalogue, results, listed(catalogue, results, places)).encode())
    for line in failed:
        print(f"not run: {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Interrupted; the same command goes on.")
