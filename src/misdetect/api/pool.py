"""``pool``: the objects that ``fuzz`` inserts, cut out, refined and stored."""

from misdetect.api.studies import DataLike, with_keywords
from misdetect.data import load_data
from misdetect.pools.pool import Pool
from misdetect.pools.settings import PoolSettings
from misdetect.studies.segment import make_pool


def _pool(data: DataLike, how: PoolSettings) -> Pool:
    return make_pool(load_data(data), how)


pool = with_keywords(_pool, PoolSettings, "pool")
