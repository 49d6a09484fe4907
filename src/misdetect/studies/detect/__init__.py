"""``detect``: the plainest study. One case per image, one row per detection; what every other study is built like."""

from misdetect.studies.contract import Kind

DETECT = Kind(
    "detect",
    room=__name__,
    help="Run a detector over data and write COCO results (category ids of the data).",
    group="data",
    title="What it reports",
    example="--detector onnx:yolox_nano.onnx,decoder=yolox,names=coco --data coco:instances.json --out results.json",
    open_names=True,
    settings="study:DetectSettings",
    ledger="study:ledger",
    document="study:document",
    sentences="study:sentences",
    numbers="study:numbers",
    results="study:results",
)
