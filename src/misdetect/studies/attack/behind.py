"""What stands behind the finding of an attack: the objects that are lost under the worst of them."""

from misdetect.studies.attack.charts import fallen, losses
from misdetect.studies.contract import Behind, Document


def behind(finding: Document, document: Document) -> Behind:
    """The objects that are lost under the attack that takes most."""
    name, worst = min(losses(document), key=lambda item: item[1]["AP50"])
    strong = document["ladder"] and document["ladder"]["verdict"]
    return Behind(
        {"study": ["attack"], "by": [name], "harm": ["harmful"]},
        fallen(document, name),
        sure=f"{worst['lost']:,} of {document['right']:,} objects lost, on {document['images']:,} images"
        + (f"; the attack's strength: {strong}" if strong else ""),
        gain="this fall under attack; on images as they are, nothing",
    )
