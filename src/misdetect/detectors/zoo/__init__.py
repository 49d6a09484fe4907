"""The small detectors that come with the package, trained by this project (``weights/``)."""
