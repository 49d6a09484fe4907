"""A training as a study: its run is read, shown, queried and compared like any other.

It is made by ``training.loop.Training`` and not by asking a detector, so it has neither cases that can be run again nor
objects for the ledger.
"""

from misdetect.studies.contract import Kind

TRAINING = Kind(
    "training",
    room=__name__,
    help="The trainings of harden and of the zoo.",
    group="better",
    title="What was learnt",
    settings="document:Recipe",
    prepare="document:prepare",
    rebuild="document:rebuild",
    ledger="document:ledger",
)
