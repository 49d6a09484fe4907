"""checkup: every study that a detector and its data allow, within a time, and one report: the main job."""

from misdetect.suites.checkup.run import Checkup, checkup, open_any
from misdetect.suites.checkup.settings import CheckupSettings

__all__ = ["Checkup", "CheckupSettings", "checkup", "open_any"]
