"""Networks in files, by what runs them: how a file is opened, which input is the image, how a batch is run. What they
share is in ``exported``."""

from misdetect.detectors.family import CODE, Family

TFLITE = Family(
    "TensorFlow Lite files, float or quantised",
    "Detector",
    "tflite:FILE,names=FILE",
    "misdetect.detectors.runtimes.tflite:load_tflite",
    needs=("ai_edge_litert",),
    extra="tflite",
    place=60,
)
SAVEDMODEL = Family(
    "folders of the TensorFlow Object Detection API",
    "Detector",
    "savedmodel:FOLDER,names=coco91",
    "misdetect.detectors.runtimes.savedmodel:load_savedmodel",
    needs=("tensorflow",),
    extra="tensorflow",
    place=70,
)
OPENVINO = Family(
    "OpenVINO's XML files, with a decoder",
    "Detector",
    "openvino:FILE.xml,decoder=yolo11,names=coco",
    "misdetect.detectors.runtimes.openvino:load_openvino",
    needs=("openvino",),
    extra="openvino",
    place=80,
)
TORCHSCRIPT = Family(
    "TorchScript archives that you trust, with a decoder",
    "Detector",
    "torchscript:FILE,trust=yes,decoder=yolo11,size=640,names=coco",
    "misdetect.detectors.runtimes.torchscript:load_torchscript",
    needs=("torch",),
    extra="torch",
    reach=lambda spec: CODE,
    place=90,
)
