"""Who is paired with whom, so that all pairs together weigh most: the assignment problem.

Shortest augmenting paths (Crouse, IEEE TAES 52(4), 2016), a row at a time. Where several assignments weigh the same,
it decides as SciPy's ``linear_sum_assignment`` does, which the tests hold it to.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FREE = -1


def heaviest(weights: Floats) -> tuple[Ints, Ints]:
    """Rows and columns, rows ascending, of the min(N, M) pairs of a finite ``[N, M]`` matrix that weigh the most."""
    if weights.shape[1] < weights.shape[0]:
        columns, rows = heaviest(weights.T)
        order = np.argsort(rows)
        return rows[order], columns[order]
    cost = -weights
    row_prices, column_prices = np.zeros(cost.shape[0]), np.zeros(cost.shape[1])
    row_of, column_of = np.full(cost.shape[1], _FREE), np.full(cost.shape[0], _FREE)
    for row in range(len(cost)):
        _assign(row, cost, row_prices, column_prices, row_of, column_of)
    return np.arange(len(cost)), column_of


def _assign(start: int, cost: Floats, row_prices: Floats, column_prices: Floats, row_of: Ints, column_of: Ints) -> None:
    """Give the row ``start`` a column, others moving to another where that is cheaper; all but ``cost`` is changed."""
    columns = cost.shape[1]
    # from the last to the first, so that where all is equal each row takes the column of its own number
    open_columns = np.arange(columns)[::-1].copy()
    left, came_from, shortest = columns, np.full(columns, _FREE), np.full(columns, np.inf)
    rows, closed, row, so_far = [], [], start, 0.0
    while True:
        rows.append(row)
        there = open_columns[:left]
        lengths = so_far + cost[row, there] - row_prices[row] - column_prices[there]
        shorter = there[lengths < shortest[there]]
        came_from[shorter] = row
        shortest[there] = np.minimum(shortest[there], lengths)
        so_far = float(shortest[there].min())
        nearest = np.flatnonzero(shortest[there] == so_far)
        ends = nearest[row_of[there[nearest]] == _FREE]  # of equally near columns, one where the path ends
        place = int(ends[-1]) if ends.size else int(nearest[0])
        column = int(there[place])
        closed.append(column)
        if ends.size:
            break
        row, left = int(row_of[column]), left - 1
        open_columns[place] = open_columns[left]
    row_prices[start] += so_far
    moved = np.array(rows[1:], dtype=np.int64)
    row_prices[moved] += so_far - shortest[column_of[moved]]
    column_prices[closed] -= so_far - shortest[closed]
    while True:
        row = int(came_from[column])
        row_of[column] = row
        column, column_of[row] = int(column_of[row]), column
        if row == start:
            return
