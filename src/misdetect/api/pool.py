"""``pool``: the objects that ``fuzz`` inserts, cut out, refined and stored."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, cast

from misdetect.api.studies import DataLike, described
from misdetect.data import load_data
from misdetect.pools.pool import Pool
from misdetect.pools.settings import PoolSettings
from misdetect.studies.segment import make_pool

P = ParamSpec("P")


def _function(settings: Callable[P, PoolSettings]) -> Callable[Concatenate[DataLike, P], Pool]:
    def pool(data: DataLike, *args: P.args, **kwargs: P.kwargs) -> Pool:
        return make_pool(load_data(data), settings(*args, **kwargs))

    return cast("Callable[Concatenate[DataLike, P], Pool]", described(pool, settings))


pool = _function(PoolSettings)
