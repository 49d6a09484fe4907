"""Nothing needs what only Unix has. Python bereft of it (``tests/bereft``) stands for Windows where there is none."""

import ast
import errno
import importlib.util
import json
import ntpath
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path, PureWindowsPath

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from misdetect.engine import cluster
from misdetect.kept import system as own
from misdetect.kept.system import portable_name
from misdetect.said.errors import BadCluster

HERE = Path(__file__).parent
ROOT = HERE.parent
SOURCE = Path(own.__file__).parents[1]
BEREFT = HERE / "bereft"
ROOMS, COUNT = "rooms:val,count=8", 8
unix = pytest.mark.unix


def loaded(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["as it is", pytest.param("bereft", marks=unix)])
def system(request, monkeypatch):
    """``kept/system.py`` as this system has it, and as one without flags and ``fcntl`` has it."""
    if request.param == "as it is":
        return own
    monkeypatch.setitem(sys.modules, "msvcrt", loaded(BEREFT / "pretended_msvcrt.py", "pretended_msvcrt"))
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY"):
        monkeypatch.delattr(os, name)
    return loaded(own.__file__, "bereft_system")


def environment(bereft, **more):
    """For a process that is bereft of what only Unix has, and those that it starts."""
    paths = [str(BEREFT)] * bereft + [str(SOURCE.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **more}


def test_a_lock_keeps_others_out_until_it_is_released_or_its_process_killed(system, tmp_path):
    path = tmp_path / "lock"
    holder = (
        f"from misdetect.kept.system import *; import time; held = LockFile(Path({str(path)!r})); print(1, flush=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", f"{holder}; time.sleep(60)"],
        stdout=subprocess.PIPE,
        env=environment(bereft=system is not own),
    )
    assert process.stdout.readline() == b"1\n" or process.stdout.readline() == b"1\r\n"
    with pytest.raises(BlockingIOError):
        system.LockFile(path)
    process.kill()
    process.communicate()
    held = system.LockFile(path)
    with pytest.raises(BlockingIOError):
        system.LockFile(path)
    held.release()
    again = system.LockFile(path)
    again.release(remove=True)
    again.release(remove=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_locked_until_it_has_been_renamed(system, tmp_path):
    (tmp_path / "folder").mkdir()
    held = system.LockFile(tmp_path / "folder", folder=True)
    with pytest.raises(BlockingIOError):
        system.LockFile(tmp_path / "folder", folder=True)
    (tmp_path / "folder").rename(tmp_path / "new")
    held.release(remove=True)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@unix
def test_who_waits_at_a_lock_file_that_is_removed_does_not_get_the_removed_one(system, tmp_path, monkeypatch):
    path, held = tmp_path / "lock", system.LockFile(tmp_path / "lock")
    open_plainly = system.open_plainly

    def opened_before_it_goes(*how):
        number = open_plainly(*how)
        held.release(remove=True)
        return number

    monkeypatch.setattr(system, "open_plainly", opened_before_it_goes)
    second = system.LockFile(path)
    assert os.fstat(second._file).st_ino == path.stat().st_ino


def test_a_lock_is_waited_for_and_shared_by_those_who_read(system, tmp_path):
    path, order = tmp_path / "count", []
    path.write_bytes(b"7")
    files = [os.open(path, os.O_RDWR) for _ in range(2)]

    def wait():
        with system.locked(files[1]):
            order.append("second")

    with system.locked(files[0]):
        assert not system.lock(files[1], wait=False)
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.05)
        order.append("first")
        assert path.read_bytes() == b"7", "what is locked can be read all the same"
    thread.join(30)
    assert order == ["first", "second"]
    with system.locked(files[0], shared=True):
        pass
    for file in files:
        os.close(file)


@unix
def test_neither_links_nor_folders_nor_pipes_are_opened(system, tmp_path):
    (tmp_path / "precious").write_text("mine", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe"):
        with pytest.raises(OSError, match=r"."):
            os.close(system.open_plainly(tmp_path / name, os.O_WRONLY | os.O_TRUNC))
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "mine"
    for name, number in (("folder", errno.EISDIR), ("pipe", errno.EINVAL), ("nothing", errno.ENOENT)):
        with pytest.raises(OSError, match=name) as refused:
            system.open_to_read(tmp_path / name)
        assert refused.value.errno == number
    for name in ("precious", "link"):
        with open(system.open_to_read(tmp_path / name), "rb") as file:
            assert file.read() == b"mine"


def test_a_new_file_is_made_and_line_ends_stay_as_they_are(system, tmp_path):
    with open(system.open_plainly(tmp_path / "new", os.O_RDWR | os.O_CREAT), "wb") as file:
        file.write(b"a\nb\r\n")
    assert (tmp_path / "new").read_bytes() == b"a\nb\r\n"
    system.sync_folder(tmp_path)


@pytest.mark.parametrize("windows", [True, False])
def test_windows_waits_for_those_who_read_what_is_replaced(windows, tmp_path, monkeypatch):
    tries, replace = [], os.replace

    def replaced(path, target):
        tries.append(path)
        if len(tries) < 3:
            raise PermissionError(errno.EACCES, "it is open", str(target))
        replace(path, target)

    monkeypatch.setattr(own, "WINDOWS", windows)
    monkeypatch.setattr(own.os, "replace", replaced)
    (tmp_path / "new").touch()
    if windows:
        own.replace(tmp_path / "new", tmp_path / "old")
        assert (tmp_path / "old").exists()
    else:
        with pytest.raises(PermissionError):
            own.replace(tmp_path / "new", tmp_path / "old")
    assert len(tries) == (3 if windows else 1)


def is_reserved(name):
    if hasattr(ntpath, "isreserved"):  # Python 3.13
        return ntpath.isreserved(name)
    return PureWindowsPath(name).is_reserved()


@given(st.text(st.sampled_from('aZ. :?*<>|"/\\\x01é'), max_size=6) | st.text(max_size=6))
@example("nul.png")
@example("CON")
@example("com1 .txt")
@example("a. .")
def test_a_portable_name_is_one_that_windows_takes(name):
    portable = portable_name(name)
    path = PureWindowsPath(portable)
    assert path.parts == (portable,)
    assert not is_reserved(portable)
    assert not set(portable) & set('<>:"/\\|?*')
    assert portable[-1] not in ". "
    assert portable_name(portable) == portable


@pytest.mark.parametrize("name", ["a.png", "Straße 7.jpg", "console.png", ".hidden", "a b.c.d", "com10", "猫"])
def test_a_name_that_is_portable_stays(name):
    assert portable_name(name) == name


def test_what_is_run_on_every_system_is_said_plainly_and_is_what_make_runs():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    said = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    make = (ROOT / "Makefile").read_text(encoding="utf-8").replace("$(CODE)", "src tests benchmarks examples tools")
    assert len(commands) == 9
    for command in commands:
        assert command.partition(" --platform")[0] in said, command
        if "pip" not in command:
            assert f"$(BIN)/{command.partition(' --platform')[0]}\n" in make, command


def of_bytes(call):
    modes = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "mode")]
    return any(isinstance(mode, ast.Constant) and "b" in mode.value for mode in modes)


def test_text_in_files_has_a_named_encoding():
    """Windows would take its own. Files that are opened have a mode, which says if they are of bytes."""
    silent = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr in ("read_text", "write_text"))
            or (ast.unparse(node.func) in ("open", "os.fdopen", "io.open") and not of_bytes(node))
        )
        and not any(each.arg == "encoding" for each in node.keywords)
    ]
    assert silent == []


def test_what_a_page_of_windows_has_no_character_for_ends_no_command(tmp_path):
    line = [sys.executable, "-m", "misdetect", "detect", "--detector", "glassbox:none,data=rooms:val,count=1"]
    done = subprocess.run(
        [*line, "--data", "rooms:val,count=1", "--out", str(tmp_path / "猫é.json"), "--no-cache"],
        capture_output=True,
        env=environment(bereft=False, PYTHONIOENCODING="cp1252", PYTHONUTF8="0"),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "?é.json" in done.stdout.decode("cp1252")
    assert (tmp_path / "猫é.json").exists()


def test_a_ray_cluster_is_refused_on_windows(monkeypatch):
    monkeypatch.setattr(cluster, "WINDOWS", True)
    with pytest.raises(BadCluster, match="on Windows use --workers") as refused:
        cluster.connect(None)
    assert refused.value.exit_code == 2


class Command:
    """A run of a detector that takes its time, as a command."""

    def __init__(self, folder, name, workers):
        self.out, self.log = folder / f"{name}.json", folder / f"{name}.log"
        detector = f"python:{HERE / 'faults' / 'slow_toy.py'}:Slow"
        self.line = [sys.executable, "-m", "misdetect", "detect", "--detector", detector, "--data", ROOMS]
        self.line += ["--out", str(self.out), "--queries", "100", "--no-cache", "--workers", str(workers)]

    def start(self, bereft, after=COUNT):
        """It answers so many images, and then works on the next until it is killed."""
        more = {"SLOW_LOG": str(self.log), "SLOW_SECONDS": "30", "SLOW_AFTER": str(after)}
        return subprocess.Popen(self.line, stderr=subprocess.PIPE, env=environment(bereft, **more))

    def asked(self):
        return len(self.log.read_text(encoding="utf-8").splitlines()) if self.log.exists() else 0


@unix
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.heavy)])
def test_a_run_is_killed_and_goes_on_without_anything_of_unix(tmp_path, workers):
    whole, killed = Command(tmp_path, "whole", 1), Command(tmp_path, "killed", workers)
    reference = whole.start(bereft=False)
    first = killed.start(bereft=True, after=3)
    while killed.asked() < 3 and first.poll() is None:
        time.sleep(0.01)
    second = killed.start(bereft=True)
    said = second.communicate(timeout=60)[1].decode()
    assert (second.returncode, "is being written by another process" in said) == (2, True), said
    first.kill()
    assert first.wait(timeout=60) == -signal.SIGKILL
    resumed = killed.start(bereft=True)
    said = resumed.communicate(timeout=60)[1].decode()
    assert resumed.returncode == 0, said
    assert reference.wait(timeout=60) == 0, reference.communicate()
    assert len(json.loads(killed.out.read_bytes())) == COUNT
    assert killed.out.read_bytes() == whole.out.read_bytes()
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".log"}
    assert killed.asked() == COUNT, "what was answered is not asked again"


@unix
@pytest.mark.heavy
def test_a_checkup_needs_nothing_of_unix(tmp_path):
    line = [sys.executable, "-m", "misdetect", "checkup", "--detector", "glassbox:vanish-near,data=rooms:val,count=3"]
    line += ["--data", "rooms:val,count=3", "--minutes", "0.1", "--workers", "2", "--pictures", "1"]
    env = environment(bereft=True, MISDETECT_CACHE=str(tmp_path / "cache.sqlite"))
    done = subprocess.run(
        [*line, "--out", str(tmp_path / "up")], capture_output=True, text=True, encoding="utf-8", env=env, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "up" / "report.html").stat().st_size > 10_000
    assert {path.name for path in tmp_path.iterdir()} == {"up", "cache.sqlite"}
