"""The DETR family of transformers, looked into and differentiated."""

from pathlib import Path

from misdetect.detectors.family import DOWNLOADED, Family

FAMILY = Family(
    "the DETR family of transformers",
    "Trainable",
    "hf:PATH-OR-ID",
    "misdetect.detectors.hf.detector:load_hf",
    recognises=lambda path: (path / "config.json").is_file(),
    needs=("torch", "safetensors", "transformers"),
    extra="hf",
    reach=lambda spec: None if Path(spec.target).exists() else DOWNLOADED,
    trained_later=True,
    place=30,
)
