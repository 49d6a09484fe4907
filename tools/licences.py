"""Which licences do misdetect's dependencies have? ``make licences`` writes docs/licences.md.

Reads what is installed: the packages that a user gets (base and extras; those of developers apart), with version and
licence as each package states it. Ends with exit code 1 if one of a user's is under a licence of the GPL family.
"""

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

USERS = (
    *("figures", "http", "torch", "hf", "onnx", "onnx-torch", "cloud", "app", "tflite", "openvino", "tensorflow"),
    *("hfdata", "ray", "s3"),
)
"""The extras of users whose versions were tested together."""
DEVELOPERS = ("dev", "dev-all")
_COPYLEFT = re.compile(r"\b(A|L)?GPL|General Public", re.IGNORECASE)
_NAME = re.compile(r"^[A-Za-z0-9._-]+")


def needed(package: str, extras: tuple[str, ...], seen: dict[str, Distribution]) -> dict[str, Distribution]:
    """Everything installed that ``package`` with ``extras`` asks for, directly or not, by name."""
    for line in distribution(package).requires or ():
        name = _NAME.match(line)[0]  # type: ignore[index]
        marker = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if marker is not None and marker[1] not in extras:
            continue
        more = tuple(re.findall(r"[\w-]+", re.search(r"\[(.*?)\]", line)[1])) if "[" in line.split(";")[0] else ()  # type: ignore[index]
        key = name.lower().replace("_", "-")
        if key in seen and not more:
            continue
        try:
            seen[key] = distribution(name)
        except PackageNotFoundError:  # of another platform
            continue
        needed(name, more, seen)
    return seen


def licence(found: Distribution) -> str:
    """What a package says of its licence, in few words."""
    about = found.metadata
    stated = about.get("License-Expression") or ""
    if not stated:
        kinds = [c.rsplit(" :: ", 1)[-1] for c in about.get_all("Classifier") or () if c.startswith("License")]
        stated = ", ".join(kinds) or (about.get("License") or "not stated").strip().splitlines()[0]
    return stated[:80]


def main() -> int:
    """Print the table; how many of a user's dependencies are copyleft decides the exit code."""
    users = needed("misdetect", USERS, {})
    everyone = needed("misdetect", USERS + DEVELOPERS, {})
    users.pop("misdetect", None)
    print("# Licences of dependencies\n\nMade by `make licences` from what is installed.\n")
    for title, chosen in (
        ("With misdetect and its extras", users),
        ("For development only", everyone.keys() - users.keys()),
    ):
        print(f"\n## {title}\n\n| package | version | licence |\n|---|---|---|")
        for name in sorted(chosen):
            if name != "misdetect":
                print(f"| {name} | {everyone[name].version} | {licence(everyone[name])} |")
    wrong = [name for name, found in users.items() if _COPYLEFT.search(licence(found)) and "LGPL" not in licence(found)]
    print(f"misdetect: {', '.join(wrong)} under a licence of the GPL family.", file=sys.stderr) if wrong else None
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
