"""``attack``: which loss breaks a detector, and where the confusion goes (paper 5).

``plan`` says which attacks a run has, ``where`` which pixels they may change; ``study`` attacks (it raises a loss by
``studies/climb``) and looks, ``rows`` are what remains of it. ``prepare`` chooses images, ``transfer`` borrows the
gradients of another detector, ``ladder`` checks whether the attack is strong enough to mean anything, ``document``
counts, and ``verdict`` says it all in words. ``adversarial`` are the images that were made.
"""

from misdetect.studies.contract import Kind

ATTACK = Kind(
    "attack",
    room=__name__,
    help="Which loss breaks a detector, where the confusion goes, and whether the attack was strong enough to say so.",
    group="breaks",
    title="Which loss breaks it",
    example="--detector zoo:yolox --data rooms:val --losses cls,loc --eps 8 --steps 20 --out RUN",
    headlines=("clean.AP50", "attacks.cls.AP50", "attacks.loc.AP50"),
    by_document=True,
    settings="settings:AttackSettings",
    prepare="prepare:prepare",
    rebuild="prepare:rebuild",
    images="adversarial:images",
    after="prepare:after",
    asked="transfer:asked",
)
