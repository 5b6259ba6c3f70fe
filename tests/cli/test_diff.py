"""`halo diff` in real repositories: what it compares, what it prints, and what it leaves alone."""

import os
import re
import subprocess

import msgspec
import pytest
from making import agent, skill

from halo.cli.diff_markdown import markdown
from halo.cli.diff_text import text
from halo.cli.main import run
from halo.records.differences import Comparison

FILES = {
    ".halo/agents/default/agent.yaml": agent(name="Lead", tools=["file_read"], skills=["tides"]),
    ".halo/agents/default/AGENT.md": "You lead.\nBe brief.\n",
    ".halo/agents/aide/agent.yaml": agent(),
    ".halo/agents/aide/AGENT.md": "You help.\n",
    ".halo/skills/tides/SKILL.md": skill("Read the table.\n", name="tides", description="knows tides"),
    ".halo/INSTRUCTIONS.md": "Keep logs.\nNever force-push.\n",
    ".halo/USER.md": "Mira.\n",
    ".halo/.gitignore": "/artifacts/\n/build/\n",
}


def git(repo, *arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    options = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false"]
    options += ["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", "-C", str(repo), *options, *arguments], check=True, capture_output=True, env=environment
    )
    return done.stdout.decode().strip()


def commit(repo, message="change"):
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", message)
    return git(repo, "rev-parse", "HEAD")


@pytest.fixture
def ws(make_workspace, monkeypatch):
    """A workspace that is a repository of its own, with everything committed, as the current directory."""
    made = make_workspace(FILES)
    git(made.root, "init", "-q")
    commit(made.root, "one")
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("HALO_HOME", str(made.home))
    return made


@pytest.fixture
def diff(capfd):
    """Run `halo diff`; return exit code, stdout and stderr."""

    def call(*arguments):
        code = run(["diff", *arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return call


@pytest.fixture
def compared(diff):
    """Run `halo diff --format json`; return the record."""

    def call(*arguments):
        _, out, err = diff(*arguments, "--format", "json")
        assert out, err
        return msgspec.json.decode(out, type=Comparison)

    return call


def names(comparison):
    return [difference.target.name for difference in comparison.affected]


DEFAULT = ["default/root", "default/sub"]
AIDE = ["aide/root", "aide/sub"]


# what is compared


def test_without_arguments_head_is_compared_with_the_work_tree(ws, diff):
    ws.write({".halo/INSTRUCTIONS.md": "Keep logs.\nNever force-push to main.\n"})
    code, out, err = diff("-a", "default")
    assert (code, err) == (0, "")
    rows = out.splitlines()
    assert rows[0] == f"HEAD ({git(ws.root, 'rev-parse', '--short=7', 'HEAD')}) → the work tree"
    assert re.fullmatch(
        r"default · root  +≈ \+8 \u22125 tokens   first change: segment 3 of \d+, \.halo/INSTRUCTIONS\.md:2",
        rows[1],
    )
    kept, before, again = (
        int(n.replace(",", ""))
        for n in re.fullmatch(
            r" +cached prefix kept ([\d,]+) of ([\d,]+) tokens; a warm session pays for ([\d,]+) again",
            rows[2],
        ).groups()
    )
    assert 0 < kept < before
    assert again > before - kept
    assert rows[3].startswith("default · sub ")
    assert rows[5].strip() == "the same lines as default · root"
    assert rows[6:9] == ["", "default · root", "@@ segment instructions · .halo/INSTRUCTIONS.md:2 @@"]
    assert "-Never force-push." in rows
    assert "+Never force-push to main." in rows


def test_nothing_changed(ws, diff):
    code, out, err = diff("--exit-code")
    assert (code, err) == (0, "")
    rows = out.splitlines()
    assert re.fullmatch(r"aide · root +unchanged", rows[1])
    assert re.fullmatch(r"\d+ more unchanged", rows[-1])


def test_the_work_tree_counts_and_not_the_index(ws, compared):
    ws.write({".halo/agents/aide/AGENT.md": "staged\n"})
    git(ws.root, "add", "-A")
    ws.write({".halo/agents/aide/AGENT.md": FILES[".halo/agents/aide/AGENT.md"]})
    assert names(compared()) == []
    ws.write({".halo/agents/aide/AGENT.md": "unstaged\n"})
    assert names(compared()) == AIDE


def test_untracked_and_ignored_files_count_as_on_disk(ws, compared):
    ws.write({".gitignore": "*.md\nscout\n", ".halo/agents/scout/agent.yaml": agent()})
    found = compared()
    assert names(found) == ["scout/root", "scout/sub"]
    assert {d.change for d in found.affected} == {"added"}
    git(ws.root, "rm", "-q", "--cached", ".halo/INSTRUCTIONS.md")
    git(ws.root, "commit", "-qm", "forgotten")
    assert set(DEFAULT) < set(names(compared()))


def test_one_revision_is_compared_with_the_work_tree_and_two_with_each_other(ws, compared):
    first = git(ws.root, "rev-parse", "HEAD")
    ws.write({".halo/agents/aide/AGENT.md": "Second.\n"})
    second = commit(ws.root)
    ws.write({".halo/agents/default/AGENT.md": "Third.\n"})
    assert names(compared("HEAD~1")) == AIDE + DEFAULT
    assert names(compared("HEAD")) == DEFAULT
    both = compared("HEAD~1", "main")
    assert names(both) == AIDE
    assert (both.old.name, both.old.commit) == ("HEAD~1", first)
    assert (both.new.name, both.new.commit) == ("main", second)
    back = compared(second, first)
    assert [d.added_tokens for d in back.affected] == [d.removed_tokens for d in both.affected]


def test_renames_and_line_endings(ws, compared):
    ws.write({".halo/prompts/all/old.md": "Shared.\n"})
    commit(ws.root)
    git(ws.root, "mv", ".halo/prompts/all/old.md", ".halo/prompts/all/new.md")
    ws.write({".halo/INSTRUCTIONS.md": FILES[".halo/INSTRUCTIONS.md"].replace("\n", "\r\n")})
    assert names(compared()) == []
    git(ws.root, "mv", ".halo/agents/aide", ".halo/agents/helper")
    assert [(d.target.name, d.change) for d in compared().affected] == [
        ("aide/root", "removed"),
        ("aide/sub", "removed"),
        ("helper/root", "added"),
        ("helper/sub", "added"),
    ]


def test_skills_and_who_lists_them(ws, compared):
    ws.write({".halo/skills/tides/SKILL.md": skill("Ask.\n", name="tides", description="knows tides")})
    assert names(compared()) == ["skills/tides"]
    ws.write({".halo/skills/tides/SKILL.md": skill("Ask.\n", name="tides", description="knows all tides")})
    found = compared()
    assert names(found) == [*DEFAULT, "skills/tides"]
    assert [f.new for f in found.affected[-1].fields] == ["knows all tides"]


def test_a_workspace_below_the_top_of_the_repository(ws, compared, monkeypatch):
    ws.write({f"apps/desk/{path}": text for path, text in FILES.items()})
    commit(ws.root)
    ws.write({"apps/desk/.halo/agents/aide/AGENT.md": "Elsewhere.\n"})
    monkeypatch.chdir(ws.root / "apps" / "desk" / ".halo" / "agents")
    found = compared()
    assert names(found) == AIDE
    assert found.affected[0].first_change.source == "workspace:.halo/agents/aide/AGENT.md"
    monkeypatch.chdir(ws.root)
    assert names(compared()) == []
    assert names(compared("-w", "apps/desk")) == AIDE


def test_a_revision_from_before_the_workspace(ws, compared):
    git(ws.root, "checkout", "-q", "--orphan", "bare")
    git(ws.root, "commit", "-qm", "nothing", "--allow-empty")
    git(ws.root, "rm", "-rq", "--cached", ".")
    git(ws.root, "commit", "-qm", "none")
    found = compared("HEAD")
    assert {d.change for d in found.affected} == {"added"}
    assert found.unchanged == ()
    assert set(AIDE + DEFAULT) < set(names(found))


def test_a_workspace_that_was_deleted(ws, compared, monkeypatch):
    ws.write({f"apps/desk/{path}": text for path, text in FILES.items()})
    commit(ws.root)
    git(ws.root, "rm", "-rq", ".halo")
    git(ws.root, "rm", "-rq", "apps/desk/.halo")
    (ws.root / "apps" / "desk").mkdir(parents=True)
    for folder in (ws.root, ws.root / "apps" / "desk"):
        monkeypatch.chdir(folder)
        found = compared()
        assert {d.change for d in found.affected} == {"removed"}
        assert set(AIDE + DEFAULT) < set(names(found))
    git(ws.root, "commit", "-qm", "gone")
    assert {d.change for d in compared("HEAD~1", "HEAD").affected} == {"removed"}


def test_the_machine_plays_no_part_unless_asked(ws, compared):
    ws.write({".halo/INSTRUCTIONS.md": ""})
    commit(ws.root)
    before = compared("HEAD")
    ws.write({"global:INSTRUCTIONS.md": "Global.\n", "global:agents/mine/agent.yaml": agent()})
    ws.write({"secrets:settings.yaml": "tides: {params: {k: hush}}\n"})
    assert compared("HEAD") == before
    both = compared("--global")
    assert names(both) == []
    assert "mine/root" in [target.name for target in both.unchanged]
    assert (before.with_global, both.with_global) == (False, True)
    ws.write({".halo/INSTRUCTIONS.md": "Ours.\n"})
    (root, *_) = compared("--global").affected
    assert "-Global." in root.hunks[0].lines
    assert "+Ours." in root.hunks[0].lines


def test_submodules_are_read_at_the_commit_that_the_revision_names(ws, compared, tmp_path):
    library = tmp_path / "library"
    (library / "charts").mkdir(parents=True)
    (library / "SKILL.md").write_text(skill("One.\n", name="lib", description="d"))
    (library / "charts" / "a.txt").write_text("")
    git(library, "init", "-q")
    commit(library)
    git(ws.root, "submodule", "--quiet", "add", str(library), ".halo/skills/lib")
    ws.write({".halo/agents/aide/agent.yaml": agent(skills=["lib"])})
    commit(ws.root)
    assert names(compared()) == []
    (ws.halo / "skills" / "lib" / "SKILL.md").write_text(skill("Two.\n", name="lib", description="d"))
    assert names(compared()) == ["skills/lib"]
    commit(ws.halo / "skills" / "lib")
    commit(ws.root, "bump")
    found = compared("HEAD~1", "HEAD")
    assert names(found) == ["skills/lib"]
    assert found.affected[0].first_change.source == "workspace:.halo/skills/lib/SKILL.md"
    assert names(compared("HEAD~2", "HEAD")) == [*AIDE, "skills/lib"]


def test_a_submodule_that_is_not_checked_out_is_no_skill(ws, diff, tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    (library / "SKILL.md").write_text(skill("One.\n"))
    git(library, "init", "-q")
    commit(library)
    git(ws.root, "submodule", "--quiet", "add", str(library), ".halo/skills/lib")
    commit(ws.root)
    git(ws.root, "submodule", "--quiet", "deinit", "-f", ".halo/skills/lib")
    code, out, err = diff()
    assert code == 0
    assert "skill lib" not in out
    inner = git(library, "rev-parse", "--short=7", "HEAD")
    outer = git(ws.root, "rev-parse", "--short=7", "HEAD")
    assert (
        f"workspace:.halo/skills/lib: warning: commit {inner} of this submodule is not here, "
        f"so {outer} is compared without it [submodule-left-out]\n"
    ) in err


def test_a_link_in_place_of_a_submodule_leads_nowhere(ws, compared, tmp_path):
    """Nobody may be led to a repository outside by a folder that was swapped for a link."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "SKILL.md").write_text(skill("Secret.\n", name="lib", description="d"))
    git(library, "init", "-q")
    inner = commit(library)
    (ws.root / ".gitmodules").write_text('[submodule "x"]\n\tpath = .halo/skills/lib\n\turl = ./x\n')
    git(ws.root, "add", ".gitmodules")
    git(ws.root, "update-index", "--add", "--cacheinfo", f"160000,{inner},.halo/skills/lib")
    git(ws.root, "commit", "-qm", "hostile")
    os.symlink(library, ws.halo / "skills" / "lib")
    assert "Secret" not in str(compared())


# what is left alone


def test_nothing_is_written(ws, diff):
    ws.write({".halo/agents/aide/AGENT.md": "Other.\n"})
    before = {p: p.stat().st_mtime_ns for p in sorted(ws.root.rglob("*"))}
    assert diff()[0] == 0
    assert diff("HEAD", "HEAD")[0] == 0
    assert {p: p.stat().st_mtime_ns for p in sorted(ws.root.rglob("*"))} == before
    assert not (ws.halo / "artifacts").exists()
    assert not ws.home.exists()


# exit codes and mistakes


def test_exit_codes(ws, diff):
    assert diff()[0] == 0
    ws.write({".halo/agents/aide/AGENT.md": "Other.\n"})
    assert diff()[0] == 0
    assert diff("--exit-code")[0] == 1
    ws.write({".halo/agents/aide/agent.yaml": "model: {"})
    code, out, err = diff()
    assert (code, err) == (1, "")
    assert "aide · root" in out
    assert (
        "does not compile in the work tree: workspace:.halo/agents/aide/agent.yaml:1: not valid YAML" in out
    )
    assert "default · root" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "git knows no revision 'nowhere'"),
        (["main..HEAD"], "two words: halo diff OLD NEW"),
        ([""], "git knows no revision ''"),
        (["a\nb"], "git knows no revision 'a\\nb'"),
        (["a", "b", "c"], "at most two revisions"),
        (["-a", "adie"], "unknown agent 'adie'\n  did you mean 'aide'?"),
        (["--format", "html"], "is not one of 'text', 'md', 'json'"),
    ],
)
def test_mistakes_are_told_in_a_word(ws, diff, arguments, message):
    code, out, err = diff(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_no_repository_no_commit_no_git(make_workspace, diff, monkeypatch):
    made = make_workspace(FILES)
    monkeypatch.setenv("HALO_HOME", str(made.home))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(made.root.parent))
    monkeypatch.chdir(made.root)
    code, _, err = diff()
    assert code == 2
    assert "not a git repository" in err
    git(made.root, "init", "-q")
    code, _, err = diff()
    assert code == 2
    assert "git knows no revision 'HEAD'\n  make a first commit" in err
    monkeypatch.setenv("PATH", "")
    code, _, err = diff()
    assert code == 3
    assert "git is not installed" in err


def test_a_shallow_clone_says_so(ws, diff, tmp_path, monkeypatch):
    ws.write({".halo/agents/aide/AGENT.md": "Second.\n"})
    commit(ws.root)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", ws.root.as_uri(), str(clone))
    monkeypatch.chdir(clone)
    assert diff()[0] == 0
    code, _, err = diff("HEAD~1")
    assert code == 2
    assert "this clone is shallow" in err


def test_a_hook_of_another_repository_does_not_confuse_it(ws, compared, monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    ws.write({".halo/agents/aide/AGENT.md": "Other.\n"})
    assert names(compared()) == AIDE


# text


def test_colours_mark_the_words_that_changed(ws, compared):
    ws.write({".halo/INSTRUCTIONS.md": "Keep logs.\nNever force-push to main.\n"})
    comparison = compared("-a", "default")
    plain, coloured = (text(comparison, colour=colour) for colour in (False, True))
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert "\x1b[32m\x1b[7m to main\x1b[0m" in coloured


def test_what_is_hidden_in_a_prompt_is_seen(ws, diff):
    ws.write({".halo/agents/aide/AGENT.md": "You \u202ehelp\x1b[2J.\n"})
    for form in ("text", "md"):
        out = diff("--format", form)[1]
        assert "+You \\u202ehelp\\x1b[2J." in out
        assert "\u202e" not in out
        assert "\x1b" not in out


# Markdown


def test_markdown_is_a_table_and_details(ws, diff):
    ws.write(
        {
            ".halo/INSTRUCTIONS.md": "Keep logs.\nNever force-push to main.\n",
            ".halo/agents/aide/agent.yaml": agent(model={"provider": "openai", "id": "n"}),
        }
    )
    code, out, _ = diff("--format", "md")
    assert code == 0
    rows = out.splitlines()
    assert rows[0].startswith("### Prompts: `HEAD (")
    assert rows[2] == "| target | tokens | first change | cached prefix kept |"
    assert rows[4].startswith("| `aide · root` | +8 \u22125 | `segment ")
    assert "| as `default · root` |" in out
    assert "<details><summary><code>default · root</code></summary>\n\n```diff\n" in out
    assert "another model has a cache of its own" in out
    assert "\n@@ binding.model @@\n-m\n+n\n" in out
    assert out.count("<details>") == out.count("</details>")


def test_words_of_layers_stay_in_code(ws, diff):
    hostile = "````\n</details>\n@octocat #1 <img src=x> `` | ![x](y)\n"
    ws.write(
        {
            ".halo/agents/aide/AGENT.md": hostile,
            "a|b @octocat `<i>/.halo/INSTRUCTIONS.md": "Rules.\n",
            ".halo/agents/default/agent.yaml": "model: [@octocat <b>",
        }
    )
    out = diff("--format", "md")[1]
    outside = re.sub(r"^(`{3,})diff\n.*?^\1$", "", out, flags=re.DOTALL | re.MULTILINE)
    # Inline code; in a table `\|` is how a bar is written.
    outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
    outside = re.sub(r"<summary><code>[^<]*</code></summary>", "", outside)
    assert "octocat" not in outside.replace("@octocat `&lt;i&gt;", "")
    assert "<img" not in outside
    assert "<i>" not in outside
    for row in out.splitlines():
        if row.startswith("| `"):
            assert len(re.findall(r"(?<!\\)\|", row)) == 5
    for match in re.finditer(r"^(`{3,})diff\n(.*?)^\1$", out, flags=re.DOTALL | re.MULTILINE):
        assert match[1] not in match[2]


def test_a_comment_fits_and_says_what_was_cut(ws, diff):
    for i in range(100):
        folder = f".halo/agents/{'n' * 90}{i:03}"
        ws.write({f"{folder}/agent.yaml": agent(), f"{folder}/AGENT.md": f"I am {i}.\n"})
    ws.write({".halo/agents/aide/AGENT.md": "".join(f"{i} 🙂 {'word ' * 20}\n" for i in range(3000))})
    out = diff("--format", "md")[1]
    assert len(out) < 65_536
    assert len(out.encode("utf-16-le")) // 2 < 65_536
    assert re.search(r"^\| … \d+ more \| \| \| \|$", out, re.MULTILINE)
    assert re.search(r"^# … [\d,]+ more lines$", out, re.MULTILINE)
    assert "Cut for length: `aide · root`" in out
    assert re.search(r"and \d+ more\. The whole of it: `halo diff HEAD`$", out, re.MULTILINE)
    assert out.count("<details>") == out.count("</details>")


def test_a_single_agent_that_was_cut_is_named_in_the_command(ws, compared):
    ws.write({".halo/agents/aide/AGENT.md": "".join(f"{i} {'word ' * 20}\n" for i in range(3000))})
    out = markdown(compared())
    assert "The whole of it: `halo diff HEAD -a aide`" in out


def test_markdown_without_changes(ws, diff):
    assert re.search(r"^No prompt changed \(\d+ compared\)\.$", diff("--format", "md")[1], re.MULTILINE)


# JSON


def test_json_is_a_record_with_a_format(ws, diff, compared):
    ws.write({".halo/agents/aide/AGENT.md": "Other.\n"})
    out = diff("--format", "json")[1]
    plain = msgspec.json.decode(out)
    assert plain["format"] == 1
    assert plain["new"] == {"name": "the work tree", "commit": ""}
    found = compared()
    assert msgspec.json.decode(msgspec.json.encode(found)) == plain
    assert [d.label for d in found.affected] == ["aide · root", "aide · sub"]


def test_a_diff_imports_nothing_heavy(ws):
    code = (
        "import sys\nfrom halo.cli.main import run\nassert run(['diff']) == 0\n"
        "heavy = ('openai', 'anthropic', 'httpx2', 'asyncio', 'jinja2', 'xllamacpp', 'doit')\n"
        "print(*[m for m in heavy if m in sys.modules], file=sys.stderr)"
    )
    done = ws.run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stderr.split() == []
