"""Which sections a prompt has, in which order, and how they are joined (docs/reference/layers.md)."""

import re

import pytest
from making import MODEL, agent, body, compiled, prompt, skill

from halo.errors import LayerError, UnknownNameError, UsageError
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget

RULE = "\n\n---\n\n"

FULL = {
    "global:USER.md": "G-USER",
    "global:INSTRUCTIONS.md": "G-RULES",
    ".halo/USER.md": "USER",
    ".halo/INSTRUCTIONS.md": "RULES",
    ".halo/INDEX.md": "INDEX",
    ".halo/prompts/bootstrap/BOOT.md": "BOOT",
    ".halo/prompts/all/tools.md": "ALL",
    ".halo/prompts/root/lead.md": "ROOT",
    ".halo/agents/a/agent.yaml": agent(
        name="Ada", description="leads", tools=["grep", "file_read"], skills=["s"], team=["a", "b"]
    ),
    ".halo/agents/a/AGENT.md": "BODY",
    ".halo/agents/b/agent.yaml": agent(name="Bob", description="codes"),
    ".halo/agents/b/AGENT.md": "B-BODY",
    ".halo/agents/i/agent.yaml": agent(internal=True, tools=["grep"], team=["b"]),
    ".halo/agents/i/AGENT.md": "I-BODY",
    ".halo/skills/s/SKILL.md": skill("S-BODY", name="Sums", description="adds"),
    "pkg/.halo/INSTRUCTIONS.md": "PKG",
    "pkg/deep/er/.halo/INSTRUCTIONS.md": "DEEPER",
}


def without(*keys):
    return {key: text for key, text in FULL.items() if key not in keys}


def headings(text):
    return re.findall(r"(?m)^#{2,3} .*$", text)


def test_a_root_prompt_whole():
    """Who, team, rules, knowledge, prompts, skills, tools, and the environment last; a rule between two sections and a blank line elsewhere."""
    text = prompt(FULL)
    assert text.split(RULE) == [
        "## User Profile\n\nUSER",
        "BODY",
        text.split(RULE)[2],
        "## User Instructions\n\nRULES",
        text.split(RULE)[4],
    ]
    assert text.split(RULE)[2].startswith("## Know Your Team Before You Act\n\n")
    index, *rest = text.split(RULE)[4].split("\n\nINDEX\n\n")
    assert index.startswith("## Project Knowledge\n\n")
    (tail,) = rest
    assert tail == (
        "ROOT\n\nALL\n\n"
        "## Your Skills\n\nLoad the full instructions of a skill with `activate_skill` before you use it.\n\n"
        "<available_skills>\n  <skill>\n    <name>Sums</name>\n    <id>s</id>\n"
        "    <description>adds</description>\n  </skill>\n</available_skills>\n\n"
        "Your available tools: file_read, grep, start_session, session_list, session_history, query_session,"
        " interrupt_session, stop_session, archive_session, get_session_output, query_agent, session_status, activate_skill."
        " Only use tools in this list.\n\n"
        "The project workspace is at: {{workspace_root}}\n"
    )


def test_a_sub_prompt_whole():
    """No USER.md, no prompts/root, no bootstrap; the lean roster; its own words for the workspace."""
    text = prompt(FULL, role="sub", directory="pkg")
    sections = text.split(RULE)
    assert sections[0] == "BODY"
    assert sections[1].startswith("## Your Team\n\n")
    assert sections[2:4] == ["## User Instructions\n\nRULES", "## User Instructions\n\n### pkg\n\nPKG"]
    assert sections[4].startswith("## Project Knowledge\n\n")
    assert text.endswith("The workspace root is: {{workspace_root}}\nWorking directory: {{working_dir}}\n")
    assert "\n\nINDEX\n\nALL\n\n## Your Skills\n\n" in text
    assert not re.search(r"USER\b(?! )|ROOT|BOOT|User Profile|Before You Act", text)


@pytest.mark.parametrize("role", ["root", "sub"])
def test_an_internal_agent_gets_nothing_of_the_workspace(role):
    """Only its AGENT.md, its tools and the place; no directory rules, and no roster even if it lists a team."""
    internal = AgentTarget("i", role, "pkg")
    where = "The project workspace is at" if role == "root" else "The workspace root is"
    for files in (FULL, without(".halo/USER.md", "global:USER.md")):
        assert prompt(files, internal) == (
            "I-BODY\n\nYour available tools: grep, session_status. Only use tools in this list.\n\n"
            f"{where}: {{{{workspace_root}}}}\nWorking directory: {{{{working_dir}}}}\n"
        )


# The list of tools of an agent that lists none.
ALONE = "Your available tools: session_status. Only use tools in this list.\n\n"


OPTIONAL = [
    key for key in FULL if "/b/" not in key and not key.endswith("agent.yaml") and "skills" not in key
]


@pytest.mark.parametrize("name", ["a", "i"])
@pytest.mark.parametrize("role", ["root", "sub"])
@pytest.mark.parametrize("missing", [(), *[(key,) for key in OPTIONAL], tuple(OPTIONAL)])
def test_there_are_no_stray_blank_lines(name, role, missing):
    """Whatever is absent leaves no trace: one blank line between blocks, one newline at the end."""
    text = prompt(without(*missing), AgentTarget(name, role, "pkg/deep/er"))
    assert "\n\n\n" not in text
    assert text == text.strip() + "\n"
    assert "---\n\n---" not in text


def test_blank_files_count_as_absent():
    """A file with nothing but white space adds no heading and no rule."""
    blank = {key: " \n\t\n" for key in OPTIONAL if not key.endswith("AGENT.md")}
    assert prompt({**FULL, **blank}) == prompt(without(*blank))


class TestUserProfile:
    def test_the_workspace_wins(self):
        assert "G-USER" not in prompt(FULL)

    def test_the_global_one_serves_otherwise(self):
        assert prompt(without(".halo/USER.md")).startswith("## User Profile\n\nG-USER\n\n---\n\n")

    def test_front_matter_alone_says_who_but_shows_nothing(self):
        """The user is known, so there is no bootstrap; there is nothing to say, so there is no section."""
        text = prompt({**FULL, ".halo/USER.md": "---\nuser_name: Bob\n---\n"})
        assert text.startswith("BODY")


class TestBootstrap:
    NO_USER = without(".halo/USER.md", "global:USER.md")

    def test_it_leads_a_root_prompt_while_no_user_is_known(self):
        assert prompt(self.NO_USER).startswith("BOOT\n\n---\n\nBODY\n\n---\n\n## Know Your Team")

    def test_not_for_subs(self):
        assert "BOOT" not in prompt(self.NO_USER, role="sub")

    @pytest.mark.parametrize("where", [".halo/USER.md", "global:USER.md"])
    def test_one_user_file_anywhere_ends_it(self, where):
        assert "BOOT" not in prompt({**self.NO_USER, where: "me"})

    def test_a_blank_user_file_does_not(self):
        assert "BOOT" in prompt({**self.NO_USER, ".halo/USER.md": "\n \n"})


class TestInstructions:
    def test_the_workspace_suppresses_the_global_ones(self):
        text = prompt(FULL)
        assert "RULES" in text
        assert "G-RULES" not in text

    def test_the_global_ones_serve_otherwise(self):
        text = prompt(without(".halo/INSTRUCTIONS.md"))
        assert "## User Instructions\n\nG-RULES" in text

    def test_blank_ones_suppress_nothing(self):
        assert "G-RULES" in prompt({**FULL, ".halo/INSTRUCTIONS.md": "\n"})

    def test_directory_rules_follow_outermost_first(self):
        """Levels without a file are skipped, the root's own file is not repeated."""
        text = prompt(FULL, role="sub", directory="pkg/deep/er")
        assert (
            "\n\n---\n\n## User Instructions\n\n### pkg\n\nPKG\n\n### pkg/deep/er\n\nDEEPER\n\n---\n\n"
            in text
        )
        assert text.count("RULES") == 1

    def test_an_ancestors_rules_hold_below(self):
        assert "### pkg\n\nPKG" in prompt(FULL, role="sub", directory="pkg/deep")

    def test_a_directory_without_rules_adds_only_its_line(self):
        files = without("pkg/.halo/INSTRUCTIONS.md")
        text = prompt(files, role="sub", directory="pkg")
        assert text == prompt(files, role="sub")[:-1] + "\nWorking directory: {{working_dir}}\n"

    def test_a_root_agent_in_a_directory_gets_its_rules_too(self):
        """`halo prompt --dir` and `start_session` alike: the rules of the directory it lives in."""
        assert "### pkg\n\nPKG" in prompt(FULL, directory="pkg")

    def test_the_scope_target_is_the_bare_chain(self):
        assert prompt(FULL, ScopeTarget("pkg/deep/er")) == "### pkg\n\nPKG\n\n### pkg/deep/er\n\nDEEPER\n"

    def test_a_directory_without_rules_has_no_scope_target(self):
        with pytest.raises(UnknownNameError, match=r"no \.halo/INSTRUCTIONS\.md on the way"):
            prompt(FULL, ScopeTarget("docs"))


def test_without_an_index_there_is_no_section_and_no_nudge():
    assert "Project Knowledge" not in prompt(without(".halo/INDEX.md"))


def test_index_files_below_the_root_are_not_loaded():
    text = prompt({**FULL, "pkg/.halo/INDEX.md": "PKG-INDEX"}, role="sub", directory="pkg")
    assert "PKG-INDEX" not in text


def test_a_global_index_is_not_loaded():
    assert "Knowledge" not in prompt({**without(".halo/INDEX.md"), "global:INDEX.md": "G-INDEX"})


class TestPromptScopes:
    def test_files_are_joined_in_the_order_of_their_names(self):
        """Bytes decide: upper case before lower case."""
        files = {**FULL, ".halo/prompts/all/B.md": "B", ".halo/prompts/all/a.md": "a"}
        assert "B\n\na\n\nALL\n\n## Your Skills" in prompt(files)

    def test_only_markdown_and_only_this_level(self):
        files = {**FULL, ".halo/prompts/all/x.txt": "TXT", ".halo/prompts/all/sub/y.md": "SUB"}
        assert prompt(files) == prompt(FULL)

    def test_a_workspace_folder_replaces_the_global_one_whole(self):
        files = {**FULL, "global:prompts/all/tools.md": "G-ALL", "global:prompts/all/more.md": "G-MORE"}
        assert prompt(files) == prompt(FULL)

    def test_an_empty_workspace_folder_stays_empty(self):
        """A folder without one Markdown file is a decision, not a gap to be filled."""
        files = {
            **without(".halo/prompts/all/tools.md"),
            ".halo/prompts/all/.gitkeep": "",
            "global:prompts/all/tools.md": "G-ALL",
            "builtin:prompts/all/tools.md": "B-ALL",
        }
        assert "ALL" not in prompt(files)

    def test_global_before_builtin(self):
        files = {**without(".halo/prompts/all/tools.md"), "builtin:prompts/all/tools.md": "B-ALL"}
        assert "B-ALL" in prompt(files)
        assert "G-ALL" in prompt({**files, "global:prompts/all/x.md": "G-ALL"})
        assert "B-ALL" not in prompt({**files, "global:prompts/all/x.md": "G-ALL"})

    def test_scopes_are_replaced_one_by_one(self):
        files = {**without(".halo/prompts/root/lead.md"), "global:prompts/root/x.md": "G-ROOT"}
        assert "G-ROOT\n\nALL\n\n" in prompt(files)

    def test_a_folder_that_is_nowhere_is_a_remark(self):
        found = compiled(without(".halo/prompts/all/tools.md")).manifest.diagnostics
        assert [(d.code, d.severity) for d in found] == [("prompts-missing", "warning")]

    def test_placeholders_are_resolved_in_agent_files_only(self):
        text = prompt(
            {**FULL, ".halo/prompts/all/tools.md": "as {{agent_name}}", ".halo/INDEX.md": "{{now}}"}
        )
        assert "as {{agent_name}}" in text
        assert "{{now}}" in text


ON_PLATFORMS = {
    **FULL,
    ".halo/prompts/all/SHELL.md": "POSIX",
    ".halo/prompts/all/SHELL.windows.md": "WIN",
    ".halo/prompts/all/Only.windows.md": "ONLY",
}


class TestPlatforms:
    def test_posix_ignores_windows_files(self):
        text = prompt(ON_PLATFORMS)
        assert "POSIX" in text
        assert not re.search("WIN|ONLY", text)

    def test_windows_replaces_the_file_of_the_same_stem(self):
        text = prompt(ON_PLATFORMS, platform="windows")
        assert "ONLY\n\nWIN\n\nALL" in text
        assert "POSIX" not in text

    def test_the_host_does_not_decide(self, monkeypatch):
        """The platform belongs to the target; a Windows machine builds the same posix prompt."""
        expected = prompt(ON_PLATFORMS)
        monkeypatch.setattr("sys.platform", "win32")
        assert prompt(ON_PLATFORMS) == expected


class TestRoster:
    def team(self, role="root", *, team=("c", "a", "b"), **files):
        members = {
            ".halo/agents/a/agent.yaml": agent(name="Ada", description="leads", team=list(team)),
            ".halo/agents/a/AGENT.md": "BODY",
            ".halo/agents/b/agent.yaml": agent(name="Bob", description="codes", priority=5),
            ".halo/agents/c/agent.yaml": agent(description="tests"),
            ".halo/agents/d/agent.yaml": agent(internal=True),
        }
        return prompt({**members, **files}, role=role)

    def entries(self, *arguments, **options):
        return re.findall(r"(?m)^- `(\w+)` — (.*)$", self.team(*arguments, **options))

    def test_self_first_then_by_priority_then_by_id(self):
        assert [name for name, _ in self.entries()] == ["a", "b", "c"]
        equal = {".halo/agents/b/agent.yaml": agent()}
        assert [name for name, _ in self.entries(team=("c", "b"), **equal)] == ["b", "c"]

    def test_self_is_marked(self):
        assert self.entries()[0][1].startswith("Ada (you): ")
        assert self.entries("sub")[0][1] == "Ada (you)"

    def test_self_only_when_it_is_listed(self):
        assert [name for name, _ in self.entries(team=("b",))] == ["b"]

    def test_an_entry_is_id_name_and_description(self):
        """Without a name the id stands in; without a description there is no colon either."""
        assert self.entries()[1:] == [("b", "Bob: codes"), ("c", "c: tests")]
        assert self.entries(team=("b",), **{".halo/agents/b/agent.yaml": agent()}) == [("b", "b")]

    def test_an_entry_is_one_line(self):
        folded = agent(name="Bo\nb", description="one\n\ntwo  three")
        assert self.entries(team=("b",), **{".halo/agents/b/agent.yaml": folded}) == [
            ("b", "Bo b: one two three")
        ]

    def test_internal_members_are_left_out(self):
        assert [name for name, _ in self.entries(team=("d", "b"))] == ["b"]
        assert "Team" not in self.team(team=("d",))

    def test_no_team_no_roster_and_no_session_tools(self):
        text = self.team(team=())
        assert "Team" not in text
        assert "start_session" not in text

    def test_a_root_is_told_to_delegate_and_a_sub_to_finish(self):
        assert headings(self.team())[0] == "## Know Your Team Before You Act"
        assert "Delegate by default" in self.team()
        assert headings(self.team("sub"))[0] == "## Your Team"
        assert "Delegate by default" not in self.team("sub")

    def test_an_unknown_member_is_an_error_at_its_line(self):
        with pytest.raises(LayerError, match="unknown agent 'bb'") as caught:
            self.team(
                **{".halo/agents/a/agent.yaml": "model: {provider: openai, id: m}\nteam:\n  - b\n  - bb\n"}
            )
        assert (caught.value.file, caught.value.line) == ("workspace:.halo/agents/a/agent.yaml", 4)
        assert caught.value.hint == "did you mean 'b'?"

    def test_a_member_that_is_broken_is_an_error_in_its_own_file(self):
        with pytest.raises(LayerError) as caught:
            self.team(**{".halo/agents/b/agent.yaml": "model: {provider: openai, id: m}\nnmae: x\n"})
        assert (caught.value.file, caught.value.line) == ("workspace:.halo/agents/b/agent.yaml", 2)

    def test_a_missing_agent_file_keeps_the_roster(self):
        """The reference lost it together with AGENT.md."""
        files = without(".halo/agents/a/AGENT.md")
        for role in ("root", "sub"):
            assert "- `b` — Bob: codes" in prompt(files, role=role)


SOLO = {".halo/agents/a/agent.yaml": agent(name="Ada", system_prompt="  I am SYS.\n")}


class TestWithoutAgentFile:
    def test_system_prompt_stands_in(self):
        assert prompt(SOLO) == f"I am SYS.\n\n{ALONE}The project workspace is at: {{{{workspace_root}}}}\n"

    def test_it_stands_in_beside_other_sections_too(self):
        text = prompt({**SOLO, ".halo/INSTRUCTIONS.md": "RULES"})
        assert text.startswith("I am SYS.\n\n---\n\n## User Instructions\n\nRULES\n\n")

    def test_agent_file_wins(self):
        assert "SYS" not in prompt({**SOLO, ".halo/agents/a/AGENT.md": "BODY"})

    def test_without_both_one_line_says_who_it_is(self):
        text = prompt({".halo/agents/a/agent.yaml": agent(name="Ada")})
        assert text.startswith("You are Ada, an agent of this workspace.\n\n")

    def test_first_run_guidance_does_not_say_who_it_is(self):
        """Bootstrap comes on top of the line that says who the agent is."""
        text = prompt(
            {".halo/agents/a/agent.yaml": agent(name="Ada"), ".halo/prompts/bootstrap/b.md": "BOOT"}
        )
        assert text.startswith("BOOT\n\n---\n\nYou are Ada, an agent of this workspace.\n\n")


class TestOverride:
    """Agents and skills: the first of workspace, global and builtin that has the folder serves it entirely."""

    def test_a_workspace_agent_replaces_the_global_one_whole(self):
        files = {
            ".halo/agents/a/agent.yaml": agent(name="Mine"),
            "global:agents/a/agent.yaml": agent(name="Theirs", tools=["grep"]),
            "global:agents/a/AGENT.md": "THEIRS",
        }
        assert prompt(files).startswith("You are Mine, ")
        assert "THEIRS" not in prompt(files)

    def test_a_folder_without_agent_yaml_is_not_filled_up(self):
        files = {".halo/agents/a/AGENT.md": "x", "global:agents/a/agent.yaml": agent()}
        with pytest.raises(LayerError, match=r"has no agent\.yaml") as caught:
            prompt(files)
        assert caught.value.file == "workspace:.halo/agents/a/agent.yaml"

    def test_global_before_builtin(self):
        files = {
            "global:agents/a/agent.yaml": agent(name="G"),
            "builtin:agents/a/agent.yaml": agent(name="B"),
        }
        assert "You are G," in prompt(files)
        del files["global:agents/a/agent.yaml"]
        assert "You are B," in prompt(files)

    def test_skills_likewise(self):
        files = {
            ".halo/skills/s/SKILL.md": skill("MINE"),
            "global:skills/s/SKILL.md": skill("THEIRS"),
            "global:skills/s/notes.md": "n",
        }
        assert prompt(files, SkillTarget("s")) == "# Skill: s\n\nMINE\n"

    def test_an_unknown_agent_is_answered_with_near_misses(self):
        with pytest.raises(UnknownNameError) as caught:
            prompt(FULL, AgentTarget("bb"))
        assert caught.value.hint == "did you mean 'b'?"
        assert caught.value.exit_code == 2

    @pytest.mark.parametrize("name", ["..", "a/b", "", "a b", "skills"])
    def test_a_name_is_never_a_path(self, name):
        with pytest.raises(UsageError):
            prompt(FULL, AgentTarget(name))


class TestSkillsBlock:
    def block(self, **fields):
        files = {
            ".halo/agents/a/agent.yaml": agent(skills=["s"]),
            ".halo/agents/a/AGENT.md": "BODY",
            ".halo/skills/s/SKILL.md": skill("x", **fields),
        }
        return prompt(files)

    def test_markup_in_names_and_descriptions_is_escaped(self):
        """A description cannot close the block or open another skill."""
        text = self.block(name='S "one" <b>', description="a </description></skill> & <more>")
        assert '    <name>S "one" &lt;b&gt;</name>\n' in text
        assert "<description>a &lt;/description&gt;&lt;/skill&gt; &amp; &lt;more&gt;</description>" in text

    def test_a_description_over_several_lines_becomes_one(self):
        assert "<description>one two three</description>" in self.block(description="one\n  two\n\nthree")

    def test_skills_stand_in_the_order_of_agent_yaml_each_once(self):
        files = {
            ".halo/agents/a/agent.yaml": agent(skills=["t", "s", "t"]),
            ".halo/skills/s/SKILL.md": skill("x"),
            ".halo/skills/t/SKILL.md": skill("x"),
        }
        assert re.findall("<id>(.*)</id>", prompt(files)) == ["t", "s"]

    def test_activate_skill_is_in_the_tool_list(self):
        """The reference left it out and forbade what the skills block asks for."""
        assert (
            "Your available tools: session_status, activate_skill. Only use tools in this list."
            in self.block()
        )

    def test_bodies_are_not_in_the_prompt(self):
        assert "S-BODY" not in prompt(FULL)

    def test_an_unknown_skill_is_an_error_at_its_line(self):
        files = {
            **FULL,
            ".halo/agents/a/agent.yaml": "model: {provider: openai, id: m}\nskills:\n- s\n- ss\n",
        }
        with pytest.raises(LayerError, match="unknown skill 'ss'") as caught:
            prompt(files)
        assert caught.value.line == 4

    def test_the_schema_of_activate_skill_names_the_skills_sorted(self):
        files = {
            ".halo/agents/a/agent.yaml": agent(skills=["t", "s"]),
            ".halo/skills/s/SKILL.md": skill("x"),
            ".halo/skills/t/SKILL.md": skill("x"),
        }
        *_, tool = compiled(files).manifest.tools
        assert tool.parameters["properties"]["skill_id"]["enum"] == ["s", "t"]


class TestSkillBodies:
    def test_title_body_and_where_its_files_are(self):
        files = {
            ".halo/skills/s/SKILL.md": skill("Do it.", name="Sums"),
            ".halo/skills/s/config.yaml": "",
            ".halo/skills/s/scripts/run.py": "",
            ".halo/skills/s/ref/b.md": "",
            ".halo/skills/s/.hidden": "",
        }
        assert prompt(files, SkillTarget("s")) == (
            "# Skill: Sums\n\nDo it.\n\n"
            "Files of this skill, to read when the text above asks for them:\n"
            "- .halo/skills/s/ref/b.md\n- .halo/skills/s/scripts/run.py\n"
        )

    def test_files_outside_the_workspace_have_an_address_of_their_own(self):
        files = {"global:skills/s/SKILL.md": skill("x"), "global:skills/s/run.py": ""}
        assert prompt(files, SkillTarget("s")).endswith("\n- skill:s/run.py\n")

    def test_a_skill_without_a_file_is_an_error(self):
        with pytest.raises(LayerError, match=r"has no SKILL\.md"):
            prompt({".halo/skills/s/run.py": ""}, SkillTarget("s"))


class TestFrontMatter:
    @pytest.mark.parametrize(
        "key",
        [
            ".halo/USER.md",
            ".halo/INSTRUCTIONS.md",
            ".halo/INDEX.md",
            ".halo/prompts/all/tools.md",
            ".halo/prompts/root/lead.md",
            ".halo/agents/a/AGENT.md",
            "pkg/.halo/INSTRUCTIONS.md",
        ],
    )
    @pytest.mark.parametrize("newline", ["\n", "\r\n"])
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    def test_it_never_leaks(self, key, newline, mark):
        """Whatever the editor: the same prompt as without front matter."""
        text = mark + newline.join(["---", "leak: LEAK", "---", "", FULL[key], ""])
        assert prompt({**FULL, key: text}, directory="pkg") == prompt(FULL, directory="pkg")


class TestTools:
    def test_the_list_has_a_fixed_order(self):
        files = body("x") | {".halo/agents/a/agent.yaml": agent(tools=["glob", "draft", "file_read"])}
        assert "Your available tools: file_read, glob, draft, session_status. " in prompt(files)

    def test_every_agent_has_the_status_tool(self):
        """The time and the session's figures, without a clock in the prompt."""
        text = f"BODY\n\n{ALONE}The project workspace is at: {{{{workspace_root}}}}\n"
        assert prompt(body("BODY")) == text
        for target in (
            AgentTarget("a", access="readonly"),
            AgentTarget("a", "sub"),
        ):
            assert [tool.name for tool in compiled(body("BODY"), target).manifest.tools] == ["session_status"]

    @pytest.mark.parametrize("tool", ["file_raed", "start_session", "activate_skill"])
    def test_an_unknown_or_unlistable_tool_is_an_error(self, tool):
        files = {
            ".halo/agents/a/agent.yaml": f"model: {{provider: openai, id: m}}\ntools:\n  - grep\n  - {tool}\n"
        }
        with pytest.raises(LayerError, match=f"unknown tool '{tool}'") as caught:
            prompt(files)
        assert caught.value.line == 4

    @pytest.mark.parametrize(
        ("model", "mode"),
        [
            ({"provider": "local", "id": "m"}, "native"),
            ({"provider": "openai", "id": "m"}, "native"),
            ({"provider": "openai", "id": "m", "tool_mode": "schema"}, "schema"),
            ({"provider": "local", "id": "m", "tool_mode": "schema"}, "schema"),
            ({"provider": "openai", "id": "m", "tool_mode": "native"}, "native"),
        ],
    )
    def test_tool_mode_schema_explains_the_format_of_calls(self, model, mode):
        files = {**FULL, ".halo/agents/a/agent.yaml": agent(model=model, tools=["grep"])}
        found = compiled(files)
        assert found.manifest.runtime.tool_mode == mode
        if mode == "schema":
            assert "Only use tools in this list.\n\n## How to answer\n\n" in found.prompt
            assert re.search(r'\n- grep \{"pattern": string, "path"\?: string, .*\}: Search ', found.prompt)
        else:
            assert "How to answer" not in found.prompt

    def test_a_tool_without_arguments_is_explained_too(self):
        files = body("BODY") | {".halo/agents/a/agent.yaml": agent(model={**MODEL, "tool_mode": "schema"})}
        assert "\n- session_status {}: " in prompt(files)


def test_the_environment_is_the_last_segment_and_ends_the_static_prefix():
    """Every clone, colleague and CI job shares one cached prefix."""
    for role in ("root", "sub"):
        manifest = compiled(FULL, role=role, directory="pkg").manifest
        assert [s.id for s in manifest.segments if s.stability == "volatile"] == ["environment"]
        assert manifest.segments[-1].id == "environment"
        assert manifest.static_prefix.bytes > manifest.segments[-1].start


def test_the_order_of_segments():
    assert [
        s.id for s in compiled(without(".halo/USER.md", "global:USER.md"), directory="pkg").manifest.segments
    ] == [
        "prompts/bootstrap/BOOT.md",
        "agent",
        "team",
        "instructions",
        "directory",
        "index",
        "prompts/root/lead.md",
        "prompts/all/tools.md",
        "skills",
        "tools",
        "environment",
    ]


class TestModes:
    def test_minimal_leaves_profile_and_skills_out(self):
        text = prompt(FULL, mode="minimal")
        assert not re.search("User Profile|Skills|activate_skill", text)
        assert "BODY" in text

    def test_none_is_one_line(self):
        assert prompt(FULL, mode="none") == "You are Ada, an agent of this workspace.\n"


@pytest.mark.parametrize("text", ["Body.", "---\nname: S\n---\nBody."])
def test_a_skill_without_a_description_is_told(text):
    """The model sees the description alone until it asks for more."""
    found = compiled({".halo/skills/s/SKILL.md": text}, SkillTarget("s")).manifest.diagnostics
    assert [d.code for d in found] == ["skill-without-description"]
