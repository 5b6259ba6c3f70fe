"""The rules of the place: instructions from general to specific, and what the project knows."""

from halo.compiler.compilation import Compilation
from halo.compiler.pieces import Part, Piece, titled, verbatim
from halo.workspace.layers import Layer, directory_layers, index_layer, instructions_layer, one_line
from halo.workspace.settings.general import InstructionFiles

_INDEX_LEAD = (
    "What this project is, and where its documents are; read the ones you need with `file_read`.\n\n"
)


def rules(job: Compilation) -> list[Part]:
    """Instructions, those of other tools, the rules of the working directory, the index.

    Internal agents get none.
    """
    if job.internal:
        return []
    parts: list[Part] = []
    instructions = instructions_layer(job.tree)
    if instructions is not None and instructions.body:
        parts.append(titled("instructions", "instructions", "User Instructions", instructions))
    chain = directory_layers(job.tree, job.target.directory)
    index = index_layer(job.tree)
    own = [layer for layer in (instructions, *(layer for _, layer in chain), index) if layer is not None]
    parts += _of_other_tools(job, own)
    if chain:
        first = chain[0][1]
        pieces = (Piece("## User Instructions\n\n", first.source, first.line), *chain_pieces(chain))
        parts.append(
            Part("directory", "instructions", "workspace", chain[-1][1].source, pieces, section=True)
        )
    if index is not None and index.body:
        heading = Piece(f"## Project Knowledge\n\n{_INDEX_LEAD}", index.source, index.line)
        parts.append(
            Part("index", "index", index.scope, index.source, (heading, verbatim(index)), section=True)
        )
    return parts


def _of_other_tools(job: Compilation, own: list[Layer]) -> list[Part]:
    """AGENTS.md, CLAUDE.md and their like, a part of each, as the settings choose them."""
    chosen = job.general.prompt.instruction_files
    if chosen == InstructionFiles():
        return []
    from halo.workspace.instructions.files import read_instructions

    found = read_instructions(job.tree, job.target.directory, chosen, own)
    job.diagnostics.extend(found.diagnostics)
    parts = []
    for layer, name, runs in found.files:
        heading = Piece(f"## Instructions from {one_line(name)}\n\n", layer.source, layer.line)
        pieces = (heading, *(Piece(run.text, run.source, run.line, run.verbatim) for run in runs))
        parts.append(Part(one_line(name), "instructions", layer.scope, layer.source, pieces, section=True))
    return parts


def chain_pieces(chain: tuple[tuple[str, Layer], ...]) -> list[Piece]:
    """Write a chain of directory rules: each level headed `### <dir>`, outermost first."""
    pieces: list[Piece] = []
    for i, (directory, layer) in enumerate(chain):
        divider = "\n\n" if i else ""
        pieces.append(Piece(f"{divider}### {directory}\n\n", layer.source, layer.line))
        pieces.append(verbatim(layer))
    return pieces
