"""Packages as pip installs them, into an environment of their own that sees what else is installed here.

Nothing is downloaded and no build backend is needed: a wheel is an archive of a package and of what its
``pyproject.toml`` says, and is written here. ``test_plugin`` compares it with hatchling's, where that is installed.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "examples" / "plugin"
_COMMANDS = """
import contextlib, io, json, sys
from misdetect.cli import main
said = []
for command in json.loads(sys.argv[1]):
    sys.argv = ["misdetect", *command]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = None
        except SystemExit as ended:
            code = ended.code
    said.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(said))
"""


def wheel(project: Path, folder: Path) -> Path:
    """The wheel of the pure Python ``project``, written into ``folder``."""
    said = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    about, (package,) = said["project"], said["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    stem = f"{about['name'].replace('-', '_')}-{about['version']}"
    points = about["entry-points"] | ({"console_scripts": about["scripts"]} if "scripts" in about else {})
    lines = [
        line for group, each in points.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in each.items()))
    ]
    needs = [f"Requires-Dist: {each}" for each in about["dependencies"]]
    files = {
        path.relative_to((project / package).parent).as_posix(): path.read_bytes()
        for path in sorted((project / package).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name, text in {
        "METADATA": ["Metadata-Version: 2.4", f"Name: {about['name']}", f"Version: {about['version']}", *needs],
        "WHEEL": ["Wheel-Version: 1.0", "Generator: misdetect's tests", "Root-Is-Purelib: true", "Tag: py3-none-any"],
        "entry_points.txt": lines,
    }.items():
        files[f"{stem}.dist-info/{name}"] = "\n".join([*text, ""]).encode()
    record = [f"{name},sha256={_hash(data)},{len(data)}" for name, data in files.items()]
    files[f"{stem}.dist-info/RECORD"] = "\n".join([*record, f"{stem}.dist-info/RECORD,,", ""]).encode()
    made = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def environment(folder: Path, *wheels: Path) -> Path:
    """The Python of a new environment in ``folder`` with the ``wheels``. What these need it finds where it is installed
    here, after its own packages; an editable misdetect there is not seen, since its ``.pth`` is not read."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--no-compile", "--disable-pip-version-check", *map(str, wheels)], check=True)
    own = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True)
    (Path(own.strip()) / "installed_here.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def run(python: Path | str, *arguments: object, cwd: Path, path: Path | str = "") -> str:
    """What ``python`` prints, started in ``cwd`` with ``path`` to look for modules in and no other."""
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = known | ({"PYTHONPATH": str(path)} if path else {}) | {"COLUMNS": "400", "NO_COLOR": "1"}
    done = subprocess.run([python, *map(str, arguments)], cwd=cwd, env=found, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def said(python: Path | str, commands: list[list[str]], cwd: Path, path: Path | str = "") -> list[list]:
    """``commands`` of misdetect, one after the other in one process: exit code, stdout and stderr of each."""
    return json.loads(run(python, "-c", _COMMANDS, json.dumps(commands), cwd=cwd, path=path))
