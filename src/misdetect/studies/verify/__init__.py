"""``verify``: are the parts really there (paper 2, "Hallucination in Object Detection")?

Recalls and F_vv themselves are in ``metrics/parts``, causes in ``metrics/causes``. ``survey`` looks at the data before
anything is asked, ``study`` asks about each image, ``rows`` are what remains of it, ``context`` makes the edits that
tell what a hallucination hangs on, ``table`` reads the rows again, ``document`` and ``causes`` are what a run says.
"""

from misdetect.studies.contract import Kind

VERIFY = Kind(
    "verify",
    room=__name__,
    help="Are the parts really there: recall of present and missing parts, and what hallucinations hang on.",
    group="why",
    title="Does it see parts that are missing?",
    example="--detector zoo:yolox-bikes --data bikes:val --out RUN",
    headlines=("with_localisation.f_vv",),
    settings="settings:VerifySettings",
    stored="study:stored",
)
