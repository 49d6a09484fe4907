"""What a checkup does with explain: the images that every plain look is given."""

from misdetect.studies.contract import InCheckup

CHECKUP = InCheckup(40, lambda examined: {"limit": examined.plan["images"]})
