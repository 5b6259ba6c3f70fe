"""Compares two states of a workspace: only what something changed for is compiled twice."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from halo.build.collecting import Outcome, compile_in_memory, survey_tree
from halo.build.diff.comparing import compare
from halo.build.targets import Survey
from halo.errors import HaloError
from halo.files.tree import DEFAULT_LIMIT, UNREADABLE, Input, Tree, observe
from halo.records.diagnostics import Diagnostic
from halo.records.differences import Difference
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget, Target
from halo.workspace.parts import projection
from halo.workspace.personas import HOOK

_ORDER = (AgentTarget, SkillTarget, ScopeTarget)


class Changes(NamedTuple):
    """What differs between two states, the targets that do not, and what was found in the new one."""

    affected: list[Difference]
    unchanged: list[Target]
    oddities: tuple[Diagnostic, ...]


def compare_trees(old: Tree, new: Tree, wanted: Callable[[Target], bool] = lambda _: True) -> Changes:
    """Compare the default targets of two trees that are `wanted`, agents first."""
    before, after = _surveys(old, new)
    in_old, in_new = set(before.targets), set(after.targets)
    same = _Sameness(new)
    affected: list[Difference] = []
    unchanged: list[Target] = []
    for target in sorted(filter(wanted, in_old | in_new), key=_position):
        outcome = _compiled(old, target) if target in in_old else None
        if outcome is not None and target in in_new and all(map(same, outcome.inputs)):
            counterpart: Outcome | None = outcome
        else:
            counterpart = _compiled(new, target) if target in in_new else None
        difference = compare(outcome, counterpart)
        if difference.affected:
            affected.append(difference)
        else:
            unchanged.append(target)
    return Changes(_with_repetitions(affected), unchanged, after.oddities)


def _surveys(old: Tree, new: Tree) -> tuple[Survey, Survey]:
    """Find the targets of both sides; settings that only one side can read say which there are for both."""
    try:
        before = survey_tree(old)
    except HaloError:
        after = survey_tree(new)
        return after, after
    try:
        return before, survey_tree(new)
    except HaloError:
        return before, before


def _position(target: Target) -> tuple[int, str]:
    return _ORDER.index(type(target)), target.name


def _compiled(tree: Tree, target: Target) -> Outcome:
    return next(compile_in_memory(tree, [target]))


class _Sameness:
    """Tells whether an input that was recorded in the old tree is the same in the new one; asks it once."""

    def __init__(self, new: Tree) -> None:
        self._new = new
        self._known: dict[Input, bool] = {}

    def __call__(self, known: Input) -> bool:
        found = self._known.get(known)
        if found is None:
            found = self._known[known] = self._look(known)
        return found

    def _look(self, known: Input) -> bool:
        if known.path.startswith(HOOK):
            return True  # both sides are compiled in this process
        if known.digest == UNREADABLE:
            return False  # why it was, the compiler has to say
        try:
            # What has become larger than any layer may be has changed, and is not read to see that.
            now = observe(self._new, known, projection(known.part) if known.part else None, DEFAULT_LIMIT)
        except HaloError:
            return False
        return (now.kind, now.digest) == (known.kind, known.digest)


def _with_repetitions(differences: list[Difference]) -> list[Difference]:
    """Note where a target has the very changes of an earlier one: a layer that many prompts share."""
    seen: dict[bytes, str] = {}
    found = []
    for difference in differences:
        key = msgspec.json.encode(
            [
                difference.change,
                difference.old_error,
                difference.new_error,
                difference.fields,
                [(h.kind, h.name, h.source, h.line, h.changed) for h in difference.hunks],
            ]
        )
        first = seen.setdefault(key, difference.target.name)
        again = first != difference.target.name and not difference.too_large
        found.append(msgspec.structs.replace(difference, same_as=first) if again else difference)
    return found
