"""From settings to options: a study's settings class becomes the options of its verb.

The one adapter between ``nouns.settings`` and the command line's library: names, types, defaults, help, limits and
headings are read from the fields, so that nothing is said twice.
"""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from cyclopts import Group, Parameter, Token

from misdetect.cli.shell import shell_options, tell, whole_number
from misdetect.nouns.settings import Setting, Settings, settings_of
from misdetect.said.errors import BadSpec
from misdetect.studies.contract import Subject


def subject(about: Subject, **default: Any) -> inspect.Parameter:
    """What a verb is about: the first words after it, or an option."""
    how = Parameter(name=f"--{about.name}", help=about.help, converter=_recognised if about.is_data else None)
    return inspect.Parameter(
        about.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Annotated[str, how], **default
    )


def _recognised(kind: Any, tokens: Sequence[Token]) -> str:
    """The data spec that is meant, also by the name of a file alone; how that was taken is said."""
    from misdetect.data.recognise import recognised  # which reads data, and no help wants that
    from misdetect.detectors.catalogue import recognised as detector_of

    try:
        spec, how = recognised(tokens[0].value)
    except BadSpec as error:
        if detector_of(tokens[0].value) is None:
            raise
        raise BadSpec(f"{tokens[0].value!r} is a detector, and stands where the data should: DETECTOR DATA.") from error
    if how is not None:
        tell(f"note: {how}")
    return spec


_LAST = ("Results", "Running")
_PLAIN = (str, int, float, bool, Path, NoneType)


def options(settings: type[Settings], **defaults: Any) -> list[inspect.Parameter]:
    """Keyword parameters for every setting that the command line offers; ``defaults`` replace the settings' own."""
    offered = [s for s in settings_of(settings) if s.decides != "python"]
    own = [s for s in offered if s.heading not in _LAST]
    ordered = own + [s for heading in _LAST for s in offered if s.heading == heading]
    headings = list(dict.fromkeys(s.heading for s in ordered))
    groups = {heading: Group(heading or "Options", sort_key=i) for i, heading in enumerate(headings, start=1)}
    return [_parameter(s, defaults.get(s.name, s.default), groups[s.heading]) for s in ordered]


def _parameter(setting: Setting, default: Any, group: Group) -> inspect.Parameter:
    kind: Any = str if setting.is_list else _written(setting.type)
    how = Parameter(
        name=setting.option,
        help=_help(setting),
        group=group,
        show_default=default is not False and default is not None,
        negative=() if setting.type is bool and default is False else None,
        consume_multiple=False,
        converter=whole_number if set(get_args(kind) or (kind,)) <= {int, NoneType} else None,
    )
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
    if setting.required:
        shown = inspect.Parameter.empty
    return inspect.Parameter(
        setting.name, inspect.Parameter.KEYWORD_ONLY, default=shown, annotation=Annotated[kind, how]
    )


def _written(hint: Any) -> Any:
    """What of a type can be written in a shell: objects, which Python takes too, cannot."""
    plain = [part for part in get_args(hint) if part in _PLAIN or get_origin(part) is Literal]
    return Union[tuple(plain)] if get_origin(hint) in (Union, UnionType) else hint  # noqa: UP007 - made at run time


def _help(setting: Setting) -> str:
    limits = f" ({setting.range})" if setting.range is not None and setting.range.high is not None else ""
    return setting.help.rstrip(".") + limits + "."


def values(settings: type[Settings], given: dict[str, Any]) -> dict[str, Any]:
    """The keywords for ``settings``, from what the command line was ``given``: a class of another package may look at
    its lists before the checks that all have."""
    known = {s.name: s for s in settings_of(settings)}
    return {name: known[name].listed(value) if known[name].is_list else value for name, value in given.items()}


def signed(
    verb: Callable[..., int | None], name: str, doc: str, parameters: list[inspect.Parameter]
) -> Callable[..., int]:
    """``verb`` with a name, a help text, and as options ``parameters``, ``--json`` and ``--quiet``."""
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    placed = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]

    def filled(*words: Any, quiet: bool = False, **given: Any) -> int:  # given is only what is on the command line
        first = dict(zip(placed, words, strict=False))
        return verb(*words[len(first) :], **{**defaults, **first, **given}) or 0

    filled.__name__ = filled.__qualname__ = name
    filled.__doc__, filled.__annotations__ = doc, {}
    filled.__signature__ = inspect.Signature([*parameters, *shell_options()])  # type: ignore[attr-defined]
    return filled
