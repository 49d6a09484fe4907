"""``scan``: transplant an object and watch the rest (paper 1, "The Elephant in the Room").

Read ``study`` beside the paper: it is the scan over a grid. ``pairs`` draws the pairs (I, J) and the object T,
``prepare`` chooses images for it, ``adaptive`` scans with fewer questions, ``truth`` says what is harmed; ``table``
makes Table I out of rows, ``phenomena`` the rest, ``ranking`` orders positions as the figures do, ``interference`` is
Fig. 3, ``suppression`` the discussion's chain through NMS, ``document`` all of it together. The arithmetic (eq. 1 to 3)
is in ``metrics/transplant``.
"""

from misdetect.studies.contract import Kind
from misdetect.studies.scan.compare import compare
from misdetect.studies.scan.document import document, ledger, numbers, sentences
from misdetect.studies.scan.interference import take_apart
from misdetect.studies.scan.prepare import prepare, rebuild
from misdetect.studies.scan.settings import ScanSettings
from misdetect.studies.scan.study import ScanStudy

SCAN = Kind(
    "scan", ScanSettings, prepare, document, ledger, sentences, numbers, rebuild, compare, by_document=True,
    after=take_apart, open_names=True
)  # fmt: skip

__all__ = ["SCAN", "ScanSettings", "ScanStudy"]
