"""``scan``: transplant an object and watch the rest (paper 1, "The Elephant in the Room").

Read ``study`` beside the paper: it is the scan over a grid. ``pairs`` draws the pairs (I, J) and the object T,
``adaptive`` scans with fewer questions, ``results`` and ``effects`` make Table I and the rest out of rows, ``ranking``
orders positions as the figures do, ``interference`` is Fig. 3, ``suppression`` the discussion's chain through NMS. The
arithmetic (eq. 1 to 3) is in ``metrics/transplant``.
"""

from misdetect.studies.scan.pairs import Pair, Sizes, choose_pairs
from misdetect.studies.scan.study import Scanning, ScanStudy

__all__ = ["Pair", "ScanStudy", "Scanning", "Sizes", "choose_pairs"]
