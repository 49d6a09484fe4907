"""Which files are the tested versions? ``make lock`` writes requirements.lock: every line of constraints.txt with the
SHA-256 of its wheels, as the index states them, for ``pip install --require-hashes``.

torch and torchvision are left out: which of their builds is right (CPU, CUDA, ROCm) depends on the machine; each has
hashes of its own. Packages that have no wheel get the hash of their source.
"""

import html
import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
OWN_BUILDS = ("torch", "torchvision")
_LINK = re.compile(r'<a href="[^"#]*#sha256=([0-9a-f]{64})"[^>]*>([^<]+)</a>')
_PLATFORMS = re.compile(r"any|(many|musl)?linux.*(x86_64|aarch64)|macosx.*(arm64|universal2|x86_64)|win_amd64")
_HEADER = """# Made by `make lock` from constraints.txt. Install with `make locked`, or:
#   pip install --require-hashes --no-deps -r requirements.lock
"""


def pinned() -> list[tuple[str, str]]:
    """Names and versions in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [(name, version) for name, equals, version in (line.partition("==") for line in lines) if equals]


def hashes(name: str, version: str) -> list[str]:
    """Of the wheels of a package that a supported Python may install; of its source where there are none."""
    with urllib.request.urlopen(f"{INDEX}/{name.lower().replace('_', '-')}/", timeout=60) as page:
        links = _LINK.findall(page.read().decode())
    files = [(html.unescape(file), check) for check, file in links]
    return sorted(
        {check for file, check in files if _is_wheel(file, version)}
        or {check for file, check in files if _is_source(file, version)}
    )


def _is_wheel(file: str, version: str) -> bool:
    try:
        _, found, _, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return False
    return found == Version(version) and any(_fits(tag.interpreter, tag.abi, tag.platform) for tag in tags)


def _fits(interpreter: str, abi: str, platform: str) -> bool:
    stable = abi in ("abi3", "none")
    right = re.fullmatch(r"py3|cp3\d+" if stable else r"cp31[1-9]", interpreter)
    return bool(right and _PLATFORMS.fullmatch(platform))


def _is_source(file: str, version: str) -> bool:
    try:
        return parse_sdist_filename(file)[1] == Version(version)
    except InvalidSdistFilename:
        return False


def main() -> int:
    """Write the file; a package that the index does not have is named and ends with 1."""
    wanted = [(name, version) for name, version in pinned() if name not in OWN_BUILDS]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda each: hashes(*each), wanted))
    missing = [f"{name}=={version}" for (name, version), checks in zip(wanted, found, strict=True) if not checks]
    if missing:
        print(f"misdetect: {INDEX} has no file of {', '.join(missing)}.", file=sys.stderr)
        return 1
    entries = [
        " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{check}" for check in checks)])
        for (name, version), checks in zip(wanted, found, strict=True)
    ]
    (ROOT / "requirements.lock").write_text(_HEADER + "\n".join(entries) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
