"""What is wrong with OpenCV here, if anything: four packages of the index share its folder, and one needs a display's
libraries."""

from misdetect.said.errors import MisdetectError

_PACKAGES = "opencv-python opencv-python-headless opencv-contrib-python opencv-contrib-python-headless"


class BadOpenCv(MisdetectError):
    """OpenCV cannot be used: a library that it needs is missing, or another package took its files along."""

    kind = "bad-opencv"


def opencv_trouble() -> BadOpenCv | None:
    """Why OpenCV cannot be used, and the cure; ``None`` where it can."""
    try:
        import cv2
    except Exception as error:  # also what its own loader raises
        why = " ".join(str(error).split()).rstrip(".")
    else:
        if hasattr(cv2, "resize"):
            return None
        why = "its folder is there, but its library is not, as after one of two packages of it was uninstalled"
    return BadOpenCv(
        f"OpenCV cannot be used ({why}): pip uninstall -y {_PACKAGES}; then pip install opencv-python-headless."
    )
