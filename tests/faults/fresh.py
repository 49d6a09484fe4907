"""A process that has computed nothing yet, for what forks: a child of one that has is without the threads that
libraries (hotcoco, Arrow, torch) started, and waits for them for ever."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

T = TypeVar("T")


def in_fresh_process(function: Callable[..., T], *args: object, **kwargs: object) -> T:
    """What ``function``, which must be importable by its name, returns there."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()
