"""What a reader should know although nothing failed, said once: the command line says it when a verb is done."""

_NOTES: dict[str, None] = {}


def note(sentence: str) -> None:
    """Remember ``sentence`` for whoever asks at the end."""
    _NOTES[sentence] = None


def noted() -> list[str]:
    """All that was noted since this was last asked, in its order, each sentence once."""
    found = list(_NOTES)
    _NOTES.clear()
    return found
