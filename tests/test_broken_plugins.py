"""Other packages that are broken: whoever uses one is told in a sentence which it is, and nobody else is hindered.

All of them lie in one folder, as they would be installed, so that every command here runs beside all of them.
"""

import json
import os
import re
import shutil
import sys

import pytest
from wheels import PLUGIN, ROOT, run, said

ROOM = PLUGIN / "src" / "misdetect_darkness" / "brightness"
BARE = """from misdetect.studies.contract import Kind
KIND = Kind("bare", room={room}, help="", group="breaks", title="", example="", settings="settings:Settings")
"""
LOADERS = """from misdetect.data.formats import Format
from misdetect.detectors.family import Family
FAMILY = Family("", "Detector", "", "{module}:load")
FORMAT = Format("", "", "{module}:load")
def load(spec):
    {body}
"""
STUDIES = {
    "absent": (
        "nowhere_at_all:KIND",
        {},
        "it cannot be imported, ModuleNotFoundError: No module named 'nowhere_at_all'",
    ),
    "failing": ("failing:KIND", {"failing.py": "1 / 0"}, "it cannot be imported, ZeroDivisionError"),
    "leaving": ("leaving:KIND", {"leaving.py": "import sys; sys.exit(7)"}, "it cannot be imported, SystemExit: 7"),
    "strange": ("json:dumps", {}, "json:dumps is no Kind but a function"),
    "other": ("bare:KIND", {}, "it calls itself 'bare'"),
    "bare": (
        "bare:KIND",
        {"bare/__init__.py": BARE.format(room="__name__"), "bare/settings.py": "class Settings: pass"},
        "it has no prepare and no rebuild and no ledger and no document and no sentences and no numbers",
    ),
    "unhoused": (
        "unhoused:KIND",
        {"unhoused.py": BARE.format(room="'nowhere_at_all'").replace('"bare"', '"unhoused"')},
        "it has no settings and no prepare",
    ),
}
"""By the name of a study: its entry point, the files of its package, and what is wrong with it."""
PARTS = {
    "settings": "class BrightnessSettings(:",
    "document": "import nowhere_at_all",
    "checkup": "1 / 0",
    "evidence": "import nowhere_at_all",
    "charts": "raise RuntimeError('no charts')",
    "claims": "import sys; sys.exit(7)",
}
"""Files of a room that cannot be imported: each breaks a study of its own, ``bad-FILE``."""
LOADS = {
    "lacking": ("nowhere_at_all", "pass", 2, "nowhere_at_all"),
    "dividing": ("dividing", "return 1 / 0", 3, "ZeroDivisionError"),
}
"""By scheme, for a detector family and a data format: the module of its loader, what that does, the exit code with
which the detector ends, and what is said."""
DETECTOR, QUERY = "glassbox:none,unknown=empty,data=rooms:val,count=1", ["--data", "rooms:val,count=1"]
SOUND = {
    "help": ["--help"],
    "detect": ["detect", "--detector", DETECTOR, *QUERY, "--out", "found.json"],
    "detectors": ["detectors", "--json"],
    "data": ["data", "rooms:val,count=1"],
    "data help": ["data", "--help"],
}


def install(folder, name, groups):
    """A distribution ``name`` 1.2 with entry points: ``{group: {name: where}}``."""
    info = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.2\n")
    points = [
        f"[misdetect.{group}]\n" + "".join(f"{n} = {w}\n" for n, w in each.items()) for group, each in groups.items()
    ]
    (info / "entry_points.txt").write_text("".join(points))


def copied(folder, room, study, file, text):
    """The example's room as the study ``study``, whose ``file`` is ``text`` instead."""
    shutil.copytree(ROOM, folder / room)
    for path in (folder / room).glob("*.py"):
        own = path.read_text().replace("misdetect_darkness.brightness", room).replace('"brightness"', f'"{study}"')
        path.write_text(own)
    (folder / room / f"{file}.py").write_text(text)


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """The folder in which all broken packages are installed."""
    folder = tmp_path_factory.mktemp("broken")
    for study, (where, files, _) in STUDIES.items():
        install(folder, f"the-{study}", {"studies": {study: where}})
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
    for part, text in PARTS.items():
        install(folder, f"the-{part}", {"studies": {f"bad-{part}": f"bad_{part}:BRIGHTNESS"}})
        copied(folder, f"bad_{part}", f"bad-{part}", part, text)
    for scheme, (module, body, _, _) in LOADS.items():
        where = {"detectors": {scheme: f"loads_{scheme}:FAMILY"}, "data": {scheme: f"loads_{scheme}:FORMAT"}}
        install(folder, f"the-{scheme}", where)
        home = module.replace(scheme, f"loads_{scheme}")
        (folder / f"loads_{scheme}.py").write_text(LOADERS.format(module=home, body=body))
    for each in ("one", "another"):
        install(folder, each, {group: {"twice": "json:dumps"} for group in ("studies", "detectors", "data")})
    install(folder, "pushy", {"studies": {"fuzz": "json:dumps"}})
    return folder


USED = {
    **{study: [study, "--detector", "zoo:ssd", "--data", "rooms:val"] for study in STUDIES},
    **{part: [f"bad-{part}", "--detector", DETECTOR, *QUERY] for part in PARTS},
    **{f"{name}:": ["detect", "--detector", f"{name}:1", *QUERY, "--out", "x.json"] for name in (*LOADS, "twice")},
    **{f"{name} data": ["data", f"{name}:1"] for name in (*LOADS, "twice")},
    "twice": ["twice", "--detector", "zoo:ssd"],
    "fuzz": ["fuzz", "--detector", "zoo:ssd", "--data", "rooms:val"],
    "nosuch": ["nosuch"],
}


@pytest.fixture(scope="module")
def path(broken):
    """What modules are looked for in: misdetect, and all that is broken."""
    return os.pathsep.join(map(str, (ROOT / "src", broken)))


@pytest.fixture(scope="module")
def told(path, tmp_path_factory):
    """What each of the commands says."""
    commands = {**SOUND, **USED}
    found = said(sys.executable, list(commands.values()), tmp_path_factory.mktemp("work"), path)
    return dict(zip(commands, found, strict=True))


def sentence(told, name, expected=2):
    code, out, err = told[name]
    assert (code, out) == (expected, "")
    return " ".join(err.split()).removeprefix("misdetect: ")


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_that_is_none_names_its_package(told, name):
    wanted = f"the study '{name}' of the-{name} 1.2 cannot be used: {STUDIES[name][2]}"
    assert sentence(told, name).startswith(wanted)
    assert wanted in " ".join(told["help"][1].replace("│", " ").split())


@pytest.mark.parametrize("part", ["settings", "document"])
def test_a_part_that_cannot_be_imported_names_its_package(told, part):
    assert f"the study 'bad-{part}' of the-{part} 1.2 cannot be used: its part '{part}'" in sentence(told, part)


@pytest.mark.parametrize("part", [part for part in PARTS if part not in ("settings", "document")])
def test_a_part_that_is_not_asked_for_hinders_nobody(told, part):
    code, out, err = told[part]
    assert code == 0, err
    assert "objects" in out or "No object" in out


@pytest.mark.parametrize("name", LOADS)
def test_a_family_and_a_format_name_their_package(told, name):
    _, _, code, why = LOADS[name]
    assert f"the detector family '{name}'" in (family := sentence(told, f"{name}:", code))
    assert why in family
    assert f"the data format '{name}' of the-{name} 1.2 cannot be used" in (data := sentence(told, f"{name} data"))
    assert why in data


def test_a_name_that_two_packages_claim_names_both(told):
    whats = {"twice": "study", "twice:": "detector family", "twice data": "data format"}
    for name, what in whats.items():
        assert sentence(told, name) == (
            f"the {what} 'twice' is claimed by two packages, another 1.2 and one 1.2; uninstall one of them."
        )
    assert re.search(
        r"the study 'fuzz' is claimed by two packages, misdetect \S+ and pushy 1.2", sentence(told, "fuzz")
    )


@pytest.mark.parametrize("name", SOUND)
def test_every_other_command_goes_on_working(told, name):
    code, out, err = told[name]
    assert code == 0, err
    assert out


def test_a_verb_that_there_is_not_is_still_told_of_the_others(told):
    assert sentence(told, "nosuch").startswith('Unknown command "nosuch". Available commands: absent, attack, bad-')


def test_the_list_of_detectors_says_which_cannot_be_used(told):
    found = {each["scheme"]: each for each in json.loads(told["detectors"][1])["detectors"]}
    assert "claimed by two packages" in found["twice"]["error"]
    assert found["zoo"]["level"]


SERVED = """
import misdetect as md
from misdetect.app.server import application

print(*application(["work"]).state.app.problems, sep="\\n")
print("bare" in dir(md), "scan" in dir(md))
"""


@pytest.mark.heavy
def test_a_checkup_leaves_out_what_is_broken_and_the_server_says_so(path, tmp_path):
    checkup = ["checkup", "--detector", DETECTOR, *QUERY, "--minutes", "0.1", "--out", "checkup"]
    bad = ["bad-charts", "--detector", DETECTOR, *QUERY, "--out", "work/bad"]
    commands = [
        checkup,
        bad,
        ["explain", "--detector", DETECTOR, *QUERY, "--out", "work/explain"],
    ]
    found = said(sys.executable, commands, tmp_path, path)
    assert [code for code, _, _ in found] == [0, 0, 0], found
    document = json.loads((tmp_path / "checkup" / "checkup.json").read_text())
    skipped = {each["study"]: each["why"] for each in document["skipped"]}
    assert "its part 'charts'" in skipped["bad-charts"], "all parts are tried before anything is asked"
    assert "its part 'document'" in skipped["bad-document"]
    assert "detect" in document["studies"]
    problem, listed = run(sys.executable, "-c", SERVED, cwd=tmp_path, path=path).splitlines()
    assert problem.startswith("the study 'bad-charts' of the-charts 1.2 cannot be used: its part 'charts'")
    assert listed == "False True"
