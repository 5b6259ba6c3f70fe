"""Settings, what a workspace asks of this machine, and finding the workspace."""

import os

import pytest
from making import agent, skill, tree

from halo.errors import LayerError, NoWorkspaceError, StartError, UsageError
from halo.tools.guards import why_not_written
from halo.tools.masks import masked
from halo.workspace.agents import read_agent
from halo.workspace.demands import Demands, read_demands
from halo.workspace.locate import find_workspace, halo_home
from halo.workspace.places import find_places
from halo.workspace.settings.files import (
    GLOBAL_SETTINGS,
    WORKSPACE_SETTINGS,
    expand,
    find_setting,
    lookup,
    read_settings,
)
from halo.workspace.settings.params import read_params
from halo.workspace.skills.reading import list_resources, read_skill
from halo.workspace.tool_demands import OWN_AGENTS
from halo.workspace.trust import Grants, read_grants
from halo.workspace.trust_file import read_trust, render_trust, trust_file


def settings(text, path=".halo/settings.yaml"):
    return tree({path: text})


class TestSettings:
    def test_the_workspace_wins_value_by_value(self):
        source = tree(
            {
                ".halo/settings.yaml": "a:\n  params:\n    k: ws\n    n: null\n",
                "secrets:settings.yaml": "a: {params: {k: machine, l: machine, n: machine}}",
            }
        )
        found = find_setting(source, "a.params.k")
        assert (found.text, found.source, found.line) == ("ws", WORKSPACE_SETTINGS, 3)
        assert find_setting(source, "a.params.l").source == GLOBAL_SETTINGS
        assert find_setting(source, "a.params.n").text == "machine"
        assert find_setting(source, "a.params.nowhere") is None

    @pytest.mark.parametrize(
        ("text", "line", "message"),
        [
            ("a: {params: {k: v}}\nb: words\n", 2, "b: a map was expected"),
            ("a:\n  parms: {k: v}\n", 2, "a.parms: unknown"),
            ("a:\n  secrets: [k]\n", 2, "a.secrets: a map was expected"),
            ("- a\n", 1, "settings are a map of ids"),
        ],
    )
    def test_a_wrong_shape_is_an_error_at_its_line(self, text, line, message):
        with pytest.raises(LayerError) as caught:
            read_settings(settings(text), WORKSPACE_SETTINGS)
        assert (caught.value.file, caught.value.line, caught.value.message) == (
            WORKSPACE_SETTINGS,
            line,
            message,
        )

    @pytest.mark.parametrize(
        "text", ["", "# nothing\n", "a:\n", "a: {params: , secrets: }\n", "general: {x: {y: [1]}}\n"]
    )
    def test_empty_parts_are_fine(self, text):
        assert lookup(read_settings(settings(text), WORKSPACE_SETTINGS), "a.params.k") is None

    def test_only_capital_names_are_variables(self):
        found = find_setting(settings("a: {params: {k: '<<A_1>> <<b>> <<1A>> <<_X>><<Ä>>'}}"), "a.params.k")
        assert found.names == ("A_1", "_X")

    def test_expansion_leaves_what_is_unset(self):
        assert expand("<<A>>-<<B>>", {"A": "<<B>>"}) == ("<<B>>-<<B>>", ("B",))


ENDPOINT = {"provider": "openai", "id": "m", "endpoint": "http://elsewhere/v1"}
FILES = {
    ".halo/agents/a/agent.yaml": agent(model=ENDPOINT),
    ".halo/agents/b/agent.yaml": agent(),
    ".halo/agents/broken/agent.yaml": "x: [",
    "global:agents/g/agent.yaml": agent(model=ENDPOINT),
    ".halo/agents/a/config.yaml": "params: [{key: k, secret: false}, {key: s, secret: true}]",
    ".halo/settings.yaml": "a: {params: {k: '<<B>> <<A>>', s: <<C>>, u: <<D>>}, secrets: {x: <<E>>}}",
    "secrets:settings.yaml": "a: {params: {k: <<MACHINE>>}}",
}


class TestTrust:
    def test_demands_are_endpoints_and_variables_of_the_workspace_alone(self):
        """What the user put on the machine asks nothing of the user."""
        found = read_demands(tree(FILES))
        assert found.endpoints == (("a", "openai", "http://elsewhere/v1"),)
        assert found.environment == (("a.params.k", "A"), ("a.params.k", "B"))

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            (".halo/settings.yaml", "a: {params: {k: '<<B>> <<A>> <<X>>'}}"),
            (".halo/agents/a/config.yaml", "params: [{key: k, secret: false}, {key: u, secret: false}]"),
            (".halo/agents/a/agent.yaml", agent(model=ENDPOINT | {"endpoint": "http://other/v1"})),
            (".halo/agents/a/agent.yaml", agent(model=ENDPOINT | {"provider": "anthropic"})),
            (".halo/agents/c/agent.yaml", agent(model=ENDPOINT)),
        ],
    )
    def test_any_new_demand_asks_again(self, path, text):
        assert read_demands(tree({**FILES, path: text})).digests != read_demands(tree(FILES)).digests

    def test_nothing_else_does(self):
        files = {**FILES, ".halo/agents/b/agent.yaml": agent(name="x"), ".halo/USER.md": "x"}
        assert read_demands(tree(files)).digests == read_demands(tree(FILES)).digests

    def test_grants_are_for_a_place_and_for_exactly_what_was_seen(self, make_workspace):
        files = {
            ".halo/agents/a/agent.yaml": agent(model=ENDPOINT),
            ".halo/agents/a/config.yaml": "params: [{key: k, secret: false}]",
            ".halo/settings.yaml": "a: {params: {k: <<A>>}}",
        }
        ws = make_workspace(files)
        places = ws.places
        assert read_grants(places.tree(), places.workspace, places.home) == Grants()
        ws.home.mkdir(parents=True)
        granted = {os.path.realpath(places.workspace): read_demands(places.tree()).digests}
        with open(trust_file(places.home), "wb") as file:
            file.write(render_trust(granted))
        assert read_trust(places.home) == granted
        grants = read_grants(places.tree(), places.workspace, places.home)
        assert grants.demands == read_demands(places.tree())
        assert read_grants(places.tree(), places.home, places.home) == Grants()
        ws.write({".halo/agents/b/agent.yaml": agent(model=ENDPOINT)})
        left = read_grants(places.tree(), places.workspace, places.home)
        assert left == Grants(Demands(environment=(("a.params.k", "A"),), access=(OWN_AGENTS,)))

    @pytest.mark.parametrize("names", [("A",), ("B", "A"), ()])
    def test_granted_variables_may_be_read(self, names):
        assert Grants(read_demands(tree(FILES))).environment("a.params.k", names)

    @pytest.mark.parametrize("names", [("D",), ("A", "D"), ("MACHINE",)])
    def test_others_may_not(self, names):
        """Not even together with one that may: a build folder may come from a stranger too."""
        assert not Grants(read_demands(tree(FILES))).environment("a.params.k", names)
        assert not Grants(read_demands(tree(FILES))).environment("a.params.s", ("A",))
        assert not Grants().environment("a.params.k", names)

    def test_an_endpoint_is_granted_to_an_agent_as_a_provider(self):
        source, there = tree(FILES), ENDPOINT["endpoint"]
        grants = Grants(read_demands(source))
        assert grants.endpoint(source, "a", "openai", there)
        assert not grants.endpoint(source, "a", "openai", "http://other/v1")
        assert not grants.endpoint(source, "a", "anthropic", there)
        assert not grants.endpoint(source, "b", "openai", there)
        assert not Grants().endpoint(source, "a", "openai", there)

    def test_agents_of_the_user_may_talk_where_they_say_and_nowhere_else(self):
        source, there = tree(FILES), ENDPOINT["endpoint"]
        assert Grants().endpoint(source, "g", "openai", there)
        assert not Grants().endpoint(source, "g", "openai", "http://other/v1")
        assert not Grants().endpoint(source, "g", "anthropic", there)

    @pytest.mark.parametrize(
        "text", ["x: [", "format: 2\nworkspaces: {}\n", "- x", "format: 1\nworkspaces: [x]\n"]
    )
    def test_a_damaged_trust_file_is_an_error(self, tmp_path, text):
        """Trust is never guessed."""
        (tmp_path / "trust.yaml").write_text(text)
        with pytest.raises(LayerError):
            read_trust(str(tmp_path))


class TestPlaces:
    def test_the_nearest_workspace_from_here_up(self, make_workspace):
        ws = make_workspace({"sub/.halo/settings.yaml": "", "sub/deep/f": "", "other/f": ""})
        home = str(ws.home)
        assert find_workspace(str(ws.path("sub/deep")), home) == str(ws.path("sub"))
        assert find_workspace(str(ws.path("other")), home) == str(ws.root)

    def test_halos_own_home_is_not_a_workspace(self, tmp_path):
        """`~/.halo` would make every folder of the user part of one."""
        (tmp_path / ".halo").mkdir()
        (tmp_path / "project").mkdir()
        with pytest.raises(NoWorkspaceError, match=r"no \.halo/ folder"):
            find_workspace(str(tmp_path / "project"), str(tmp_path / ".halo"))

    def test_a_folder_that_does_not_exist(self, tmp_path):
        with pytest.raises(NoWorkspaceError, match="no such folder"):
            find_workspace(str(tmp_path / "nowhere"), str(tmp_path))

    def test_halo_home_overrides(self):
        assert halo_home({"HALO_HOME": "/x", "HOME": "/h"}) == "/x"
        assert halo_home({"HOME": "/h"}) == "/h/.halo"

    def test_secrets_are_a_root_of_their_own(self, make_workspace):
        """What shows the global folder does not show the global settings."""
        ws = make_workspace({"secrets:settings.yaml": "a: {}", "global:USER.md": "x"})
        places = find_places(str(ws.root), ws.environ())
        assert [entry.name for entry in places.tree().list("global:")] == ["USER.md"]
        assert places.tree().read("secrets:settings.yaml") == b"a: {}"

    @pytest.mark.parametrize("name", [".home", "a/b", "link"])
    def test_halos_home_must_not_lie_in_the_workspace(self, make_workspace, name):
        """Tools read and write what lies there: keys, and what the user allowed."""
        ws = make_workspace({"keep/f": "", ".halo/USER.md": ""})
        (ws.root / "link").symlink_to("keep/home")
        with pytest.raises(StartError, match="lies in the workspace"):
            find_places(str(ws.root), ws.environ(HALO_HOME=str(ws.root / name)))
        said = ws.cli("doctor", HALO_HOME=str(ws.root / name)).stdout
        assert "set HALO_HOME to a folder elsewhere" in said

    def test_a_home_below_the_workspace_is_one_that_tools_keep_away_from(self, make_workspace):
        ws = make_workspace({"user/.halo/trust.yaml": "", ".halo/USER.md": ""})
        assert find_places(str(ws.root), ws.environ(HALO_HOME=str(ws.root / "user/.halo"))).workspace
        assert masked("user/.halo/secrets/settings.yaml")
        assert why_not_written("user/.halo/trust.yaml", "full")


class TestSkills:
    def test_quoted_and_folded_front_matter_is_yaml(self):
        """The reference kept the quotes and the `>`."""
        text = '---\nname: "S one"\ndescription: >\n  folded\n  text\nallowed-tools: [x]\n---\nBODY'
        found = read_skill(tree({".halo/skills/s/SKILL.md": text}), "s")
        assert (found.name, found.description) == ("S one", "folded text")
        assert (found.name_line, found.description_line) == (2, 3)

    @pytest.mark.parametrize("text", ["BODY", "---\nname:\n---\nBODY", "---\ndescription:\n---\nBODY"])
    def test_the_id_stands_in_for_a_name(self, text):
        found = read_skill(tree({".halo/skills/s/SKILL.md": text}), "s")
        assert (found.name, found.description) == ("s", "")

    def test_declarations_know_their_key(self):
        source = tree(
            {
                ".halo/skills/s/config.yaml": "params: [{key: a.b, secret: true}, {key: c}]",
                ".halo/skills/s/SKILL.md": skill("x"),
            }
        )
        params = read_params(source, "s")
        assert set(params.declared) == {"a.b", "c"}
        assert [params.is_secret(k) for k in ("a.b", "a.b.c", "a", "a.bc", "c", "d")] == [
            True,
            True,
            False,
            False,
            False,
            False,
        ]

    def test_a_runaway_folder_is_cut_and_said_so(self):
        files = {f".halo/skills/s/f{i:04}": "" for i in range(300)} | {".halo/skills/s/SKILL.md": skill("x")}
        names, more = list_resources(tree(files), "workspace:.halo/skills/s")
        assert (len(names), more, list(names)) == (200, True, sorted(names))


class TestAgents:
    def test_an_unknown_provider_is_an_error_at_its_line(self):
        text = "name: x\nmodel:\n  id: m\n  provider: opnai\n"
        with pytest.raises(LayerError, match="unknown provider 'opnai'") as caught:
            read_agent(tree({".halo/agents/a/agent.yaml": text}), "a")
        assert (caught.value.line, caught.value.hint) == (4, "did you mean 'openai'?")

    @pytest.mark.parametrize("name", ["skills", "scopes"])
    def test_two_names_are_taken_by_the_build_folder(self, name):
        with pytest.raises(UsageError):
            read_agent(tree({f".halo/agents/{name}/agent.yaml": agent()}), name)


class TestRulesOfADirectory:
    def test_a_directory_with_rules_is_not_a_workspace_of_its_own(self, make_workspace):
        """`cd` into it must not lose the agents and the project's rules, nor make sessions there."""
        ws = make_workspace({".halo/USER.md": "x", "docs/.halo/INSTRUCTIONS.md": "x", "docs/api/x": ""})
        for start in ("", "docs", "docs/api", "docs/.halo"):
            assert find_workspace(str(ws.root / start), str(ws.home)) == str(ws.root)

    def test_unless_nothing_lies_above_it(self, tmp_path):
        (tmp_path / "a" / ".halo").mkdir(parents=True)
        (tmp_path / "a" / ".halo" / "INSTRUCTIONS.md").write_text("x")
        assert find_workspace(str(tmp_path / "a"), str(tmp_path / "home")) == str(tmp_path / "a")

    def test_a_nested_workspace_is_one(self, make_workspace):
        ws = make_workspace({".halo/USER.md": "x", "lab/.halo/agents/a/agent.yaml": agent()})
        assert find_workspace(str(ws.root / "lab"), str(ws.home)) == str(ws.root / "lab")
