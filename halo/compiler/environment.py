"""The last segment: what differs from machine to machine, in slots (docs/decisions/0001)."""

from halo.compiler.compilation import Compilation
from halo.compiler.pieces import RULES, Fill, Part, Piece


def environment(job: Compilation) -> Part:
    """Say where the workspace is, and the working directory."""
    lead = "The project workspace is at: " if job.root else "The workspace root is: "
    pieces = [
        Piece(lead, RULES, 1),
        Piece("{{workspace_root}}", RULES, 1, fill=Fill("workspace_root", "builtin")),
    ]
    if job.target.directory:
        pieces.append(Piece("\nWorking directory: ", RULES, 2))
        pieces.append(Piece("{{working_dir}}", RULES, 2, fill=Fill("working_dir", "builtin")))
    return Part("environment", "environment", "halo", RULES, tuple(pieces))
