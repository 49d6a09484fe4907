"""``Budget``: how many queries, dollars and minutes a run may spend, and the promise that it never spends more.

A query is taken *before* it is sent, so a process that dies owes nothing. With a ``path`` the count lives in a small
file under a lock that threads, processes and resumed runs share; without one it lives in memory, in one process.
Dollars are whole nano-dollars, so they do not drift. This is not a rate limiter, and it never gives a query back.

Where the file is in the mirror of a store, the store holds a count that is never lower: queries are entered there some
at a time, before the first of them is taken. A machine that goes on for one that was lost counts all of them as spent.
"""

import os
import re
import threading
import time
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

from misdetect.kept.files import remove
from misdetect.kept.mirror import Mirror, mirror_of
from misdetect.kept.system import locked, open_plainly, read_first, unlink, write_first
from misdetect.said.errors import BadData, BadSpec, BudgetSpent

AHEAD = 32
"""Queries that are entered in a store at a time."""
_NANO = 10**9
_MAX = 10**20 - 1
_RECORD = re.compile(rb"misdetect budget\nqueries (\d{20})\nnanousd (\d{20})\n")
_SIZE = len(b"misdetect budget\n") + 2 * (len(b"queries ") + 21)


def _nano(usd: float, rounding: str) -> int:
    """``usd`` in nano-dollars, by its shortest decimal form: 0.001 means a thousandth, not the float beside it."""
    return int((Decimal(repr(float(usd))) * _NANO).to_integral_value(rounding))


def _record(count: tuple[int, int]) -> bytes:
    return b"misdetect budget\nqueries %020d\nnanousd %020d\n" % tuple(min(each, _MAX) for each in count)


def _check(name: str, value: float | None, whole: bool) -> None:
    if value is None:
        return
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value <= 10**9:
        what = "a whole number" if whole else "a number"
        raise BadSpec(f"Expected a budget's {name} to be {what} from 0 to 1000000000. Got {value!r}.")


class Budget:
    """Limits on ``queries`` and ``usd`` (at ``price`` USD each; ``None`` is no limit), counted in the file ``path``.

    The count in the file goes on where earlier runs stopped; limits and price are this object's own, so a run can be
    resumed with larger ones. ``minutes`` count from when this object was made, by a clock that nobody sets (copies in
    workers share it), so a resumed run has them anew. A killed process loses nothing; a power cut may lose the last
    seconds of the count.
    """

    def __init__(
        self,
        queries: int | None = None,
        usd: float | None = None,
        price: float = 0.0,
        minutes: float | None = None,
        path: Path | None = None,
    ) -> None:
        _check("queries", queries, whole=True)
        for name, value in (("usd", usd), ("price", price), ("minutes", minutes)):
            _check(name, value, whole=False)
        if usd is not None and price == 0:
            raise BadSpec(f"A budget of {usd:g} USD needs the price of one query: give price=USD as well.")
        self.queries, self.usd, self.price, self.minutes = queries, usd, price, minutes
        self.path = None if path is None else Path(os.path.abspath(path))
        # Rounded against the spender, so that rounding can never let one query too many through.
        self._price = _nano(price, ROUND_CEILING)
        self._usd = None if usd is None else _nano(usd, ROUND_FLOOR)
        self._deadline = None if minutes is None else time.monotonic() + 60 * minutes
        self._mirror = None if self.path is None else mirror_of(self.path)
        self._goes_on = self.path is not None and self.path.exists()
        self._restore()

    def _restore(self) -> None:
        self._memory = (0, 0)
        self._lock = threading.Lock()
        self._file: int | None = None
        self._pid = os.getpid()
        if self.path is not None and self.path.exists():  # else it is made with the first query
            with self._lock:
                self._locked(0)

    def take(self, n: int = 1) -> None:
        """Count ``n`` queries about to be sent, all or none of them: ``BudgetSpent`` where they are not allowed."""
        if self._spend(n, whole=True) < n:
            spent = self.spent
            raise BudgetSpent(
                f"The budget of {self._limits()} does not allow {n} more {'query' if n == 1 else 'queries'}: "
                f"{spent['queries']} queries and {spent['usd']:g} USD are spent; resume with a larger one."
            )

    def grant(self, n: int) -> int:
        """Count up to ``n`` queries, and say how many of them are allowed."""
        return self._spend(n, whole=False)

    def left(self) -> int | None:
        """How many more queries are allowed now; ``None`` where nothing limits them."""
        return self._allowed(*self._count())

    @property
    def spent(self) -> dict[str, int | float]:
        """``{"queries": …, "usd": …}`` so far, by all who share the file."""
        queries, nano = self._count()
        return {"queries": queries, "usd": nano / _NANO}

    def forget(self) -> None:
        """Remove the count, if it began with this object."""
        if self.path is not None and not self._goes_on:
            self.close()
            remove(self.path)
            unlink(self._entered)

    def settle(self) -> None:
        """Enter the exact count in the store, where there is one: nothing is under way any more."""
        if self._mirror is not None and self.path is not None and self.path.exists():
            with self._lock:
                file = self._open()
                with locked(file):
                    self._enter(self._mirror, self._read(file))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.close()

    def __repr__(self) -> str:
        return f"Budget({self._limits()}{'' if self.path is None else f', counted in {self.path}'})"

    def __getstate__(self) -> dict[str, Any]:
        limited = self.queries is not None or self.usd is not None
        if self.path is None and limited:
            raise BadSpec(
                f"The budget of {self._limits()} is counted in memory and cannot be shared with another process, which "
                "would spend it a second time: give it a file (path= of Budget, budget_file= of a detector spec)."
            )
        hidden = ("_memory", "_lock", "_file", "_pid", "_mirror")
        return {name: value for name, value in self.__dict__.items() if name not in hidden}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._mirror = None if self.path is None else mirror_of(self.path)
        self._restore()

    def _limits(self) -> str:
        parts = [] if self.queries is None else [f"{self.queries} queries"]
        parts += [] if self.usd is None else [f"{self.usd:g} USD at {self.price:g} each"]
        parts += [] if self.minutes is None else [f"{self.minutes:g} minutes"]
        return ", ".join(parts) or "no limit"

    def _allowed(self, queries: int, nano: int) -> int | None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return 0
        room = [] if self.queries is None else [self.queries - queries]
        room += [] if self._usd is None else [(self._usd - nano) // self._price]
        return max(0, min(room)) if room else None

    def _spend(self, n: int, whole: bool) -> int:
        """Count up to ``n`` (``whole``: all or none) and return how many were counted."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise ValueError(f"Expected a number of queries >= 0. Got {n!r}.")
        with self._lock:
            if self.path is not None:
                return self._locked(n, whole)
            self._memory, counted = self._after(self._memory, n, whole)
            return counted

    def _after(self, count: tuple[int, int], n: int, whole: bool) -> tuple[tuple[int, int], int]:
        """The count after as many of ``n`` queries as are allowed, and how many those are."""
        room = self._allowed(*count)
        if room is not None and room < n:
            n = 0 if whole else room
        return (count[0] + n, count[1] + n * self._price), n

    def _count(self) -> tuple[int, int]:
        with self._lock:
            if self.path is None:
                return self._memory
            if self._file is None and not self.path.exists():
                return 0, 0
            file = self._open()
            with locked(file, shared=True):
                return self._read(file)

    def _locked(self, n: int, whole: bool = False) -> int:
        """``_after`` on the file, under its lock, written before it returns."""
        file = self._open()
        try:
            with locked(file):
                count, counted = self._after(self._read(file), n, whole)
                if counted:
                    if self._mirror is not None:
                        self._enter_ahead(self._mirror, count)
                    # A write this small inside one page is whole or absent, also when the process is killed here.
                    write_first(file, _record(count))
                return counted
        except OSError as error:
            raise BadData(f"The budget file {self.path} cannot be written: {error.strerror}.") from None

    def _open(self) -> int:
        # A forked child shares its parent's open file and with it the lock, which would then exclude nobody.
        if self._file is not None and self._pid != os.getpid():
            os.close(self._file)
            self._file = None
        if self._file is None:
            assert self.path is not None
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = open_plainly(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise BadData(f"The budget file {self.path} cannot be opened: {error.strerror}.") from None
            self._pid = os.getpid()
            if self._mirror is not None:
                self._go_by(self._mirror, self._file)
        return self._file

    @property
    def _entered(self) -> Path:
        """The file with the count that this machine entered last in the store."""
        assert self.path is not None
        return self.path.with_name(f".{self.path.name}.entered")

    def _go_by(self, mirror: Mirror, file: int) -> None:
        """Take over the count of the store, unless it is what this machine entered last: then the own is more exact."""
        assert self.path is not None
        with locked(file):
            there = mirror.remote.entries(mirror.name_of(self.path))
            known = mirror.remote.read(mirror.name_of(self.path)) if there else b""
            entered = self._entered.read_bytes() if self._entered.exists() else b""
            if known != entered:
                os.ftruncate(file, 0)
                write_first(file, known)
                self._entered.write_bytes(known)

    def _enter_ahead(self, mirror: Mirror, count: tuple[int, int]) -> None:
        entered = _RECORD.fullmatch(self._entered.read_bytes()) if self._entered.exists() else None
        if entered is not None and count[0] <= int(entered[1]) and count[1] <= int(entered[2]):
            return
        room = self._allowed(*count)
        more = AHEAD if room is None else min(AHEAD, room)
        self._enter(mirror, (count[0] + more, count[1] + more * self._price))

    def _enter(self, mirror: Mirror, count: tuple[int, int]) -> None:
        """Enter ``count`` in the store. Killed after that, this machine takes it for another's: it is never lower."""
        assert self.path is not None
        mirror.publish(self.path, _record(count))
        self._entered.write_bytes(_record(count))

    def _read(self, file: int) -> tuple[int, int]:
        data = read_first(file, _SIZE + 1)
        if os.fstat(file).st_nlink == 0:
            raise BadData(f"The budget file {self.path} was deleted while it was in use: start the run again.")
        if not data:
            return 0, 0
        record = _RECORD.fullmatch(data)
        if record is None:
            raise BadData(
                f"{self.path} is not a budget file (it begins with {data[:16]!r}): delete it to count from zero."
            )
        return int(record[1]), int(record[2])
