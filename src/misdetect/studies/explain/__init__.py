"""``explain``: why each object was missed (paper 3, "What's in the Black Box?").

Algorithm 1 itself is in ``metrics/mechanisms``. ``study`` asks the detector about each image, ``rows`` turns an answer
into one row per object, detection and suspicious region, ``outside`` is what remains to be said of a black box,
``regions`` the warning signal, ``potential`` what solving a mechanism would buy, ``document`` what a run says,
``compare`` several runs side by side (Fig. 5).
"""

from misdetect.studies.contract import Kind
from misdetect.studies.explain.compare import compare
from misdetect.studies.explain.document import document, ledger, numbers, sentences
from misdetect.studies.explain.settings import ExplainSettings
from misdetect.studies.explain.study import ExplainStudy, asked, prepare, rebuild

EXPLAIN = Kind(
    "explain", ExplainSettings, prepare, document, ledger, sentences, numbers, rebuild, compare, asked=asked,
    open_names=True
)  # fmt: skip

__all__ = ["EXPLAIN", "ExplainSettings", "ExplainStudy"]
