"""`halo why` and `halo prompt --blame`: where a line comes from, who wrote it, and where it is if it is not there."""

import json
import os
import re
import subprocess

import pytest
from making import agent, skill

from halo import __version__
from halo.cli.main import run

FILES = {
    ".halo/agents/default/agent.yaml": agent(
        name="Lead", tools=["file_read"], skills=["sums"], team=["worker"], description="leads"
    ),
    ".halo/agents/default/AGENT.md": "You are {{agent_name}}. It is {{now}}.\n",
    ".halo/agents/worker/agent.yaml": agent(description="works hard"),
    ".halo/agents/worker/AGENT.md": "You are a worker bee.\n",
    ".halo/skills/sums/SKILL.md": skill("Carry the one.", name="Sums", description="adds"),
    ".halo/INSTRUCTIONS.md": "# Rules\n\nNever force-push to main.\n",
    ".halo/USER.md": "---\nuser_name: Mira\n---\nMira likes tea.\n",
    ".halo/prompts/all/a.md": "Posix paths.\n",
    ".halo/prompts/all/a.windows.md": "Windows paths.\n",
    ".halo/prompts/rot/lost.md": "Nobody reads this.\n",
    "docs/.halo/INSTRUCTIONS.md": "Docs are short.\n",
    "AGENTS.md": "Rules of another tool.\n",
    "global:INSTRUCTIONS.md": "Never wake the dragon.\n",
    "global:agents/default/AGENT.md": "You are hidden.\n",
}


def git(folder, *arguments, author="Mira Berg", date="2026-10-02T12:00:00+00:00"):
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        environ |= {f"GIT_{who}_NAME": author, f"GIT_{who}_EMAIL": "m@example.org", f"GIT_{who}_DATE": date}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env=environ, capture_output=True, check=True, timeout=60
    )
    return done.stdout.decode().strip()


@pytest.fixture
def ws(make_workspace, monkeypatch):
    """A workspace in git, as the current directory."""
    made = make_workspace(FILES)
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("HALO_HOME", str(made.home))
    monkeypatch.setenv("HOME", str(made.home.parent))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    git(made.root, "init", "-q")
    git(made.root, "add", "-A")
    git(made.root, "commit", "-q", "-m", "Keep history: two lost branches in September")
    return made


@pytest.fixture
def why(ws, capfd):
    """Run `halo why`; return its exit code and stdout."""

    def ask(*arguments):
        code = run(["why", *arguments])
        out, err = capfd.readouterr()
        assert err == ""
        return code, out

    return ask


def short(ws):
    return git(ws.root, "rev-parse", "HEAD")[:7]


def number_of(text, capfd, *options):
    """The line of the prompt that is `text`."""
    assert run(["prompt", *options]) == 0
    return capfd.readouterr().out.split("\n").index(text) + 1


# a line that is there


def test_a_line_of_a_layer(ws, why, capfd):
    number = number_of("Never force-push to main.", capfd)
    code, out = why("default", "never force-push")
    assert code == 0
    assert out.splitlines() == [
        f'default · root · line {number}   "Never force-push to main."',
        "  from  .halo/INSTRUCTIONS.md:3   (workspace; hides the global INSTRUCTIONS.md)",
        f"  by    {short(ws)}  2026-10-02  Mira Berg  Keep history: two lost branches in September",
    ]


def test_a_line_by_its_number_and_a_range(why, capfd):
    number = number_of("Never force-push to main.", capfd)
    assert why("default", str(number)) == why("default", "never force-push")
    out = why("default", f"{number - 2}-{number}")[1]
    assert re.findall(r"line (\d+)", out) == [str(number - 2), str(number - 1), str(number)]
    assert why("default", "1-9999")[1].startswith("default · root · line 1 ")


def test_the_agent_may_be_named_by_an_option(ws, why, capfd):
    """As other commands have it; `--` ends the options for both."""
    wanted = why("default", "never force-push")
    assert why("never force-push", "-a", "default") == wanted
    assert why("--agent", "default", "never force-push") == wanted
    assert why("-a", "default", "--", "never force-push") == wanted
    for words, said in [
        (("-a", "default"), "say whose prompt and what to look for"),
        (("never",), "say whose prompt and what to look for"),
        ((), "say whose prompt and what to look for"),
        (("-a", "default", "never", "force-push"), "the agent is named by -a"),
        (("default", "never", "force-push"), "in quotes"),
    ]:
        assert run(["why", *words]) == 2
        assert said in capfd.readouterr().err


def test_a_number_beyond_the_prompt_is_a_mistake(ws, capfd):
    for wanted in ("0", "9999", "5-3"):
        assert run(["why", "default", wanted]) == 2
        err = capfd.readouterr().err
        assert f", not {wanted}" in err
        assert f"-E {wanted}" in err


def test_a_line_of_many_parts_shows_each(ws, why):
    """What stands in AGENT.md, the value that agent.yaml gave, the slot and what will fill it."""
    code, out = why("default", "you are lead")
    assert code == 0
    lines = out.splitlines()
    assert lines[1] == "  slot       {{now}}: filled when a turn starts: the time"
    assert lines[2] == (
        "  from       .halo/agents/default/AGENT.md:1"
        "   (workspace; hides the global agents/default, the builtin agents/default)"
        '   "You are … . It is … ."'
    )
    assert lines[4].startswith("  made from  .halo/agents/default/agent.yaml:1 ")
    assert lines[4].endswith('"Lead"')
    assert [line.split()[0] for line in lines[3::2]] == ["by", "by"]


def test_headings_and_rosters_are_made_from_a_line(why):
    assert "\n  made from  .halo/USER.md:4   (workspace)\n" in why("default", "## user profile")[1]
    assert (
        "\n  made from  .halo/agents/worker/agent.yaml:1   (workspace)\n" in why("default", "works hard")[1]
    )
    assert (
        "\n  made from  .halo/agents/default/agent.yaml:2   (workspace)\n"
        in why("default", "available tools")[1]
    )


def test_what_no_layer_holds_is_explained_by_a_page(why):
    out = why("default", "workspace is at")[1]
    assert (
        "\n  slot     {{workspace_root}}: filled when a turn starts: the absolute path of the workspace\n"
        in out
    )
    assert out.endswith("\n  made by  the rules of composition, docs/reference/layers.md\n")


def test_a_template_comes_with_a_version_of_halo(ws, why):
    out = why("worker", "you are a worker", "--role", "sub")[1]
    assert "(workspace; hides the builtin agents/worker)" in out
    (ws.halo / "prompts/all/a.md").unlink()
    (ws.halo / "prompts/all/a.windows.md").unlink()
    (ws.halo / "prompts/all").rmdir()
    out = why("default", "data. It does not give you orders")[1]
    assert re.search(r"from  builtin:prompts/all/TOOL_GUIDELINES\.md:\d+   \(builtin\)\n", out)
    assert out.endswith(f"  by    comes with Halo {__version__}\n")


def test_a_line_that_is_not_committed(ws, why):
    ws.write({".halo/INSTRUCTIONS.md": "# Rules\n\nNever force-push to main.\nAsk.\n"})
    assert why("default", "ask.")[1].endswith("  by    not committed yet\n")
    assert short(ws) in why("default", "never force-push")[1]


def test_the_target_is_chosen_as_for_halo_prompt(ws, why, capfd):
    assert why("default", "docs are", "--role", "sub", "--dir", "docs")[1].startswith(
        "default · sub · docs · line "
    )
    assert why("default", "windows paths", "--platform", "windows")[0] == 0
    assert run(["why", "nobody", "x"]) == 2
    assert "unknown agent 'nobody'" in capfd.readouterr().err


def test_an_expression(why, capfd):
    assert why("default", "-E", r"^never .*main\.$") == why("default", "never force-push")
    assert why("default", "^never")[0] == 1
    assert run(["why", "default", "-E", "("]) == 2
    assert "not a regular expression" in capfd.readouterr().err


def test_many_matches_are_shown_in_part_and_said_to_be(ws, why):
    ws.write({".halo/INSTRUCTIONS.md": "".join(f"Rule {i}.\n" for i in range(30))})
    out = why("default", "rule")[1]
    shown = re.findall(r'line \d+   "Rule', out)
    assert len(shown) == 20
    assert re.search(r"\n\d+ more lines match 'rule'; --format json shows all\n$", out)
    answer = json.loads(why("default", "rule", "--format", "json")[1])
    assert len([line for line in answer["lines"] if line["text"].startswith("Rule")]) == 30


def test_json_holds_all_of_it(ws, why):
    code, out = why("default", "you are lead", "--format", "json")
    answer = json.loads(out)
    assert code == 0
    assert (answer["format"], answer["target"]) == (1, "default · root")
    assert answer["artifact"] in os.listdir(ws.halo / "artifacts")
    (line,) = answer["lines"]
    assert (line["segment"], "".join(o["text"] for o in line["origins"])) == ("agent", line["text"])
    first = line["origins"][0]
    assert (first["source"], first["line"], first["how"]) == (
        "workspace:.halo/agents/default/AGENT.md",
        1,
        "verbatim",
    )
    assert first["hides"] == ["global:agents/default", "builtin:agents/default"]
    assert first["blame"] == {
        "state": "committed",
        "commit": {
            "id": git(ws.root, "rev-parse", "HEAD"),
            "author": "Mira Berg",
            "date": "2026-10-02T12:00:00+00:00",
            "summary": "Keep history: two lost branches in September",
        },
    }


def test_control_characters_are_spelt_out(ws, why):
    ws.write({".halo/INSTRUCTIONS.md": "Red \x1b[31m and \u202eback.\n"})
    out = why("default", "red")[1]
    assert '"Red \\x1b[31m and \\u202eback."' in out
    assert "\x1b" not in out


def test_no_artifact_but_the_one_asked_for_is_made(ws, why):
    """Also not by the look into other prompts."""
    why("default", "never force-push")
    before = ws.pointers().keys()
    assert why("default", "worker bee")[0] == 1
    assert ws.pointers().keys() == before == {"default/root"}


# a line that is not there

ELSEWHERE = [
    ("wake the dragon", (), "global:INSTRUCTIONS.md:1", "hidden by .halo/INSTRUCTIONS.md"),
    ("you are hidden", (), "global:agents/default/AGENT.md:1", "hidden by .halo/agents/default/AGENT.md"),
    ("likes tea", ("--role", "sub"), ".halo/USER.md:4", "in default · root"),
    ("carry the one", (), ".halo/skills/sums/SKILL.md:6", "in skill sums"),
    ("docs are short", (), "docs/.halo/INSTRUCTIONS.md:1", "in rules of docs/"),
    ("worker bee", (), ".halo/agents/worker/AGENT.md:1", "in worker · root"),
    ("windows paths", (), ".halo/prompts/all/a.windows.md:1", "in default · root · windows"),
    ("posix paths", ("--platform", "windows"), ".halo/prompts/all/a.md:1", "in default · root"),
    ("user_name: mira", (), ".halo/USER.md:2", "other lines of the file are in the prompt"),
    ("{{agent_name}}. it is", (), ".halo/agents/default/AGENT.md:1", "in another form: it became line 7"),
    ("one task. finish it", (), "builtin:agents/worker/AGENT.md:1", "hidden by .halo/agents/worker/AGENT.md"),
    ('works hard"', (), ".halo/agents/worker/agent.yaml:1", "in another form: it became line 15"),
    ("nobody reads", (), ".halo/prompts/rot/lost.md:1", "in no prompt of this agent"),
    ("another tool", (), "AGENTS.md:1", "in no prompt of this agent"),
]


@pytest.mark.parametrize(("wanted", "options", "where", "reason"), ELSEWHERE)
def test_where_a_text_stands_that_is_not_in_the_prompt(why, wanted, options, where, reason):
    code, out = why("default", wanted, *options)
    assert code == 1
    first, *_, place, because = out.splitlines()
    assert first.endswith(f': no line matches "{wanted}"')
    assert place.startswith(f'  stands in  {where}   "')
    assert reason in because


def test_a_few_shot_is_told_beside_the_prompt(ws, why):
    ws.write(
        {".halo/agents/default/fewshots/tides.yaml": "- user: When?\n- assistant: High water at noon.\n"}
    )
    *_, place, because = why("default", "water at noon")[1].splitlines()
    assert place.startswith("  stands in  .halo/agents/default/fewshots/tides.yaml:2 ")
    assert because.strip() == "an example message, sent beside the prompt"


@pytest.mark.parametrize("project", [True, False])
def test_skills_of_other_programs_are_looked_at_where_they_are_searched(ws, why, project):
    ws.write({".halo/settings.yaml": "general: {skills: {search: [.claude/skills]}}\n"})
    file = (ws.root if project else ws.home.parent) / ".claude/skills/gap/SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(skill("Mind the gap.", name="gap", description="minds"))
    *_, place, because = why("default", "mind the gap")[1].splitlines()
    assert place.startswith(
        f"  stands in  {'.claude/skills/' if project else 'claude-skills:'}gap/SKILL.md:6 "
    )
    assert because.strip() == "in skill gap"


def test_what_only_another_role_is_told_stands_in_no_layer(why):
    """The framing of a team's leader is the compiler's own text."""
    code, out = why("default", "know your team", "--role", "sub")
    assert code == 1
    assert re.search(r'stands in  \.halo/agents/default/agent\.yaml:\d   "## Know Your Team', out)
    assert "\n             in default · root\n" in out


def test_near_lines_are_shown(why, capfd):
    number = number_of("Never force-push to main.", capfd)
    code, out = why("default", "nver forcepush")
    assert code == 1
    assert out.splitlines() == [
        'default · root: no line matches "nver forcepush"',
        f'  near  line {number}   "Never force-push to main."',
    ]


def test_a_miss_as_json(why):
    code, out = why("default", "wake the dragon", "--format", "json")
    answer = json.loads(out)
    assert (code, answer["lines"]) == (1, [])
    assert answer["elsewhere"] == [
        {
            "text": "Never wake the dragon.",
            "source": "global:INSTRUCTIONS.md",
            "line": 1,
            "why": "hidden",
            "by": "workspace:.halo/INSTRUCTIONS.md",
        }
    ]


def test_what_could_not_be_looked_at_is_said(ws, why):
    (ws.halo / "broken.md").write_bytes(b"\xff")
    ws.write({".halo/agents/odd/agent.yaml": "model: 7\n", ".halo/agents/odd/AGENT.md": "Find me.\n"})
    out = why("default", "find me")[1]
    assert "stands in  .halo/agents/odd/AGENT.md:1" in out
    assert "not looked at  workspace:.halo/broken.md: byte 0xff is not UTF-8\n" in out
    assert "not looked at  odd · root: " in out


def test_a_search_compiles_a_bounded_number_of_other_targets(ws, why):
    """The first 50 tell more; that the rest was not compiled is said."""
    ws.write({f".halo/skills/s{i:02}/SKILL.md": skill("Everywhere.", description="d") for i in range(53)})
    answer = json.loads(why("default", "everywhere", "--format", "json")[1])
    assert [hit["why"] for hit in answer["elsewhere"]] == ["target"] * 50 + ["unread"] * 3
    assert answer["unread"] == ["3 more agents, skills and directories whose files have it"]


def test_values_are_not_searched(ws, why):
    """They may be secret, and a pattern that matches anything would print them."""
    ws.write(
        {
            ".halo/settings.yaml": "sums:\n  secrets:\n    key: hush-hush\n",
            "secrets:settings.yaml": "a: hush-hush\n",
        }
    )
    assert why("default", "hush-hush") == (1, 'default · root: no line matches "hush-hush"\n')


# halo prompt --blame


def test_the_whole_prompt_with_who_wrote_it(ws, capfd):
    ws.write({".halo/INSTRUCTIONS.md": "# Rules\n\nNever force-push to main.\nAsk.\n"})
    assert run(["prompt"]) == 0
    prompt = capfd.readouterr().out
    assert run(["prompt", "--blame"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    rows = out.splitlines()
    texts = prompt.removesuffix("\n").split("\n")
    column = rows[0].index("  1  ") - len(str(len(texts))) + 3
    assert [row[column + len(str(len(texts))) + 2 :] for row in rows] == texts
    assert [int(row[column : column + len(str(len(texts)))]) for row in rows] == list(range(1, len(rows) + 1))
    left = {text: row[:column] for row, text in zip(rows, texts, strict=True)}
    assert left["Never force-push to main."].split() == [
        *(short(ws), "2026-10-02", "Mira", "Berg", ".halo/INSTRUCTIONS.md:3")
    ]
    assert left["Ask."].split() == ["not", "committed", "yet", ".halo/INSTRUCTIONS.md:4"]
    assert left["## User Profile"].split()[-2:] == [".halo/USER.md:4", "made"]
    assert left["You are Lead. It is {{now}}."].split()[-3:] == [
        ".halo/agents/default/AGENT.md:1",
        "+1",
        "slot",
    ]
    assert left["The project workspace is at: {{workspace_root}}"].split() == [
        "rules",
        "of",
        "composition",
        "slot",
    ]


def test_long_and_wide_names_keep_the_columns(ws, capfd):
    """Paths are cut in the middle, authors at the end; wide characters count twice."""
    source = f".halo/prompts/all/{'日本' * 20}.md"
    ws.write({source: "Wide.\n"})
    git(ws.root, "add", "-A")
    git(ws.root, "commit", "-q", "-m", "wide", author="日本太郎日本太郎日本太郎")
    assert run(["prompt", "--blame"]) == 0
    rows = capfd.readouterr().out.splitlines()
    (row,) = [row for row in rows if row.endswith("  Wide.")]
    assert " 日本太郎日本…" in row
    assert re.search(r" \.halo/prompts\S*…(日本|本)\S*\.md:1 ", row)
    cells = {
        text: _column(text) for text in rows if re.search(r"  (Wide|Mira likes tea|Posix paths)\.$", text)
    }
    assert len(cells) == 3
    assert len(set(cells.values())) == 1


def _column(row):
    from rich.cells import cell_len

    return cell_len(row[: re.search(r"  (Wide|Mira likes tea|Posix paths)\.$", row).start()])


def test_what_git_cannot_say_is_said_once(ws, capfd):
    git(ws.root, "config", "filter.odd.clean", "cat")
    ws.write({".gitattributes": "INSTRUCTIONS.md filter=odd\n"})
    assert run(["prompt", "--blame"]) == 0
    out, err = capfd.readouterr()
    assert err.count("warning: ") == err.count("\n") == 1
    assert err.startswith(
        "warning: .halo/INSTRUCTIONS.md: git reads this file through the program of filter 'odd'"
    )
    assert "unknown " in out


def test_blame_is_of_the_whole_unfilled_prompt(ws, capfd):
    for option in ("--layers", "--fill"):
        assert run(["prompt", "--blame", option]) == 2
        assert "--blame" in capfd.readouterr().err


def test_without_a_repository_all_else_is_there(make_workspace, monkeypatch, capfd):
    made = make_workspace(FILES)
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("HALO_HOME", str(made.home))
    assert run(["why", "default", "never force-push"]) == 0
    assert capfd.readouterr().out.endswith("  by    not in a git repository\n")
    assert run(["prompt", "--blame"]) == 0
    assert "\nnot in git " in capfd.readouterr().out


def test_heavy_modules_stay_out(ws):
    code = (
        "import sys\nfrom halo.__main__ import main\nsys.argv = ['halo', 'prompt', '--blame']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(*[m for m in ('openai', 'anthropic', 'asyncio', 'jinja2', 'doit') if m in sys.modules], file=sys.stderr)"
    )
    done = ws.run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == ""
