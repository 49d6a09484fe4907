"""What to type to get an extra: the one place that knows.

The name ``misdetect`` is not on the package index yet. Until it is, ``pip install 'misdetect[torch]'`` would install
whatever somebody else puts there, so what is said are the requirements of the extra themselves.
"""

from importlib.metadata import PackageNotFoundError, requires

PROJECT = "misdetect"
PUBLISHED = False
"""Whether the project's name on the package index is the project's own."""


def command(extra: str, package: str = PROJECT) -> str:
    """The command that installs the ``extra`` of ``package``."""
    indexed = PUBLISHED or package != PROJECT
    wanted = [f"{package}[{extra}]"] if indexed else requirements(extra) or [f".[{extra}]"]  # the last in a clone
    return "pip install " + " ".join(f"'{each}'" for each in wanted)


def requirements(extra: str) -> list[str]:
    """What the ``extra`` of this installation brings; extras that it names are resolved in the metadata already."""
    try:
        lines = [line.partition(";") for line in requires(PROJECT) or ()]
    except PackageNotFoundError:
        return []
    return [what.strip() for what, _, when in lines if f"extra == '{extra}'" in when.replace('"', "'")]
