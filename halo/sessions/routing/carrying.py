"""What a user chose for a session, and whether its successor has it, too."""

from collections.abc import Mapping

# Settings of a session (`session.changed`), and whether they outlive a reset. What was chosen goes on; what
# describes the conversation that ended, or the state of its folder, does not.
CARRIED: Mapping[str, bool] = {
    "model": True,
    "label": True,
    "thinking": True,
    "verbose": True,
    "send": True,
    "pin": True,
    "title": False,
    "archived": False,
    "stopped": False,
}

# What an imported session keeps of it: names and how it is shown. A model, a pinned artifact and whether
# replies are sent were chosen elsewhere, perhaps by somebody else.
_IMPORTED = frozenset({"title", "label", "thinking", "verbose"})


def copies_setting(name: str, reason: str) -> bool:
    """Tell whether a setting among copied events counts: `reason` is `fork` or `import`."""
    if reason == "fork":
        return name == "title" or CARRIED.get(name, False)
    return name in _IMPORTED


def carried_over(settings: Mapping[str, str], *, model: str = "") -> dict[str, str]:
    """Return the settings that the next session of a key begins with; `model` is one chosen for it.

    What a later version set and this one does not know is left out.
    """
    kept = {name: value for name, value in settings.items() if value and CARRIED.get(name, False)}
    return kept | ({"model": model} if model else {})
