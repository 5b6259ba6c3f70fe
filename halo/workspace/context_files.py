"""Context files: which file serves a name of `general.prompt.context_files`, what is missing, the caps."""

from typing import NamedTuple

import msgspec

from halo.errors import LayerError, UnknownNameError
from halo.files.tree import Tree
from halo.workspace.hidden import blanked
from halo.workspace.layers import Layer, shared_layer, split_front_matter
from halo.workspace.personas import Hook, consult_persona, replaced
from halo.workspace.settings.general import PromptSettings
from halo.workspace.settings.prompt_lines import prompt_setting_at, prompt_setting_error

# First-run guidance: it is for a root agent while the user is unknown, as prompts/bootstrap/ is.
BOOTSTRAP = "BOOTSTRAP.md"

# What lies in `.halo/` and is no text for models: values, conversations, what was made from layers. So is
# anything hidden: a global folder may be a git repository, with a token in its configuration.
_CLOSED = frozenset(
    {"settings.yaml", "secrets", "sessions", "artifacts", "build", "traces", "batch", "evo", "trust.yaml"}
)
_LONGEST_NAME = 200  # characters; it stands in a heading and in a marker


class ContextFile(NamedTuple):
    """A name of the settings and what serves it; `layer` is None where nothing does.

    `replaced`: its text comes from a persona. `setting` and `line` say where the name stands.
    """

    name: str
    layer: Layer | None
    setting: str
    line: int
    replaced: bool = False


def read_context_files(tree: Tree, settings: PromptSettings, *, new: bool) -> tuple[ContextFile, ...]:
    """Find the context files, in the order of the settings, each once; a file without text is left out.

    `new`: a root agent in a workspace that does not know its user yet. Raises `LayerError` at the line of a
    name that names no such file, and of a persona that is not installed.
    """
    hook = _persona(tree, settings.persona) if settings.context_files else None
    found: dict[str, ContextFile] = {}
    for i, name in enumerate(settings.context_files):
        wrong = _misnamed(name)
        if wrong:
            raise prompt_setting_error(
                tree, f"{name!r} {wrong}", "context_files", i, hint="name a text file below .halo/"
            )
        if name in found or (name.rpartition("/")[2] == BOOTSTRAP and not new):
            continue
        source, line = prompt_setting_at(tree, "context_files", i)
        file = ContextFile(name, shared_layer(tree, name), source, line)
        found[name] = _asked(hook, file) if hook is not None else file
    return tuple(file for file in found.values() if file.layer is None or file.layer.body)


def _misnamed(name: str) -> str:
    """Say what is wrong with a name; empty when nothing is."""
    parts = name.split("/")
    if not name or name.startswith("/") or any(part in ("", ".", "..") for part in parts):
        return "is not a path below .halo/"
    if len(name) > _LONGEST_NAME or blanked(name) != name.strip() or set(name) & set("\\:\n\t"):
        return "is not a name that every system can hold"
    if parts[0].casefold() in _CLOSED or any(part.startswith(".") for part in parts):
        return "is kept out of prompts"
    return ""


def _persona(tree: Tree, name: str) -> Hook | None:
    if not name:
        return None
    try:
        return consult_persona(tree, name)
    except UnknownNameError as error:
        raise prompt_setting_error(tree, error.message, "persona", hint=error.hint) from None


def _asked(hook: Hook, file: ContextFile) -> ContextFile:
    """Let the persona replace the text of a file. Its front matter stays out, as that of a file does."""
    text = replaced(hook, file.name, file.layer.body if file.layer is not None else "")
    if text is None:
        return file
    body = split_front_matter(text, hook.path)[1].strip()
    hides = (file.layer.source, *file.layer.hides) if file.layer is not None else ()
    return file._replace(layer=Layer(hook.path, "halo", body, 1, hides=hides), replaced=True)


class Size(msgspec.Struct, frozen=True):
    """The characters of a context file, and the fewest that it can be shortened to."""

    whole: int
    least: int


def check_caps(files: tuple[ContextFile, ...], settings: PromptSettings) -> None:
    """Raise `LayerError` for the first file that exceeds a cap, by itself or with those before it."""
    total = 0
    for file in files:
        if file.layer is None:
            continue
        size = len(file.layer.body)
        if size > settings.context_file_chars:
            raise _too_long(file, f"{size:,} characters", settings.context_file_chars, "context_file_chars")
        total += size
        if total > settings.context_total_chars:
            what = f"{size:,} characters, with the context files before it {total:,}"
            raise _too_long(file, what, settings.context_total_chars, "context_total_chars")


def _too_long(file: ContextFile, size: str, cap: int, key: str) -> LayerError:
    source = file.layer.source if file.layer is not None else file.setting
    return LayerError(
        f"the context file {file.name} has {size}; general.prompt.{key} allows {cap:,}",
        file=source,
        hint=f"shorten it, raise {key}, or set general.prompt.context_overflow: truncate",
    )


def rooms(sizes: list[Size], file_cap: int, total_cap: int) -> list[int] | None:
    """Share `total_cap` among files in their order: the characters that each may take.

    Each gets what it needs up to `file_cap`, but never the room that those behind it need at least. None
    when even the least does not fit.
    """
    if sum(size.least for size in sizes) > total_cap or any(size.least > file_cap for size in sizes):
        return None
    given: list[int] = []
    behind = sum(size.least for size in sizes)
    left = total_cap
    for size in sizes:
        behind -= size.least
        room = min(size.whole, file_cap, left - behind)
        given.append(room)
        left -= room
    return given
