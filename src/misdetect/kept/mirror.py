"""``Mirror``: the local copy of a folder in object storage, which everything else works on as on any folder.

The store is what counts. A file of a mirror is written to the store first and then put in its place here; what is not
in the store is removed here. So a machine may be lost, and another goes on. Data is copied file by file when it is
read; until then a file of its size and of no content stands for it. Mirrors are below the user's cache folder and can
be deleted whenever nothing runs.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar
from uuid import uuid4

from misdetect.kept.lease import FOLDER as LEASE
from misdetect.kept.lease import Lease
from misdetect.kept.remote import OBJECT_STORES, Entry, Remote, Unreachable, as_url
from misdetect.kept.system import locked, replace, unlink
from misdetect.said.errors import BadSpec, MisdetectError

E = TypeVar("E", bound=MisdetectError)
ANSWERS = ".answers"
"""Below a run in a store: answers that cost something, one object each time."""
_ADDRESS, _HOLDER = "address", "holder"
_SAME_FOR_EVER = re.compile(r"part-\d+-[0-9a-f]{16}\.parquet")
"""Files whose name holds a checksum of what is in them."""
_PASSING = re.compile(r"\.lock|\..*\.writing")
_LOCAL = re.compile(rf"{_PASSING.pattern}|answers\.sqlite(-wal|-shm)?")
"""Files that no store has."""
_BESIDE = (".budget", ".notes.jsonl")
"""What is kept beside a run."""
_OF_A_RUN = ("run.json", "checkup.json", "plan.json", "harden.json")
_READ_AT_ONCE = (".xml", ".txt", ".yaml", ".yml")
"""Files of data of which there are many, and all are read."""


def mirrors() -> Path:
    """The folder of all mirrors."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.path.abspath(root)) / "misdetect" / "remote"


class Mirror:
    """The mirror in ``folder`` of what is beside and below the last part of an address."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.remote = folder, Remote(url)

    def name_of(self, path: Path) -> str:
        """What the file ``path`` of this mirror is called in the store."""
        return path.relative_to(self.folder).as_posix()

    def refresh(self, name: str, *, data: bool = False) -> None:
        """Make everything below ``name`` what it is in the store; of ``data`` files that are read one by one are not
        copied yet."""
        with self._alone():
            there = {
                path: entry
                for path, entry in self.remote.entries(name).items()
                if f"/{LEASE}/" not in path and f"/{ANSWERS}/" not in path
            }
            self._drop(name, there)
            lazy = data or not any(path.rpartition("/")[2] in _OF_A_RUN for path in there)
            wanted = {path: entry for path, entry in there.items() if not self._has(path, entry, lazy)}
            later = {path for path in wanted if lazy and not path.endswith(_READ_AT_ONCE)}
            for path in later:
                self._stand_in(path, wanted[path])
            self._fetch({path: entry for path, entry in wanted.items() if path not in later})

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time: two would remove each other's files."""
        with open(self.folder / ".refreshing", "wb") as file, locked(file.fileno()):
            yield

    def _drop(self, name: str, there: Mapping[str, Entry]) -> None:
        """Remove files that the store does not have; what only this machine has stays as long as there is a run."""
        top, own = self.folder / name, _LOCAL if there else _PASSING
        if top.is_file() and name not in there:
            unlink(top)
        for directory, _, files in os.walk(top, topdown=False):
            for file in files:
                path = Path(directory) / file
                if not own.fullmatch(file) and self.name_of(path) not in there:
                    unlink(path)
            if not os.listdir(directory):
                os.rmdir(directory)

    def _has(self, name: str, entry: Entry, lazy: bool) -> bool:
        """Whether the local file is what the store has: by its name, or by size and time."""
        try:
            found = (self.folder / name).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        if found.st_size != entry.size:
            return False
        if _is_stand_in(found):
            return lazy
        if _SAME_FOR_EVER.fullmatch(name.rpartition("/")[2]):
            return True
        passing = not lazy and name.endswith(".json")  # it may be written twice in one tick of the store's clock
        return not passing and found.st_mtime_ns == _nanoseconds(entry)

    def _stand_in(self, name: str, entry: Entry) -> None:
        path = self._place_for(name)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
        with open(temporary, "wb") as file:
            file.truncate(entry.size)
        os.utime(temporary, ns=(0, 0))
        replace(temporary, path)

    def _place_for(self, name: str) -> Path:
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise Unreachable(f"{self.remote.url} holds {name!r} and an object called like its folder.") from None
        return path

    def _fetch(self, wanted: Mapping[str, Entry]) -> None:
        """Copy files here, each whole or not at all."""
        if not wanted:
            return
        folder = Path(mkdtemp(dir=self.folder, prefix=".fetching-"))
        try:
            self.remote.fetch({name: folder / str(i) for i, name in enumerate(wanted)})
            for i, (name, entry) in enumerate(wanted.items()):
                os.utime(folder / str(i), ns=(_nanoseconds(entry), _nanoseconds(entry)))
                replace(folder / str(i), self._place_for(name))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def fetch(self, path: Path) -> None:
        """Copy the content of a file that something stands in for."""
        name = self.name_of(path)
        entry = self.remote.entries(name).get(name)
        if entry is None:
            raise FileNotFoundError(2, "it is no longer in the store", str(path))
        self._fetch({name: entry})

    def publish(self, path: Path, data: bytes) -> None:
        """Write ``data`` to the store as the file ``path``."""
        self.remote.write(self.name_of(path), data)

    def remove(self, path: Path) -> None:
        """Remove the file ``path`` from the store."""
        self.remote.remove([self.name_of(path)])

    def keep_answers(self, run: Path, answers: Mapping[str, bytes]) -> None:
        """Write ``answers`` (encoded, by their keys) to the store, below the run."""
        self.remote.write_all({f"{self.name_of(run)}/{ANSWERS}/{key}": data for key, data in answers.items()})

    def answered(self, run: Path) -> set[str]:
        """The keys of all answers below the run."""
        return {name.rpartition("/")[2] for name in self.remote.entries(f"{self.name_of(run)}/{ANSWERS}")}

    def answers(self, run: Path, keys: Iterable[str]) -> dict[str, bytes]:
        """Those of them that have these ``keys``."""
        return {key: self.remote.read(f"{self.name_of(run)}/{ANSWERS}/{key}") for key in keys}

    def forget_answers(self, run: Path) -> None:
        """Remove all of them."""
        self.remote.remove(self.remote.entries(f"{self.name_of(run)}/{ANSWERS}"))

    def lease(self, folder: Path) -> Lease:
        """The right to write to ``folder``; who asks has the lock of the local one."""
        holder = self.folder / _HOLDER
        if not holder.exists():
            holder.write_text(uuid4().hex, encoding="utf-8")
        return Lease(self.remote, self.name_of(folder), holder.read_text(encoding="utf-8"))

    def beside(self, name: str) -> None:
        """The same for what is kept beside the run ``name``. A count of this machine is more exact than the store's, so
        it stays: whoever counts asks the store whether it still holds."""
        for suffix in _BESIDE:
            there = self.remote.entries(name + suffix)
            path = self.folder / (name + suffix)
            if not there:
                unlink(path)
            elif not path.exists() or suffix != ".budget":
                self._fetch(there)


def _is_stand_in(found: os.stat_result) -> bool:
    return found.st_mtime_ns == 0


def _nanoseconds(entry: Entry) -> int:
    return max(1, int(entry.written * 1e6)) * 1000


def mirror_of(path: Path) -> Mirror | None:
    """The mirror that the local file ``path`` is in."""
    root, text = f"{mirrors()}{os.sep}", os.path.abspath(path)
    return _mirror(root + text[len(root) :].partition(os.sep)[0]) if text.startswith(root) else None


@lru_cache(maxsize=64)
def _mirror(folder: str) -> Mirror:
    return Mirror(Path(folder), (Path(folder) / _ADDRESS).read_text(encoding="utf-8"))


def address_of(path: Path) -> str:
    """What people call the file or folder ``path``: its address in the store, where it is in a mirror."""
    mirror = mirror_of(path)
    return str(path) if mirror is None else f"{mirror.remote.url}/{mirror.name_of(Path(os.path.abspath(path)))}"


def _folder_of(base: str) -> Path:
    return mirrors() / blake2b(base.encode(), digest_size=12).hexdigest()


def opened_before(url: str) -> bool:
    """Whether somebody has opened ``url``, or a folder that it is in, on this machine."""
    parts = url.split("/")
    within = [_folder_of("/".join(parts[:at])) / "/".join(parts[at:]) for at in range(3, len(parts))]
    return ".." not in parts and any(path.exists() for path in within)


def local_path(path: Path | str, *, data: bool = False, write: bool = False) -> Path:
    """``path``, or where the mirror of that address is, as it is in the store now. ``data``: see ``Mirror.refresh``;
    ``write``: it is refused where a store cannot keep a run."""
    url = as_url(path)
    if url is None:
        return Path(path)
    base, _, name = url.rpartition("/")
    if base.endswith((":", "/")) or not name or name in (".", ".."):
        raise BadSpec(f"{url} is a whole bucket; name a folder in it, such as {url}/run.")
    if write and Remote(url).protocol not in OBJECT_STORES:
        raise BadSpec(
            f"{url} cannot be written: a run needs a store that writes an object whole or not at all "
            f"({', '.join(OBJECT_STORES[:-1])})."
        )
    folder = _folder_of(base)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (folder / _ADDRESS).exists():
        (folder / _ADDRESS).write_text(base, encoding="utf-8")
    mirror = _mirror(str(folder))
    mirror.refresh(name, data=data)
    if not data:
        mirror.beside(name)
    return folder / name


def refresh(path: Path) -> None:
    """Make ``path`` what it is in its store, if it is in a mirror."""
    mirror = mirror_of(path)
    if mirror is not None:
        mirror.refresh(mirror.name_of(Path(os.path.abspath(path))))


def is_wanted(path: Path, found: os.stat_result) -> bool:
    """Whether something stands in for the content of ``path``."""
    return _is_stand_in(found) and mirror_of(path) is not None


def fetch(path: Path) -> None:
    """Copy the content of ``path``, which is in a mirror."""
    if (mirror := mirror_of(path)) is not None:
        mirror.fetch(Path(os.path.abspath(path)))


def readdressed(error: E, path: Path) -> E:
    """``error`` with the address of ``path`` in its sentence, where that is in a mirror."""
    mirror = mirror_of(path)
    return error if mirror is None else type(error)(str(error).replace(str(mirror.folder), mirror.remote.url))
