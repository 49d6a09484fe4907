"""``folder:DIR``: the images below a folder, without annotations.

For detectors that are run on whatever photos there are. Every image file counts, also in sub-folders; names are sorted.
"""

from pathlib import Path

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.data.faults import Malformed
from misdetect.data.images import list_images
from misdetect.data.table import Objects, Table
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec


def load_folder(spec: Spec) -> Dataset:
    """Open ``folder:DIR``. Lists the folder; reads an image's header when its sample is made."""
    root = Path(spec.target)
    spec.finish()
    if not root.is_dir():
        raise Malformed(f"{root} is not a folder; expected one with images.")
    names = list_images(root)
    if not names:
        raise Malformed(f"{root} holds no image; expected .jpg, .png or the like.")
    none = np.zeros(0, dtype=np.int64)
    sizes = np.zeros((len(names), 2), dtype=np.int64)
    table = Table(root, names, sizes, Objects(image=none, boxes=np.zeros((0, 4)), labels=none))
    # Names and sizes stand for the content: hashing every photo would read them all.
    contents = [(name, (root / name).lstat().st_size) for name in names]
    return table.dataset(spec.text, (), fingerprint=digest("folder", contents), category_ids=())
