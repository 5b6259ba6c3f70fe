"""`# Project Context`: which file serves, what is missing, and what exceeds a cap (docs/reference/layers.md)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent, compiled, prompt, tree

from halo.compiler.shortening import ends
from halo.errors import LayerError, TreeError
from halo.files.tree import RecordingTree
from halo.records.targets import AgentTarget
from halo.workspace.context_files import Size, rooms
from halo.workspace.settings.prompt_lines import prompt_setting_at

SETTINGS = "workspace:.halo/settings.yaml"

FILES = {
    ".halo/agents/a/agent.yaml": agent(),
    ".halo/agents/a/AGENT.md": "BODY",
    ".halo/agents/i/agent.yaml": agent(internal=True),
    ".halo/agents/i/AGENT.md": "I-BODY",
    ".halo/USER.md": "USER",
    ".halo/SOUL.md": "SOUL",
    ".halo/TOOLS.md": "TOOLS",
}


def having(*names, files=FILES, **settings):
    """A workspace whose settings name these context files, each on a line of its own from line 4 on."""
    lines = [f"    - {json.dumps(name)}" for name in names]
    more = [f"    {key}: {value}" for key, value in settings.items()]
    text = "\n".join(["general:", "  prompt:", "    context_files:", *(lines or ["      []"]), *more, ""])
    return {**files, ".halo/settings.yaml": text}


def parts(made):
    return {
        segment.id: made.prompt.encode()[segment.start : segment.end].decode().removesuffix("\n")
        for segment in made.manifest.segments
        if segment.kind == "context"
    }


def truncations(made):
    return [remark for remark in made.manifest.diagnostics if remark.code == "context-truncated"]


class TestPlace:
    def test_they_stand_under_one_heading_in_the_order_of_the_settings(self):
        assert (
            "## User Profile\n\nUSER\n\n---\n\nBODY\n\n---\n\n# Project Context\n\n## TOOLS.md\n\nTOOLS\n\n## SOUL.md\n\nSOUL\n\nYour available tools: "
            in prompt(having("TOOLS.md", "SOUL.md", "TOOLS.md"))
        )

    def test_behind_the_index_and_before_the_prompts(self):
        files = {**FILES, ".halo/INDEX.md": "INDEX", ".halo/prompts/root/r.md": "ROOT"}
        ids = [s.id for s in compiled(having("SOUL.md", files=files)).manifest.segments]
        assert ids == [
            "user",
            "agent",
            "index",
            "context/SOUL.md",
            "prompts/root/r.md",
            "tools",
            "environment",
        ]

    def test_without_any_there_is_no_heading(self):
        assert "Project Context" not in prompt(having())

    def test_they_do_not_say_who_the_agent_is(self):
        """The identity line stays where nothing else says it."""
        bare = {k: v for k, v in FILES.items() if not k.endswith(("AGENT.md", "USER.md"))}
        assert prompt(having("SOUL.md", files=bare)).startswith(
            "You are a, an agent of this workspace.\n\n---\n\n# Project Context\n\n"
        )

    def test_internal_agents_get_none(self):
        assert prompt(having("SOUL.md"), AgentTarget("i")) == prompt(FILES, AgentTarget("i"))

    @pytest.mark.parametrize("options", [{"role": "sub"}, {"mode": "minimal"}])
    def test_subs_and_minimal_prompts_get_them(self, options):
        assert "## SOUL.md\n\nSOUL" in prompt(having("SOUL.md"), **options)


class TestWhichFile:
    def test_the_workspace_wins_and_the_global_one_serves_otherwise(self):
        both = {**FILES, "global:SOUL.md": "G-SOUL", "global:IDENTITY.md": "G-ID"}
        made = compiled(having("SOUL.md", "IDENTITY.md", files=both))
        assert parts(made)["context/IDENTITY.md"].endswith("## IDENTITY.md\n\nG-ID")
        assert "G-SOUL" not in made.prompt
        scopes = {s.id: (s.scope, s.source, s.hides) for s in made.manifest.segments}
        assert scopes["context/SOUL.md"] == ("workspace", "workspace:.halo/SOUL.md", ("global:SOUL.md",))
        assert scopes["context/IDENTITY.md"] == ("global", "global:IDENTITY.md", ())

    def test_a_path_below_halo_is_a_name_too(self):
        files = {**FILES, ".halo/notes/é.md": "NOTE"}
        assert "## notes/é.md\n\nNOTE" in prompt(having("notes/é.md", files=files))

    def test_front_matter_never_leaks_and_lines_are_those_of_the_file(self):
        files = {**FILES, ".halo/SOUL.md": "---\nkey: LEAK\n---\n\nSOUL\n"}
        made = compiled(having("SOUL.md", files=files))
        assert "LEAK" not in made.prompt
        (segment,) = (s for s in made.manifest.segments if s.kind == "context")
        *_, title, heading, body = segment.spans
        assert (title.source, title.verbatim) == ("halo:compiler", False)
        assert (heading.source, heading.line, heading.verbatim) == ("workspace:.halo/SOUL.md", 5, False)
        assert (body.source, body.line, body.verbatim) == ("workspace:.halo/SOUL.md", 5, True)

    def test_one_with_nothing_to_say_has_no_heading(self):
        files = {**FILES, ".halo/SOUL.md": "---\nkey: x\n---\n"}
        assert "Project Context" not in prompt(having("SOUL.md", files=files))

    @pytest.mark.parametrize("present", [{}, {".halo/IDENTITY.md": " \n"}])
    def test_a_missing_one_leaves_a_marker_that_leads_to_the_settings(self, present):
        made = compiled(having("SOUL.md", "IDENTITY.md", files={**FILES, **present}))
        assert parts(made)["context/IDENTITY.md"] == (
            "\n\n## IDENTITY.md\n\n[MISSING] Expected at: .halo/IDENTITY.md"
        )
        (segment,) = (s for s in made.manifest.segments if s.id == "context/IDENTITY.md")
        assert {(span.source, span.line) for span in segment.spans} == {(SETTINGS, 5)}

    def test_a_folder_in_its_place_is_an_error(self):
        with pytest.raises(TreeError):
            compiled(having("notes", files={**FILES, ".halo/notes/x.md": "x"}))

    @pytest.mark.parametrize(
        "name",
        [
            *("", "/etc/passwd", "../secrets.md", "a/../../b.md", "a//b.md", "./a.md", "a\\b.md", "c:x.md"),
            *("settings.yaml", "Settings.YAML", "sessions/x/transcript.md", "artifacts/1/prompt.md"),
            *("evo/x.md", "a\nb.md", " a.md", "x" * 201, "a\u200bb.md", ".git/config", "notes/.env"),
        ],
    )
    def test_what_names_no_text_of_the_workspace_is_refused_at_its_line(self, name):
        with pytest.raises(LayerError) as caught:
            compiled(having("SOUL.md", name))
        assert (caught.value.file, caught.value.line) == (SETTINGS, 5)
        assert caught.value.hint

    def test_the_list_of_the_workspace_replaces_that_of_the_machine(self):
        files = {**FILES, "secrets:settings.yaml": "general: {prompt: {context_files: [TOOLS.md]}}\n"}
        assert list(parts(compiled(files))) == ["context/TOOLS.md"]
        assert list(parts(compiled(having("SOUL.md", files=files)))) == ["context/SOUL.md"]


class TestBootstrap:
    NEW = {k: v for k, v in FILES.items() if k != ".halo/USER.md"} | {".halo/BOOTSTRAP.md": "HELLO"}

    def test_it_is_for_a_root_agent_while_no_user_is_known(self):
        assert "## BOOTSTRAP.md\n\nHELLO" in prompt(having("BOOTSTRAP.md", files=self.NEW))

    @pytest.mark.parametrize("where", [".halo/USER.md", "global:USER.md"])
    def test_not_once_a_user_is_known(self, where):
        known = {**self.NEW, where: "me"}
        assert "BOOTSTRAP" not in prompt(having("BOOTSTRAP.md", files=known))

    def test_not_for_subs(self):
        assert "BOOTSTRAP" not in prompt(having("BOOTSTRAP.md", files=self.NEW), role="sub")

    def test_a_known_user_needs_no_marker_for_it(self):
        assert "MISSING" not in prompt(having("BOOTSTRAP.md"))


LONG = "".join(f"line {i:04} of the soul\n" for i in range(1500))  # 36,000 characters


class TestCaps:
    def test_what_fits_is_whole(self):
        fits = {**FILES, ".halo/SOUL.md": "x" * 20_000}
        assert parts(compiled(having("SOUL.md", files=fits)))["context/SOUL.md"].endswith("x" * 20_000)

    def test_a_file_over_its_cap_is_an_error_that_says_what_to_do(self):
        files = {**FILES, ".halo/SOUL.md": "x" * 20_001}
        with pytest.raises(LayerError) as caught:
            compiled(having("TOOLS.md", "SOUL.md", files=files))
        assert caught.value.file == "workspace:.halo/SOUL.md"
        assert "SOUL.md has 20,001 characters; general.prompt.context_file_chars allows 20,000" in str(
            caught.value
        )
        assert "context_overflow: truncate" in caught.value.hint

    def test_characters_are_counted_not_bytes(self):
        files = {**FILES, ".halo/SOUL.md": "日" * 20_000}
        assert "日" * 20_000 in prompt(having("SOUL.md", files=files))

    def test_files_over_the_total_are_an_error_at_the_first_that_does_not_fit(self):
        files = {**FILES, ".halo/SOUL.md": "x" * 60, ".halo/TOOLS.md": "y" * 60}
        with pytest.raises(LayerError) as caught:
            compiled(having("SOUL.md", "TOOLS.md", files=files, context_total_chars=100))
        assert caught.value.file == "workspace:.halo/TOOLS.md"
        assert "120; general.prompt.context_total_chars allows 100" in str(caught.value)

    def test_a_file_that_several_agents_are_given_counts_once_for_each(self):
        """Complaint 59: its size was added up over the agents, and found too large."""
        agents = {f".halo/agents/{name}/agent.yaml": agent() for name in "bcd"}
        files = having(
            "SOUL.md", files={**FILES, **agents, ".halo/SOUL.md": "x" * 90}, context_total_chars=100
        )
        for name in "abcd":
            assert "x" * 90 in prompt(files, AgentTarget(name))

    def test_truncation_keeps_head_and_tail_and_says_so(self):
        files = {**FILES, ".halo/SOUL.md": LONG}
        made = compiled(having("SOUL.md", files=files, context_overflow="truncate"))
        text = parts(made)["context/SOUL.md"].partition("## SOUL.md\n\n")[2]
        head, marker, tail = text.split("\n\n")
        assert len(text) <= 20_000
        assert LONG.startswith(head + "\n")
        assert LONG.endswith("\n" + tail + "\n")
        assert (13_000 < len(head) <= 14_000, 3_000 < len(tail) <= 4_000) == (True, True)
        assert marker == (
            f"[… {len(head) + len(tail):,} of the {len(LONG) - 1:,} characters of SOUL.md are shown here; "
            "read .halo/SOUL.md for the rest …]"
        )
        (remark,) = truncations(made)
        assert (remark.code, remark.severity, remark.source) == (
            "context-truncated",
            "warning",
            "workspace:.halo/SOUL.md",
        )
        assert f"{len(head) + len(tail):,} of the {len(LONG) - 1:,} characters" in remark.message

    def test_head_and_tail_lead_to_their_lines(self):
        files = {**FILES, ".halo/SOUL.md": f"---\na: 1\n---\n{LONG}"}
        made = compiled(having("SOUL.md", files=files, context_overflow="truncate"))
        (segment,) = (s for s in made.manifest.segments if s.kind == "context")
        lines = files[".halo/SOUL.md"].split("\n")
        head, marker, tail = segment.spans[-3:]
        assert (head.verbatim, marker.verbatim, tail.verbatim) == (True, False, True)
        for span in (head, tail):
            own = made.prompt.encode()[span.start : span.end].decode().split("\n")
            assert own == lines[span.line - 1 : span.line - 1 + len(own)]
        assert marker.line == head.line + made.prompt.encode()[head.start : head.end].count(b"\n")

    def test_a_global_file_is_not_said_to_be_within_reach(self):
        files = {**FILES, "global:LONG.md": LONG}
        text = prompt(having("LONG.md", files=files, context_overflow="truncate"))
        assert "; the rest is in LONG.md of the user's global folder …]" in text

    def test_caps_without_room_for_a_marker_are_an_error_at_the_settings(self):
        files = {**FILES, ".halo/SOUL.md": LONG}
        for cap in ("context_file_chars", "context_total_chars"):
            with pytest.raises(LayerError) as caught:
                compiled(having("SOUL.md", files=files, context_overflow="truncate", **{cap: 50}))
            assert (caught.value.file, caught.value.line) == (SETTINGS, 3)

    def test_the_last_files_are_shortened_when_the_total_is_used_up(self):
        files = {**FILES, **{f".halo/{n}.md": LONG[:4_000] for n in "ABC"}}
        made = compiled(
            having(
                "A.md", "B.md", "C.md", files=files, context_overflow="truncate", context_total_chars=6_000
            )
        )
        texts = [t.partition(f"## {n}.md\n\n")[2] for n, t in zip("ABC", parts(made).values(), strict=True)]
        assert texts[0] == LONG[:4_000].strip()
        assert sum(map(len, texts)) <= 6_000
        assert [d.source for d in truncations(made)] == [f"workspace:.halo/{n}.md" for n in "BC"]


class TestHeadAndTail:
    TEXTS = st.text(alphabet=st.sampled_from("ab \n日🙂e\u0301\u200d👍🏽🇳🇴"), min_size=1).map(str.strip)

    @given(TEXTS, st.integers(0, 40), st.integers(0, 400))
    def test_both_fit_and_do_not_overlap(self, text, frame, room):
        if len(text) <= room:
            return
        head, tail = ends(text, room, frame)
        assert 0 <= head <= tail <= len(text)
        kept = head + len(text) - tail
        assert kept == 0 or kept + frame <= room
        assert text[:head] == text[:head].rstrip()
        assert not text[tail:].startswith("\n")

    @given(
        st.lists(st.sampled_from(["e\u0301", "👍🏽", "👩\u200d💻", "❤\ufe0f", "🇳🇴", "x"]), min_size=9),
        st.integers(1, 30),
    )
    def test_no_character_is_cut(self, characters, room):
        text = "".join(characters)
        if len(text) <= room:
            return
        head, tail = ends(text, room, 0)
        starts, at = {0, len(text)}, 0
        for character in characters:
            at += len(character)
            starts.add(at)
        assert head in starts
        assert tail in starts

    def test_a_long_line_is_cut_between_words(self):
        text = "word " * 2_000
        head, tail = ends(text.strip(), 1_000, 100)
        assert text[:head].endswith("word")
        assert text[tail:].startswith("word")

    @given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 90)), max_size=6), st.integers(90, 600))
    def test_rooms_never_exceed_a_cap_nor_fall_below_the_least(self, raw, cap):
        sizes = [Size(whole, min(whole, least)) for whole, least in raw]
        total = sum(s.least for s in sizes) + 50
        given_rooms = rooms(sizes, cap, total)
        assert sum(given_rooms) <= total
        for size, room in zip(sizes, given_rooms, strict=True):
            assert size.least <= room <= min(size.whole, cap)


class TestInputs:
    def test_a_setting_is_found_where_it_stands(self):
        files = {
            ".halo/settings.yaml": "x: {}\ngeneral:\n  prompt:\n    sections: []\n    context_files:\n      - A.md\n      - B.md\n",
            "secrets:settings.yaml": "general:\n  prompt: {time_zone: local}\n",
        }
        source = tree(files)
        assert prompt_setting_at(source, "context_files") == (SETTINGS, 5)
        assert prompt_setting_at(source, "context_files", 1) == (SETTINGS, 7)
        assert prompt_setting_at(source, "time_zone") == ("secrets:settings.yaml", 2)

    def test_an_edit_elsewhere_in_the_settings_is_no_change(self):
        """Only `general`, and the lines of `general.prompt` where a span leads to one."""

        def inputs(text):
            from halo.compiler.compile import compile_target

            recorded = RecordingTree(tree({**FILES, ".halo/settings.yaml": text}), lambda: 1)
            compile_target(recorded, AgentTarget("a"))
            return {(i.path, i.part): i.digest for i in recorded.inputs() if i.path == SETTINGS}

        block = "general:\n  prompt:\n    context_files: [GONE.md]\n"
        assert inputs(f"{block}a: {{params: {{k: 1}}}}\n") == inputs(f"{block}a: {{params: {{k: 2}}}}\n")
        assert inputs(block) != inputs(f"a: {{params: {{k: 1}}}}\n{block}")
