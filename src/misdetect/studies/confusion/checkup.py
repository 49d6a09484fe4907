"""What a checkup does with confusion, where anything is annotated."""

from misdetect.studies.contract import InCheckup

CHECKUP = InCheckup(50, lambda examined: {"limit": examined.plan["images"]} if examined.annotated else None)
