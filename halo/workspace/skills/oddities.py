"""What is odd about skills: said of one where it is compiled, of what serves nobody by `halo build`."""

from typing import NamedTuple

from halo.errors import HaloError, LayerError, TreeError, UnknownNameError
from halo.files.tree import NotFound, Tree, read_part
from halo.records.diagnostics import Diagnostic
from halo.workspace.ids import Shelf, entries_of, is_usable, kind_or_other, shelves, skill_file
from halo.workspace.skills.reading import Skill, read_skill


def oddities_of(tree: Tree, skill: Skill) -> tuple[Diagnostic, ...]:
    """Say what is odd about where a skill lies: the name of its file, its variants, what it shadows."""
    return (*_file_name(tree, skill), *_shadowed(tree, skill))


def without_description(skill: Skill) -> tuple[Diagnostic, ...]:
    """Warn about a skill without a description."""
    if skill.description:
        return ()
    message = "no description in the front matter: a model cannot know when to use this skill"
    return (
        Diagnostic("skill-without-description", "warning", message, skill.source, skill.description_line),
    )


def _file_name(tree: Tree, skill: Skill) -> list[Diagnostic]:
    entries = tree.list(skill.folder)
    names = [e.name for e in entries if e.name.lower() == "skill.md" and e.kind != "dir"]
    used = skill.source.rsplit("/", 1)[-1]
    if used not in names and names:
        used = names[0]  # the file system does not tell case
    said = [] if used == "SKILL.md" else [f"the file of a skill is called SKILL.md, not {used}"]
    said += [f"{name} is not used, because {used} is there" for name in names if name != used]
    return [Diagnostic("skill-file-name", "warning", message, skill.source) for message in said]


def _shadowed(tree: Tree, skill: Skill) -> list[Diagnostic]:
    """Warn where a folder that other programs use is shadowed, or shadows one of ours.

    An override of a global or built-in skill by the workspace's `.halo/` is meant. So is a link to, or a
    copy of, the same text for another program.
    """
    foreign = {shelf.path(skill.id) for shelf in shelves(tree, "skills") if shelf.foreign}
    if not foreign & {skill.folder, *skill.hides}:
        return []
    return [
        Diagnostic(
            "skill-shadowed",
            "warning",
            f"{hidden} is not used: the skill {skill.id!r} of {skill.folder} comes first",
            skill.source,
        )
        for hidden in skill.hides
        if foreign & {skill.folder, hidden} and not _same_text(tree, skill, hidden)
    ]


def _same_text(tree: Tree, skill: Skill, folder: str) -> bool:
    try:
        return tree.read(skill.source) == tree.read(f"{folder}/{skill_file(tree, folder)}")
    except TreeError:
        return False


class Unreadable(NamedTuple):
    """The skills that cannot be read, and a remark for each, and for each place that may not be looked at."""

    ids: frozenset[str]
    remarks: tuple[Diagnostic, ...]


# All that a survey asks of a SKILL.md: an edit of it is nothing to who rests on that.
READABLE = "readable"


def readable_part(_data: bytes) -> bytes:
    """Return nothing of a file that could be read."""
    return b""


def unreadable_skills(tree: Tree, ids: list[str]) -> Unreadable:
    """Try to read the skills `ids`."""
    known = shelves(tree, "skills")
    first = {
        e.name: shelf.path(e.name)
        for shelf in reversed(known)
        for e in entries_of(tree, shelf)
        if e.kind in ("dir", "other")
    }
    found: set[str] = set()
    said = [remark for shelf in known for remark in _closed(tree, shelf)]
    places = {remark.source for remark in said}
    for skill_id in ids:
        try:
            # One that has just gone is on no shelf any more.
            _try(tree, skill_id, first.get(skill_id) or known[0].path(skill_id), known)
        except UnknownNameError:
            found.add(skill_id)
        except (LayerError, TreeError) as error:
            found.add(skill_id)
            if error.file not in places:  # a link in its place was said already
                said.append(skipped(error))
    return Unreadable(frozenset(found), tuple(said))


def _try(tree: Tree, skill_id: str, folder: str, known: tuple[Shelf, ...]) -> None:
    try:
        read_part(tree, f"{folder}/SKILL.md", READABLE, readable_part)
    except NotFound:
        read_skill(tree, skill_id, known)  # in another case, on another shelf, or nowhere


def skipped(error: HaloError, source: str = "", line: int = 0) -> Diagnostic:
    """Say that a skill is left out, at `source` where one is given, else where the error is."""
    if source:
        message = str(error).partition("\n")[0]
        return Diagnostic("skill-skipped", "warning", f"a skill is left out: {message}", source, line)
    message = f"the skill is left out: {error.message}"
    return Diagnostic("skill-skipped", "warning", message, error.file or "", error.line or 0)


def _closed(tree: Tree, shelf: Shelf) -> list[Diagnostic]:
    """Say what of a shelf may not be looked at."""
    why = "it leads out of its root or to nowhere, or may not be read"
    found = kind_or_other(tree, shelf.folder)
    if shelf.foreign and found == "dir":
        try:
            tree.list(shelf.folder)
        except TreeError:
            found = "other"
    if found != "dir":
        return [_skipped_place(shelf.folder, why)] if shelf.foreign and found == "other" else []
    return [
        _skipped_place(shelf.path(entry.name), why)
        for entry in entries_of(tree, shelf)
        if entry.kind == "other" and is_usable("skills", entry.name)
    ]


def _skipped_place(path: str, why: str) -> Diagnostic:
    return Diagnostic("skill-skipped", "warning", f"no skill is taken from here: {why}", path)
