"""``verify``: are the parts really there (paper 2, "Hallucination in Object Detection")?

Recalls and F_vv themselves are in ``metrics/parts``, causes in ``metrics/causes``. ``survey`` looks at the data before
anything is asked, ``study`` asks about each image, ``rows`` are its columns, ``context`` makes the edits that tell what
a hallucination hangs on, ``document`` and ``causes`` are what a run says, ``ledger`` its rows for the ledger.
"""

from misdetect.studies.contract import Kind
from misdetect.studies.verify.compare import compare
from misdetect.studies.verify.document import document, numbers, sentences
from misdetect.studies.verify.ledger import ledger
from misdetect.studies.verify.settings import VerifySettings
from misdetect.studies.verify.study import VerifyStudy, prepare, rebuild, stored

VERIFY = Kind("verify", VerifySettings, prepare, document, ledger, sentences, numbers, rebuild, compare, stored=stored)

__all__ = ["VERIFY", "VerifySettings", "VerifyStudy"]
