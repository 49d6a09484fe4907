"""What ``assert_stable(detector, data, most=0.1, by="brightness")`` holds of a run."""

from misdetect.studies.contract import Claim

CLAIMS = {"stable": Claim("lost", "intervals.lost[0]", "condition = 'darkened' AND harm = 'harmful'")}
