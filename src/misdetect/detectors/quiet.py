"""Runtimes that write to the standard streams from C++, where no logging setting reaches them."""

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Nothing that is written to file descriptor 2 reaches it; errors are still raised."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
