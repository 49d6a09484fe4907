"""The budget is never exceeded: by interleaving, by threads, by processes, by resuming, by being killed."""

import os
import pickle
import subprocess
import sys
import tempfile
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.kept import budget as module
from misdetect.kept.budget import Budget
from misdetect.said.errors import BadData, BadSpec, BudgetSpent

ACTIONS = st.lists(
    st.tuples(st.sampled_from(["take", "grant", "reopen", "pickle"]), st.integers(0, 2), st.integers(0, 9)), max_size=40
)


def naive_room(limit: int | None, usd: str | None, price: str, sent: int) -> int:
    """How many more queries exact arithmetic on the decimal strings allows."""
    room = [10**6] if limit is None else [limit - sent]
    if usd is not None:
        room.append((Fraction(usd) - sent * Fraction(price)) // Fraction(price))
    return max(0, min(room))


@given(
    actions=ACTIONS,
    limit=st.none() | st.integers(0, 60),
    usd=st.sampled_from([None, "0", "0.3", "0.7", "1.1", "0.03"]),
    price=st.sampled_from(["0.1", "0.01", "0.0008", "0.0015", "0.07"]),
    shared=st.booleans(),
)
def test_every_interleaving_agrees_with_exact_arithmetic(actions, limit, usd, price, shared) -> None:
    """Three handles on one file (or one in memory) take in any order: a sum of fractions says what is allowed."""
    with tempfile.TemporaryDirectory() as folder:

        def make() -> Budget:
            path = Path(folder) / "budget" if shared else None
            return Budget(limit, None if usd is None else float(usd), float(price), path=path)

        handles = [make() for _ in range(3)] if shared else [make()] * 3
        sent = 0
        for action, who, n in actions:
            room = naive_room(limit, usd, price, sent)
            if action == "take" and n > room:
                with pytest.raises(BudgetSpent):
                    handles[who].take(n)
            elif action == "take":
                handles[who].take(n)
                sent += n
            elif action == "grant":
                granted = handles[who].grant(n)
                assert granted == min(n, room)
                sent += granted
            elif shared:
                handles[who] = make() if action == "reopen" else pickle.loads(pickle.dumps(handles[who]))  # noqa: S301
            assert handles[0].spent == {"queries": sent, "usd": float(sent * Fraction(price))}
            left = handles[0].left()
            assert left is None if limit is None and usd is None else left == naive_room(limit, usd, price, sent)
        for handle in handles:
            handle.close()  # or Windows could not remove the folder


def test_a_million_small_prices_do_not_drift() -> None:
    budget = Budget(usd=1000.0, price=0.001)
    for _ in range(1000):
        budget.take(1000)
    assert budget.spent == {"queries": 1_000_000, "usd": 1000.0}
    assert budget.left() == 0


def test_a_resumed_run_can_pay_another_price(tmp_path: Path) -> None:
    """Dollars are counted as they are spent: a new price does not re-price what was sent before."""
    Budget(price=0.5, path=tmp_path / "b").take(2)
    later = Budget(usd=2.0, price=0.25, path=tmp_path / "b")
    assert later.spent == {"queries": 2, "usd": 1.0}
    assert later.left() == 4


def test_threads_share_one_budget(tmp_path: Path) -> None:
    for path in (None, tmp_path / "b"):
        budget = Budget(500, path=path)
        won: list[int] = []

        def work(budget: Budget = budget, won: list[int] = won) -> None:
            won.append(sum(budget.grant(3) for _ in range(100)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(won) == 500
        assert budget.left() == 0


HAMMER = """
import sys
from pathlib import Path
from misdetect.kept.budget import Budget
from misdetect.said.errors import BudgetSpent
budget = Budget(2000, usd=1.5, price=0.001, path=Path(sys.argv[1]))
log = open(sys.argv[2], "ab", buffering=0)
print("ready", flush=True)
sys.stdin.readline()
try:
    while True:
        budget.take()
        log.write(b".")          # "the query": sent only after it was taken
except BudgetSpent:
    pass
"""


def hammer(path: Path, log: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HAMMER, str(path), str(log)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def start(processes: "list[subprocess.Popen[str]]") -> None:
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def test_processes_hammering_one_file_send_exactly_what_is_allowed(tmp_path: Path) -> None:
    logs = [tmp_path / f"log{i}" for i in range(3)]
    processes = [hammer(tmp_path / "b", log) for log in logs]
    start(processes)
    assert [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sum(log.stat().st_size for log in logs) == 1500  # the 1.5 USD bind before the 2000 queries
    assert Budget(price=0.001, path=tmp_path / "b").spent == {"queries": 1500, "usd": 1.5}


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    """After kill -9 the file counts every query that was sent (at most the one in hand more), and the lock is free."""
    path, log = tmp_path / "b", tmp_path / "log"
    process = hammer(path, log)
    start([process])
    while log.stat().st_size < 50 and process.poll() is None:
        pass
    process.kill()
    process.communicate()
    sent, counted = log.stat().st_size, Budget(price=0.001, path=path).spent["queries"]
    assert sent <= counted <= sent + 1
    resumed = hammer(path, log)
    start([resumed])
    resumed.communicate(timeout=60)
    assert log.stat().st_size == 1500 - (counted - sent)


@pytest.mark.unix
def test_forked_children_do_not_share_their_parents_lock(tmp_path: Path) -> None:
    """A lock shared by all would exclude nobody, and counts would be lost."""
    budget = Budget(path=tmp_path / "b")
    children = []
    for _ in range(3):
        children.append(os.fork())
        if children[-1] == 0:
            os._exit(0 if sum(budget.grant(1) for _ in range(3000)) == 3000 else 1)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert budget.spent["queries"] == 9000


def test_prices_below_a_nano_dollar_are_rounded_against_the_spender() -> None:
    budget = Budget(usd=3.8e-9, price=1.9e-9)
    assert budget.grant(100) * 1.9e-9 <= 3.8e-9


def test_minutes_run_out_for_all_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    budget = Budget(minutes=2.0)
    copy = pickle.loads(pickle.dumps(budget))  # noqa: S301
    now[0] += 119.9
    budget.take()
    assert copy.left() is None
    now[0] += 0.1
    assert copy.left() == 0
    assert copy.grant(5) == 0
    with pytest.raises(BudgetSpent, match=r"2 minutes does not allow 1 more query: 1 queries"):
        budget.take()


def test_a_limit_in_memory_is_not_copied_into_another_process() -> None:
    with pytest.raises(BadSpec, match="budget_file="):
        pickle.dumps(Budget(10))
    assert pickle.loads(pickle.dumps(Budget())).left() is None  # noqa: S301


@pytest.mark.parametrize(
    "content", [b"12", b"x" * 75, b"misdetect budget\nqueries -0000000000000000001\n", b"\0" * 400]
)
def test_a_file_that_is_not_a_budget_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "b"
    path.write_bytes(content)
    with pytest.raises(BadData, match="is not a budget file"):
        Budget(5, path=path)
    assert path.read_bytes() == content


@pytest.mark.unix
def test_a_deleted_file_does_not_start_again_from_zero(tmp_path: Path) -> None:
    budget = Budget(5, path=tmp_path / "b")
    budget.take(5)
    (tmp_path / "b").unlink()
    with pytest.raises(BadData, match="deleted"):
        budget.take()


@pytest.mark.parametrize(
    "wrong",
    [
        {"queries": -1},
        {"queries": 1.5},
        {"usd": 5.0},
        {"usd": float("nan"), "price": 1.0},
        {"price": -0.1},
        {"minutes": -1},
    ],
)
def test_senseless_limits_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadSpec):
        Budget(**wrong)
