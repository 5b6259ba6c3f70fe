"""`# Project Context`: the files that the settings put into every prompt, such as SOUL.md and TOOLS.md."""

from halo.compiler.compilation import Compilation
from halo.compiler.pieces import RULES, Part, Piece, verbatim
from halo.compiler.shortening import ends
from halo.records.artifacts import Scope
from halo.records.diagnostics import Diagnostic
from halo.workspace.context_files import ContextFile, Size, check_caps, read_context_files, rooms
from halo.workspace.layers import Layer
from halo.workspace.settings.files import WORKSPACE_SETTINGS
from halo.workspace.settings.prompt_lines import prompt_setting_error

_TITLE = "# Project Context\n\n"
_BETWEEN = "\n\n"  # head, marker and tail are paragraphs


def context(job: Compilation) -> list[Part]:
    """Make a part of each context file, the first headed `# Project Context`. Internal agents get none.

    Raises `LayerError` for what exceeds a cap, unless the settings say that it be truncated.
    """
    settings = job.general.prompt
    if job.internal:
        return []
    files = read_context_files(job.tree, settings, new=job.root and job.user is None)
    if settings.context_overflow == "truncate":
        bodies = _shortened(job, files)
    else:
        check_caps(files, settings)
        bodies = {f.name: _whole(f, f.layer) for f in files if f.layer is not None}
    return [_part(file, bodies.get(file.name), first=i == 0) for i, file in enumerate(files)]


def _part(file: ContextFile, body: list[Piece] | None, *, first: bool) -> Part:
    """Make the part of a file; one that is missing leads to the setting that names it."""
    title = [Piece(_TITLE, RULES, 1)] if first else []
    identity, heading = f"context/{file.name}", f"## {file.name}\n\n"
    if file.layer is None or body is None:
        text = f"{heading}[MISSING] Expected at: .halo/{file.name}"
        pieces = (*title, Piece(text, file.setting, file.line))
        return Part(identity, "context", _scope(file), file.setting, pieces, section=first)
    layer = file.layer
    pieces = (*title, Piece(heading, layer.source, layer.line), *body)
    return Part(identity, "context", layer.scope, layer.source, pieces, section=first, hides=layer.hides)


def _scope(file: ContextFile) -> Scope:
    """Say whose settings name the file."""
    return "workspace" if file.setting == WORKSPACE_SETTINGS else "global"


def _whole(file: ContextFile, layer: Layer) -> list[Piece]:
    return [verbatim(layer)._replace(verbatim=not file.replaced)]


def _shortened(job: Compilation, files: tuple[ContextFile, ...]) -> dict[str, list[Piece]]:
    """Return the text of each file that is there, what exceeds a cap cut to head and tail, and said."""
    settings = job.general.prompt
    there = [(file, file.layer) for file in files if file.layer is not None]
    sizes = [Size(len(y.body), min(len(y.body), _frame(f, y))) for f, y in there]
    shares = rooms(sizes, settings.context_file_chars, settings.context_total_chars)
    if shares is None:
        raise prompt_setting_error(
            job.tree,
            f"the caps are too small for {len(there)} files; even a shortened one takes about 150 characters",
            "context_files",
            hint="raise general.prompt.context_file_chars or context_total_chars, or name fewer files",
        )
    found = {}
    for (file, layer), room in zip(there, shares, strict=True):
        found[file.name] = _whole(file, layer) if len(layer.body) <= room else _cut(job, file, layer, room)
    return found


def _marker(file: ContextFile, layer: Layer, kept: int) -> str:
    if file.replaced:
        rest = "the rest is not at hand"
    elif layer.scope == "workspace":
        rest = f"read .halo/{file.name} for the rest"
    else:
        rest = f"the rest is in {file.name} of the user's global folder"
    return f"[… {kept:,} of the {len(layer.body):,} characters of {file.name} are shown here; {rest} …]"


def _frame(file: ContextFile, layer: Layer) -> int:
    """Return the most characters that the marker and the breaks around it take."""
    return len(_marker(file, layer, len(layer.body))) + 2 * len(_BETWEEN)


def _cut(job: Compilation, file: ContextFile, layer: Layer, room: int) -> list[Piece]:
    """Keep head and tail of a file, each verbatim, with a marker between them."""
    text, source = layer.body, layer.source
    head, tail = ends(text, room, _frame(file, layer))
    kept = head + len(text) - tail
    settings = job.general.prompt
    caps = f"{settings.context_file_chars:,} a file, {settings.context_total_chars:,} in all"
    job.say(
        Diagnostic(
            "context-truncated",
            "warning",
            f"{kept:,} of the {len(text):,} characters of {file.name} are in the prompt (caps: {caps})",
            source,
        )
    )
    line = layer.line + text.count("\n", 0, head)
    before, after = _BETWEEN if head else "", _BETWEEN if tail < len(text) else ""
    whole = not file.replaced
    pieces = [
        Piece(text[:head], source, layer.line, verbatim=whole),
        Piece(f"{before}{_marker(file, layer, kept)}{after}", source, line),
        Piece(text[tail:], source, layer.line + text.count("\n", 0, tail), verbatim=whole),
    ]
    return [piece for piece in pieces if piece.text]
