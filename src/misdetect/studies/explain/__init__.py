"""``explain``: why each object was missed (paper 3, "What's in the Black Box?").

Algorithm 1 itself is in ``metrics/mechanisms``. ``study`` asks the detector about each image, ``rows`` turns an answer
into one row per object, detection and suspicious region, ``outside`` is what remains to be said of a black box,
``regions`` the warning signal, ``potential`` what solving a mechanism would buy, ``summary`` the document, ``compare``
several runs side by side (Fig. 5).
"""

from misdetect.studies.explain.study import Explaining, ExplainStudy

__all__ = ["ExplainStudy", "Explaining"]
