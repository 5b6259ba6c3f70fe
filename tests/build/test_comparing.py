"""Two states of a workspace compared: what changed, where it comes from, and what it costs a cache."""

import random
import time

import msgspec
import pytest
from generated import FEW, workspaces
from hypothesis import given
from hypothesis import strategies as st
from making import agent, skill, tree

from halo.build.collecting import compile_in_memory, survey_tree
from halo.build.diff.changes import compare_trees
from halo.build.diff.comparing import compare
from halo.build.diff.line_edits import line_edits
from halo.compiler.tokens import estimate
from halo.errors import HaloError
from halo.records.messages import Message, Text
from halo.records.targets import AgentTarget

BASE = {
    ".halo/USER.md": "Mira.\n",
    ".halo/INSTRUCTIONS.md": "one\ntwo\nthree\n",
    ".halo/agents/a/agent.yaml": agent(tools=["file_read"], skills=["s"]),
    ".halo/agents/a/AGENT.md": "You are A.\nBe kind.\n",
    ".halo/agents/b/agent.yaml": agent(),
    ".halo/agents/b/AGENT.md": "You are B.\n",
    ".halo/skills/s/SKILL.md": skill("Do it.\n", name="s", description="does it"),
    "docs/.halo/INSTRUCTIONS.md": "Docs are short.\n",
}
ROOT = AgentTarget("a")


def outcome(files, target=ROOT):
    return next(compile_in_memory(tree(files), [target]))


def changed(change, target=ROOT, base=BASE):
    """The difference that `change` (files; None deletes) makes to a target."""
    files = {path: text for path, text in {**base, **change}.items() if text is not None}
    return compare(outcome(base, target), outcome(files, target))


def affected(change, base=BASE):
    """The names of the targets that `change` affects."""
    files = {path: text for path, text in {**base, **change}.items() if text is not None}
    return [d.target.name for d in compare_trees(tree(base), tree(files)).affected]


def applied(old, hunks):
    """What `patch` would make of the lines of `old`."""
    lines = old.removesuffix("\n").split("\n") if old else []
    found, at = [], 0
    for hunk in hunks:
        start = hunk.old_start - 1 if hunk.old_count else hunk.old_start
        start = max(start, 0)
        found += lines[at:start]
        assert len(found) == max(hunk.new_start - 1, 0)
        assert lines[start : start + hunk.old_count] == [x[1:] for x in hunk.lines if x[0] != "+"]
        new = [x[1:] for x in hunk.lines if x[0] != "-"]
        assert len(new) == hunk.new_count
        found += new
        at = start + hunk.old_count
    found += lines[at:]
    return "".join(f"{line}\n" for line in found)


def segments(difference):
    return [hunk for hunk in difference.hunks if hunk.kind == "segment"]


class TestWhichTargets:
    def test_a_rule_of_the_workspace_is_in_every_agent(self):
        assert affected({".halo/INSTRUCTIONS.md": "one\n2\nthree\n"}) == [
            "a/root",
            "a/sub",
            "b/root",
            "b/sub",
        ]

    def test_the_text_of_an_agent_is_its_own(self):
        assert affected({".halo/agents/b/AGENT.md": "You are Bo.\n"}) == ["b/root", "b/sub"]

    def test_the_body_of_a_skill_is_read_when_it_is_activated(self):
        assert affected(
            {".halo/skills/s/SKILL.md": skill("Do it now.\n", name="s", description="does it")}
        ) == ["skills/s"]

    def test_the_description_of_a_skill_is_told_to_every_agent_that_lists_it(self):
        change = {".halo/skills/s/SKILL.md": skill("Do it.\n", name="s", description="does it well")}
        assert affected(change) == ["a/root", "a/sub", "skills/s"]

    def test_rules_of_a_directory_are_a_target_of_their_own(self):
        assert affected({"docs/.halo/INSTRUCTIONS.md": "Docs are long.\n"}) == ["scopes/docs"]

    def test_another_spelling_of_the_same_text_changes_nothing(self):
        assert affected({".halo/INSTRUCTIONS.md": "\ufeffone\r\ntwo\r\nthree\r\n\r\n"}) == []

    def test_the_name_of_a_prompt_file_is_not_told_to_a_model(self):
        base = {**BASE, ".halo/prompts/all/x.md": "X\n"}
        assert affected({".halo/prompts/all/x.md": None, ".halo/prompts/all/y.md": "X\n"}, base) == []

    def test_what_comes_and_what_goes(self):
        change = {
            ".halo/agents/b/agent.yaml": None,
            ".halo/agents/b/AGENT.md": None,
            ".halo/agents/c/agent.yaml": agent(),
        }
        files = {path: text for path, text in {**BASE, **change}.items() if text is not None}
        found = compare_trees(tree(BASE), tree(files)).affected
        assert [(d.target.name, d.change) for d in found] == [
            ("b/root", "removed"),
            ("b/sub", "removed"),
            ("c/root", "added"),
            ("c/sub", "added"),
        ]
        assert found[0].old_tokens == found[0].removed_tokens > 0
        assert found[2].new_tokens == found[2].added_tokens > 0
        assert all(line[0] == "-" for hunk in found[0].hunks for line in hunk.lines)
        assert found[2].cache is found[0].cache is None

    def test_without_a_workspace_on_one_side_everything_is_new(self):
        found = compare_trees(tree({"README.md": "", "docs/.halo/INSTRUCTIONS.md": "x"}), tree(BASE))
        assert {d.change for d in found.affected} == {"added"}
        assert len(found.affected) == 6
        assert found.unchanged == []

    def test_only_what_something_changed_for_is_compiled_twice(self, monkeypatch):
        compiled = []

        def counting(state, targets):
            targets = list(targets)
            compiled.extend(t.name for t in targets)
            return compile_in_memory(state, targets)

        monkeypatch.setattr("halo.build.diff.changes.compile_in_memory", counting)
        compare_trees(tree(BASE), tree({**BASE, ".halo/agents/b/AGENT.md": "You are Bo.\n"}))
        assert sorted(compiled) == sorted(
            [t.name for t in survey_tree(tree(BASE)).targets] + ["b/root", "b/sub"]
        )

    def test_what_many_prompts_share_is_noted(self):
        found = compare_trees(tree(BASE), tree({**BASE, ".halo/INSTRUCTIONS.md": "one\n2\nthree\n"})).affected
        assert [d.same_as for d in found] == ["", "a/root", "a/root", "a/root"]


BROKEN = {".halo/agents/a/agent.yaml": "model: {"}


class TestErrors:
    def test_a_side_that_does_not_compile(self):
        difference = changed(BROKEN)
        assert (difference.change, difference.old_error) == ("changed", "")
        assert difference.new_error.startswith("workspace:.halo/agents/a/agent.yaml:1: not valid YAML")
        assert difference.failed
        assert difference.hunks == ()

    def test_a_side_that_is_repaired(self):
        difference = compare(outcome({**BASE, **BROKEN}), outcome(BASE))
        assert difference.failed
        assert difference.old_error
        assert not difference.new_error

    def test_broken_on_both_sides_is_shown_as_well(self):
        broken = {**BASE, **BROKEN}
        found = compare_trees(tree(broken), tree(broken)).affected
        assert [(d.target.name, d.change, bool(d.new_error)) for d in found] == [
            ("a/root", "unchanged", True),
            ("a/sub", "unchanged", True),
        ]

    def test_a_new_agent_that_does_not_compile(self):
        files = {**BASE, ".halo/agents/c/agent.yaml": "model: {"}
        found = compare_trees(tree(BASE), tree(files)).affected
        assert [(d.target.name, d.change, d.failed) for d in found] == [
            ("c/root", "added", True),
            ("c/sub", "added", True),
        ]

    def test_settings_that_one_side_cannot_read_hide_no_agent(self):
        found = compare_trees(tree(BASE), tree({**BASE, ".halo/settings.yaml": "general: ["})).affected
        assert "a/root" in [d.target.name for d in found if d.new_error]

    def test_settings_that_neither_side_can_read_are_an_error(self):
        broken = tree({**BASE, ".halo/settings.yaml": "general: ["})
        with pytest.raises(HaloError):
            compare_trees(broken, broken)


class TestFirstChange:
    def test_it_names_segment_source_and_line(self):
        first = changed({".halo/INSTRUCTIONS.md": "one\n2\nthree\n"}).first_change
        assert (first.side, first.segment, first.source, first.line) == (
            "new",
            "instructions",
            "workspace:.halo/INSTRUCTIONS.md",
            2,
        )
        assert (first.number, first.segments) == (3, len(outcome(BASE).compiled.manifest.segments))
        prompt = outcome(BASE).compiled.prompt
        assert prompt.split("\n")[first.prompt_line - 1] == "two"
        assert prompt.encode()[first.byte :].startswith(b"two")

    def test_what_was_taken_away_is_looked_up_where_it_was(self):
        first = changed({".halo/INSTRUCTIONS.md": "one\ntwo\n"}).first_change
        assert (first.side, first.source, first.line) == ("old", "workspace:.halo/INSTRUCTIONS.md", 3)
        first = changed({".halo/INSTRUCTIONS.md": None}).first_change
        assert (first.side, first.segment) == ("old", "instructions")

    def test_a_derived_line_leads_to_what_it_was_made_from(self):
        first = changed(
            {".halo/skills/s/SKILL.md": skill("Do it.\n", name="s", description="other")}
        ).first_change
        assert (first.segment, first.source, first.line) == (
            "skills",
            "workspace:.halo/skills/s/SKILL.md",
            3,
        )

    def test_without_a_change_of_text_there_is_none(self):
        difference = changed(
            {
                ".halo/agents/a/agent.yaml": agent(
                    tools=["file_read"], skills=["s"], model={"provider": "openai", "id": "n"}
                )
            }
        )
        assert difference.first_change is None
        assert segments(difference) == []
        assert [(f.field, f.old, f.new) for f in difference.fields] == [("binding.model", "m", "n")]


class TestCache:
    def test_what_stands_before_the_change_is_kept(self):
        cache = changed({".halo/INSTRUCTIONS.md": "one\n2\nthree\n"}).cache
        old = outcome(BASE).compiled
        kept = old.prompt.encode()[: cache.kept_bytes]
        assert kept.endswith(b"\none\n")
        assert cache.loss == "text"
        assert cache.kept_tokens == estimate(kept)
        assert cache.old_tokens == old.manifest.static_prefix.tokens
        assert cache.again_tokens == cache.new_tokens - cache.kept_tokens

    def test_nothing_behind_the_first_slot_was_ever_cached(self):
        base = {**BASE, ".halo/agents/a/AGENT.md": "You are A.\n{{now}}\nBe kind.\n"}
        cache = changed({".halo/INSTRUCTIONS.md": "other\n"}, base=base).cache
        assert cache.loss == ""
        assert cache.kept_tokens == cache.old_tokens == cache.new_tokens
        assert cache.again_tokens == 0

    def test_tools_stand_before_the_text(self):
        difference = changed({".halo/agents/a/agent.yaml": agent(tools=["file_read", "grep"], skills=["s"])})
        assert difference.cache.loss == "tools"
        assert (difference.cache.kept_bytes, difference.cache.kept_tokens) == (0, 0)
        assert difference.cache.again_tokens == difference.cache.new_tokens
        assert [(t.name, t.change, t.removed_tokens) for t in difference.tools] == [("grep", "added", 0)]
        assert difference.tools[0].added_tokens > 20
        assert [h.name for h in difference.hunks if h.kind == "tool"] == ["grep"]

    @pytest.mark.parametrize("model", [{"id": "n"}, {"provider": "anthropic"}])
    def test_another_model_has_another_cache(self, model):
        model = {"provider": "openai", "id": "m", **model}
        change = {".halo/agents/a/agent.yaml": agent(tools=["file_read"], skills=["s"], model=model)}
        assert changed(change).cache.loss == "model"

    def test_sampling_has_no_part_in_it(self):
        model = {"provider": "openai", "id": "m", "temperature": 0.5}
        difference = changed(
            {".halo/agents/a/agent.yaml": agent(tools=["file_read"], skills=["s"], model=model)}
        )
        assert [(f.field, f.old, f.new) for f in difference.fields] == [("binding.temperature", None, "0.5")]
        assert difference.cache.loss == ""
        assert difference.cache.kept_tokens == difference.cache.old_tokens

    def test_a_skill_is_no_prefix(self):
        files = {**BASE, ".halo/skills/s/SKILL.md": skill("Other.\n", name="s", description="does it")}
        (difference,) = compare_trees(tree(BASE), tree(files)).affected
        assert difference.cache is None


class TestWhatElseChanges:
    def test_name_and_description_of_a_skill(self):
        files = {**BASE, ".halo/skills/s/SKILL.md": skill("Do it.\n", name="s", description="well")}
        difference = compare_trees(tree(BASE), tree(files)).affected[-1]
        assert [(f.field, f.old, f.new) for f in difference.fields] == [("description", "does it", "well")]

    def test_the_schema_of_a_tool(self):
        """Builtin schemas change with the version of Halo alone; here one of two compiled targets is altered."""
        old = outcome(BASE)
        tools = old.compiled.manifest.tools
        altered = type(tools[0])(tools[0].name, tools[0].description, {**tools[0].parameters, "title": "t"})
        difference = compare(old, with_manifest(old, tools=(altered, *tools[1:])))
        assert [(t.name, t.change) for t in difference.tools] == [(tools[0].name, "changed")]
        (hunk,) = difference.hunks
        assert '+    "title": "t",' in hunk.lines
        assert difference.cache.loss == "tools"

    def test_the_order_of_tools(self):
        old = outcome(BASE)
        difference = compare(old, with_manifest(old, tools=old.compiled.manifest.tools[::-1]))
        assert [f.field for f in difference.fields] == ["order of tools"]
        assert difference.cache.loss == "tools"

    def test_few_shots(self):
        old = outcome(BASE)
        shots = (Message("user", (Text("Hello\nthere"),)), Message("assistant", (Text("Good day"),)))
        difference = compare(old, with_manifest(old, few_shots=shots))
        (hunk,) = difference.hunks
        assert (hunk.kind, hunk.lines) == (
            "few-shots",
            ("+[user]", "+Hello", "+there", "+[assistant]", "+Good day"),
        )
        assert difference.added_tokens == estimate(b"[user]\nHello\nthere\n[assistant]\nGood day\n")
        assert difference.cache.loss == ""


def with_manifest(old, **fields):
    """The same outcome with something else in its manifest."""
    manifest = msgspec.structs.replace(old.compiled.manifest, **fields)
    return old._replace(compiled=msgspec.structs.replace(old.compiled, manifest=manifest))


class TestHunks:
    def test_each_names_its_segment_and_the_line_it_is_about(self):
        change = {
            ".halo/agents/a/AGENT.md": "You are Ada.\nBe kind.\n",
            ".halo/INSTRUCTIONS.md": "one\ntwo\n3\n",
        }
        found = changed(change)
        assert [(h.name, h.source, h.line) for h in found.hunks] == [
            ("agent", "workspace:.halo/agents/a/AGENT.md", 1),
            ("instructions", "workspace:.halo/INSTRUCTIONS.md", 3),
        ]
        assert found.hunks[0].changed == ("-You are A.", "+You are Ada.")
        assert found.added_tokens == estimate(b"You are Ada.\n3\n")
        assert found.removed_tokens == estimate(b"You are A.\nthree\n")

    def test_far_too_much_is_not_shown_and_said(self):
        base = {**BASE, ".halo/INSTRUCTIONS.md": "".join(f"old {i}\n" for i in range(150_000))}
        change = {".halo/INSTRUCTIONS.md": "".join(f"new {i}\n" for i in range(150_000))}
        started = time.monotonic()
        difference = changed(change, base=base)
        assert difference.too_large
        assert difference.hunks == ()
        assert difference.removed_tokens > 100_000
        assert difference.first_change.line == 1
        assert time.monotonic() - started < 20


def shuffled(seed, words, count):
    return random.Random(seed).choices(words, k=count)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (shuffled(1, "xy", 20_000), shuffled(2, "xy", 20_000)),
        (["x"] * 20_000, ["x", "y"] * 10_000),
        ([f"{i}" for i in range(20_000)], [f"{i}" if i % 2 else f"new {i}" for i in range(20_000)]),
        ([f"{i}" for i in range(20_000)], [f"{i}" for i in range(20_000)][::-1]),
    ],
    ids=["two words", "one word", "every other line", "backwards"],
)
def test_a_line_diff_of_anything_ends_soon(old, new):
    started = time.monotonic()
    assert rebuilt(old, new) == new
    assert time.monotonic() - started < 20


def rebuilt(old, new):
    found, at = [], 0
    for edit in line_edits(old, new):
        assert edit.old_start >= at
        assert (edit.old_end, edit.new_end) != (edit.old_start, edit.new_start)
        found += old[at : edit.old_start] + new[edit.new_start : edit.new_end]
        at = edit.old_end
    return found + old[at:]


LINES = st.lists(st.sampled_from(["", "a", "b", "c", "d", "---"]), max_size=30)


@given(LINES, LINES)
def test_edits_turn_the_old_lines_into_the_new_ones(old, new):
    assert rebuilt(old, new) == new
    if old == new:
        assert line_edits(old, new) == []


@FEW
@given(workspaces())
def test_nothing_differs_from_itself(files):
    state = tree(files)
    for found in compile_in_memory(state, survey_tree(state).targets):
        assert compare(found, found).change == "unchanged"
        assert compare(found, outcome(files, found.target)).change == "unchanged"


@st.composite
def edited(draw):
    """A generated workspace, and the same with a few files of another one, or without some."""
    before, other = draw(workspaces()), draw(workspaces())
    after = dict(before)
    for path in draw(st.lists(st.sampled_from(sorted({*before, *other})), max_size=4)):
        after.pop(path, None)
        if path in other:
            after[path] = other[path]
    return before, draw(st.sampled_from([after, after, other]))


@FEW
@given(edited())
def test_every_difference_is_exact(states):
    """The hunks are a patch, the kept prefix is one, and figures agree with what they are about."""
    before, after = states
    try:
        changes = compare_trees(tree(before), tree(after))
    except HaloError:
        return  # settings that neither side can read
    for difference in changes.affected:
        old, new = (next(compile_in_memory(tree(f), [difference.target])).compiled for f in (before, after))
        if difference.failed:
            continue
        texts = {"added": ("", new and new.prompt), "removed": (old and old.prompt, "")}
        a, b = texts.get(difference.change) or (old.prompt, new.prompt)
        assert applied(a, segments(difference)) == b
        assert difference.new_tokens - difference.old_tokens == pytest.approx(
            difference.added_tokens - difference.removed_tokens, abs=2
        )
        if difference.change == "changed":
            assert_exact(difference, old, new)
    for target in changes.unchanged:
        told = [next(compile_in_memory(tree(f), [target])).compiled for f in (before, after)]
        assert told[0].manifest.fingerprint == told[1].manifest.fingerprint
        assert told[0].manifest.runtime == told[1].manifest.runtime


def assert_exact(difference, old, new):
    a, b = old.prompt.encode(), new.prompt.encode()
    first = difference.first_change
    assert (first is None) == (a == b)
    if first is not None:
        assert a[: first.byte] == b[: first.byte]
        (a[: first.byte]).decode()
        side = old if first.side == "old" else new
        segment = side.manifest.segments[first.number - 1]
        assert segment.id == first.segment
        assert segment.start <= min(first.byte, len(side.prompt.encode()) - 1) < segment.end
    cache = difference.cache
    if cache is not None:
        assert cache.kept_bytes <= min(old.manifest.static_prefix.bytes, new.manifest.static_prefix.bytes)
        assert a[: cache.kept_bytes] == b[: cache.kept_bytes]
        assert 0 <= cache.kept_tokens <= min(cache.old_tokens, cache.new_tokens)
        assert cache.again_tokens == cache.new_tokens - cache.kept_tokens


def test_what_was_consulted_is_known_of_failures_too():
    found = outcome({**BASE, ".halo/agents/a/agent.yaml": "model: {"})
    assert found.compiled is None
    assert "workspace:.halo/agents/a/agent.yaml" in [known.path for known in found.inputs]
