"""``pool``: the objects that ``fuzz`` inserts, cut out, refined and stored."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, cast

from misdetect.api.studies import DataLike, keywords_for_last
from misdetect.data import load_data
from misdetect.pools.pool import Pool
from misdetect.pools.settings import PoolSettings
from misdetect.studies.segment import make_pool

P = ParamSpec("P")


def _pool(data: DataLike, how: PoolSettings) -> Pool:
    return make_pool(load_data(data), how)


def _function(settings: Callable[P, PoolSettings]) -> Callable[Concatenate[DataLike, P], Pool]:
    return cast("Callable[Concatenate[DataLike, P], Pool]", keywords_for_last(_pool, settings, "pool"))


pool = _function(PoolSettings)
