"""What a checkup asks before all others: what cannot be asked at all cannot be checked."""

from misdetect.studies.contract import InCheckup

CHECKUP = InCheckup(20, lambda examined: {"limit": examined.plan["images"]}, required=True)
