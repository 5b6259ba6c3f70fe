"""Who wrote a line of a layer, asked of real repositories, some of them hostile."""

import os
import subprocess

import msgspec
import pytest

from halo import __version__
from halo.build.trace import blame_sources
from halo.build.trace.blame import blame_lines
from halo.build.trace.blame_records import plain, read_incremental

RULES = "workspace:.halo/INSTRUCTIONS.md"
DATE = "2026-10-02T14:30:12+02:00"


def git(folder, *arguments, author="Mira Berg", date=DATE, **more):
    """Run git as a person who has configured nothing but a name."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environ |= {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": author,
        "GIT_AUTHOR_EMAIL": "m@example.org",
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_NAME": "Somebody Else",
        "GIT_COMMITTER_EMAIL": "s@example.org",
        "GIT_COMMITTER_DATE": "2027-01-01T00:00:00Z",
        **more,
    }
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env=environ, capture_output=True, check=True, timeout=60
    )
    return done.stdout.decode().strip()


def commit(folder, message="one", **more):
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "--allow-empty", "-m", message, **more)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def ws(make_workspace, monkeypatch):
    """A workspace with three committed rules, in a repository of its own."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    made = make_workspace({".halo/INSTRUCTIONS.md": "One.\nTwo.\nThree.\n"})
    git(made.root, "init", "-q")
    commit(made.root)
    return made


def ask(ws, *lines, source=RULES):
    """The authorships of lines, in order."""
    found = blame_lines(ws.places, [(source, line) for line in lines])
    return [found[source, line] for line in lines]


def states(ws, *lines, source=RULES):
    return [author.state for author in ask(ws, *lines, source=source)]


# what is said


def test_the_author_the_date_and_the_summary_of_the_commit(ws):
    """The author's, not the committer's; the date as it was where the author was."""
    ws.write({".halo/INSTRUCTIONS.md": "One.\nTwo, always.\nThree.\n"})
    identity = commit(ws.root, "Keep history\n\nNot this.", author="Åse Ø", date="2026-10-03T23:30:00-07:00")
    first, second = ask(ws, 1, 2)
    assert (first.state, first.commit.author, first.commit.date) == ("committed", "Mira Berg", DATE)
    assert second.commit.id == identity
    assert (second.commit.author, second.commit.date) == ("Åse Ø", "2026-10-03T23:30:00-07:00")
    assert second.commit.summary == "Keep history"
    assert not first.commit.earlier


def test_what_is_blamed_is_the_text_on_disk(ws):
    """Changed lines are not committed, staged or not; the lines below them are found all the same."""
    ws.write({".halo/INSTRUCTIONS.md": "Zero.\nOne.\nTwo?\nThree.\n"})
    assert states(ws, 1, 2, 3, 4) == ["changed", "committed", "changed", "committed"]
    git(ws.root, "add", "-A")
    assert states(ws, 1, 2, 3, 4) == ["changed", "committed", "changed", "committed"]
    assert ask(ws, 1)[0].note == "not committed yet"


def test_a_file_that_git_does_not_know(ws):
    ws.write({".halo/USER.md": "Mira.\n", ".gitignore": "USER.md\n"})
    for path in ("workspace:.halo/USER.md", "workspace:.gitignore"):
        (author,) = ask(ws, 1, source=path)
        assert (author.state, author.note) == ("untracked", "not tracked by git")


def test_a_staged_file_that_was_never_committed(ws):
    ws.write({".halo/USER.md": "Mira.\n"})
    git(ws.root, "add", "-A")
    assert states(ws, 1, source="workspace:.halo/USER.md") == ["changed"]


def test_a_repository_without_a_commit(make_workspace):
    ws = make_workspace({".halo/INSTRUCTIONS.md": "One.\n"})
    git(ws.root, "init", "-q")
    (author,) = ask(ws, 1)
    assert (author.state, author.note) == ("untracked", "not committed yet: the repository has no commit")


def test_a_workspace_that_is_in_no_repository(make_workspace):
    (author,) = ask(make_workspace({".halo/INSTRUCTIONS.md": "One.\n"}), 1)
    assert (author.state, author.note) == ("outside", "not in a git repository")


def test_templates_and_rules_of_composition_need_no_git(ws, monkeypatch):
    monkeypatch.setenv("PATH", "")
    template, rule = "builtin:prompts/all/TOOL_GUIDELINES.md", "halo:compiler"
    found = blame_lines(ws.places, [(template, 1), (rule, 1)])
    assert found[template, 1].note == f"comes with Halo {__version__}"
    assert found[rule, 1].state == "rules"
    assert "docs/reference/layers.md" in found[rule, 1].note


def test_without_git_the_reason_is_said(ws, monkeypatch):
    monkeypatch.setenv("PATH", "")
    (author,) = ask(ws, 1)
    assert (author.state, author.note) == ("unknown", "git is not installed")


def test_a_line_that_the_file_has_no_more(ws):
    assert states(ws, 3, 4) == ["committed", "unknown"]
    ws.write({".halo/INSTRUCTIONS.md": ""})
    assert states(ws, 1) == ["unknown"]


def test_a_file_that_is_gone_or_unreadable_costs_itself_alone(ws):
    (ws.halo / "out.md").symlink_to("/etc/hostname")
    lines = [
        ("workspace:.halo/gone.md", 1),
        ("workspace:.halo/out.md", 1),
        ("workspace:.halo", 1),
        (RULES, 1),
    ]
    found = blame_lines(ws.places, lines)
    assert [found[line].state for line in lines] == ["unknown", "unknown", "unknown", "committed"]
    assert all(found[line].note for line in lines[:3])


def test_an_ignored_revision_is_passed_over(ws):
    """`blame.ignoreRevsFile` means what it means to git."""
    first = git(ws.root, "rev-parse", "HEAD")
    ws.write({".halo/INSTRUCTIONS.md": "ONE.\nTwo.\nThree.\n"})
    second = commit(ws.root, "Shout")
    assert ask(ws, 1)[0].commit.id == second
    (ws.root / "ignored").write_text(f"{second}\n")
    git(ws.root, "config", "blame.ignoreRevsFile", "ignored")
    assert ask(ws, 1)[0].commit.id == first


def test_a_mailmap_names_the_author(ws):
    (ws.root / ".mailmap").write_text("Mira B. Now <m@example.org>\n")
    assert ask(ws, 1)[0].commit.author == "Mira B. Now"


def test_the_oldest_commit_of_a_shallow_clone_is_marked(ws, tmp_path):
    """All older lines are laid to it; the first commit of a whole history is nothing special."""
    ws.write({".halo/INSTRUCTIONS.md": "One.\nTwo.\nThree.\nFour.\n"})
    for message in ("two", "three"):
        ws.write({"note": message})
        commit(ws.root, message)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{ws.root}", str(clone))
    places = msgspec.structs.replace(ws.places, workspace=str(clone))
    found = blame_lines(places, [(RULES, 1)])
    assert found[RULES, 1].commit.earlier
    assert not ask(ws, 1)[0].commit.earlier


# where the repository is


def test_a_workspace_below_the_top_of_its_repository(make_workspace):
    ws = make_workspace({".halo/INSTRUCTIONS.md": "One.\n", "pkg/.halo/INSTRUCTIONS.md": "Two.\n"})
    git(ws.root.parent, "init", "-q")
    commit(ws.root.parent)
    assert states(ws, 1) == ["committed"]
    assert states(ws, 1, source="workspace:pkg/.halo/INSTRUCTIONS.md") == ["committed"]


def test_the_halo_folder_as_a_repository_of_its_own(ws):
    """The nearest repository counts, not the one around it."""
    git(ws.halo, "init", "-q")
    inner = commit(ws.halo, "inner")
    ws.write({"dodo.py": ""})
    assert ask(ws, 1)[0].commit.id == inner


def test_a_linked_worktree(ws, tmp_path):
    linked = tmp_path / "linked"
    git(ws.root, "worktree", "add", "-q", str(linked))
    (linked / ".halo" / "INSTRUCTIONS.md").write_text("One.\nNew.\n")
    places = msgspec.structs.replace(ws.places, workspace=str(linked))
    found = blame_lines(places, [(RULES, 1), (RULES, 2)])
    assert [author.state for author in found.values()] == ["committed", "changed"]


def test_each_root_has_a_repository_of_its_own(ws):
    """The global folder is kept with other dotfiles, reached through a link."""
    dotfiles = ws.home.parent / "dotfiles"
    (dotfiles / "halo").mkdir(parents=True)
    (dotfiles / "halo" / "USER.md").write_text("Mira.\n")
    git(dotfiles, "init", "-q")
    identity = commit(dotfiles, "dotfiles")
    ws.home.mkdir()
    (ws.home / "global").symlink_to(dotfiles / "halo")
    found = blame_lines(ws.places, [(RULES, 1), ("global:USER.md", 1)])
    assert found["global:USER.md", 1].commit.id == identity
    assert found[RULES, 1].commit.id != identity


def test_a_link_inside_the_workspace_is_followed_to_its_file(ws):
    ws.write({"docs/rules.md": "Linked.\n"})
    (ws.halo / "USER.md").symlink_to("../docs/rules.md")
    identity = commit(ws.root, "link")
    assert ask(ws, 1, source="workspace:.halo/USER.md")[0].commit.id == identity
    (ws.root / "docs" / "rules.md").write_text("Linked.\nMore.\n")
    assert states(ws, 1, 2, source="workspace:.halo/USER.md") == ["committed", "changed"]


def test_a_repository_that_the_environment_names_is_not_asked(ws, tmp_path, monkeypatch):
    """As a hook runs: GIT_DIR leads to the repository that called it."""
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    for name, value in (
        ("GIT_DIR", other / ".git"),
        ("GIT_WORK_TREE", other),
        ("GIT_INDEX_FILE", other / "i"),
    ):
        monkeypatch.setenv(name, str(value))
    assert states(ws, 1) == ["committed"]


@pytest.mark.parametrize(
    "name", ["-rf.md", "--contents.md", ":(top)x.md", "a b*.md", "q\"uo'te.md", "日本 é.md", "a\tb.md"]
)
def test_odd_file_names(ws, name):
    source = f"workspace:.halo/prompts/all/{name}"
    ws.write({source: "Odd.\n"})
    assert states(ws, 1, source=source) == ["untracked"]
    identity = commit(ws.root, "odd")
    assert ask(ws, 1, source=source)[0].commit.id == identity


# line numbers


@pytest.mark.parametrize(
    "text",
    ["A.\r\nB.\r\nC.\r\nFour.\r\n", "A.\rB.\nC.\r\nFour.", "\ufeffA.\n\nC.\nFour.\n"],
)
def test_lines_are_those_of_the_canonical_text(ws, text):
    """A lone CR ends a line of the text, but not one of git's."""
    path = ws.halo / "INSTRUCTIONS.md"
    path.write_bytes(text.encode())
    first = commit(ws.root, "first")
    path.write_bytes(text.replace("Four", "For").encode())
    second = commit(ws.root, "second")
    assert [author.commit.id for author in ask(ws, 3, 4)] == [first, second]
    assert states(ws, 5) == ["unknown"]


def test_line_endings_that_git_converts_are_not_changes(ws):
    """The work tree has CRLF where the repository has LF."""
    ws.write(
        {".gitattributes": "*.md text eol=crlf\n", ".halo/INSTRUCTIONS.md": "One.\r\nTwo.\r\nThree!\r\n"}
    )
    assert states(ws, 1, 2, 3) == ["committed", "committed", "changed"]


def test_many_scattered_lines_are_one_call(ws, monkeypatch):
    ws.write({".halo/INSTRUCTIONS.md": "".join(f"Rule {i}.\n" for i in range(2000))})
    commit(ws.root)
    calls = counted(monkeypatch)
    assert set(states(ws, *range(1, 2000, 2))) == {"committed"}
    assert calls == ["blame"]


def test_each_file_is_blamed_once(ws, monkeypatch):
    ws.write({".halo/USER.md": "Mira.\nBerg.\n"})
    commit(ws.root)
    calls = counted(monkeypatch)
    lines = [
        (RULES, 1),
        ("workspace:.halo/USER.md", 1),
        (RULES, 3),
        ("workspace:.halo/USER.md", 2),
        (RULES, 1),
    ]
    assert len(blame_lines(ws.places, lines)) == 4
    assert calls == ["blame", "blame"]


def counted(monkeypatch):
    """The calls of git that blame a file are noted; each one really runs."""
    calls = []
    real = blame_sources.call_git

    def call(folder, *arguments, **options):
        calls.extend(arguments[:1] if arguments[0] == "blame" else ())
        return real(folder, *arguments, **options)

    monkeypatch.setattr(blame_sources, "call_git", call)
    return calls


# hostile repositories


def test_nothing_that_a_repository_configures_is_run(ws, tmp_path):
    """Monitors, converters, filters, hooks, pagers: an unpacked archive may bring any of them."""
    proof = tmp_path / "proof"
    run = f"touch {proof}; cat"
    (ws.root / ".gitattributes").write_text("*.md diff=evil filter=evil\n")
    commit(ws.root, "attributes")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "post-checkout", "fsmonitor-watchman"):
        (hooks / name).write_text(f"#!/bin/sh\n{run}\n")
        (hooks / name).chmod(0o755)
    for key, value in {
        "core.fsmonitor": str(hooks / "fsmonitor-watchman"),
        "core.hooksPath": str(hooks),
        "core.pager": run,
        "pager.blame": run,
        "diff.external": run,
        "diff.evil.textconv": run,
        "diff.evil.command": run,
        "filter.evil.clean": run,
        "filter.evil.smudge": run,
        "alias.blame": f"!{run}",
        "core.sshCommand": run,
        "core.askPass": run,
    }.items():
        git(ws.root, "config", key, value)
    (author,) = ask(ws, 1)
    assert not proof.exists()
    assert author.state == "unknown"
    assert "filter 'evil'" in author.note
    git(ws.root, "config", "--unset-all", "filter.evil.clean")
    assert states(ws, 1) == ["committed"]
    assert not proof.exists()
    git(ws.root, "blame", ".halo/INSTRUCTIONS.md")
    assert proof.exists()  # the trap works


@pytest.mark.parametrize("kind", ["included", "worktree", "process", "nameless"])
def test_a_filter_cannot_hide_where_it_is_configured(ws, tmp_path, kind):
    proof = tmp_path / "proof"
    name = "" if kind == "nameless" else "e.v.il"
    key = f"filter.{name}.{'process' if kind == 'process' else 'clean'}"
    command = f"sh -c 'touch {proof}; cat'"
    (ws.root / ".gitattributes").write_text(f"*.md filter={name}\n")
    if kind == "included":
        git(ws.root, "config", "-f", str(tmp_path / "more"), key, command)
        git(ws.root, "config", "include.path", str(tmp_path / "more"))
    elif kind == "worktree":
        git(ws.root, "config", "extensions.worktreeConfig", "true")
        git(ws.root, "config", "--worktree", key, command)
    else:
        git(ws.root, "config", key, command)
    assert states(ws, 1) == ["unknown"]
    assert not proof.exists()
    git(ws.root, "blame", ".halo/INSTRUCTIONS.md")
    assert proof.exists()  # the trap works


def test_a_filter_that_the_user_configured_is_run(ws, tmp_path, monkeypatch):
    """As with git-lfs: the program is the user's own choice, and the text compares as git compares it."""
    (ws.root / ".gitattributes").write_text("*.md filter=mine\n")
    config = tmp_path / "gitconfig"
    git(ws.root, "config", "-f", str(config), "filter.mine.clean", "sed s/Two/2/")
    ws.write({".halo/INSTRUCTIONS.md": "One.\n2.\nThree.\n"})
    commit(ws.root)
    ws.write({".halo/INSTRUCTIONS.md": "One.\nTwo.\nThree.\n"})
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    assert states(ws, 2) == ["committed"]


def test_a_partial_clone_fetches_nothing(ws, tmp_path):
    """A blob that is not here is a reason, not a download."""
    ws.write({".halo/INSTRUCTIONS.md": "One.\nTwo.\nThree.\nFour.\n"})
    commit(ws.root, "two")
    git(ws.root, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{ws.root}", str(clone))
    objects = sorted((clone / ".git" / "objects").rglob("*"))
    places = msgspec.structs.replace(ws.places, workspace=str(clone))
    (author,) = blame_lines(places, [(RULES, 1)]).values()
    assert author.state == "unknown"
    assert sorted((clone / ".git" / "objects").rglob("*")) == objects


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_a_repository_of_another_user_is_not_trusted_without_a_word(ws):
    for path in (ws.root, ws.root / ".git"):
        os.chown(path, 12345, 12345)
    (author,) = ask(ws, 1)
    assert author.state == "unknown"
    assert f"git config --global --add safe.directory {ws.root}" in author.note


def test_a_broken_repository_is_a_reason(ws):
    (ws.root / ".git" / "HEAD").write_text("nonsense\n")
    (author,) = ask(ws, 1)
    assert author.state in ("outside", "unknown")
    assert author.note


def test_names_and_summaries_are_plain_text(ws):
    """What a terminal would act upon is taken out; git itself takes out the line breaks."""
    ws.write({".halo/INSTRUCTIONS.md": "Evil.\n"})
    commit(
        ws.root,
        "\x1b[31mred\x1b[0m \x1b]0;title\x07 a\u202eb \x9b2J \x07bell \x1b",
        author="Mal\x1b[2Jlo\u200b\x08ry",
    )
    (author,) = ask(ws, 1)
    assert author.commit.author == "Mallo ry"
    assert author.commit.summary == "red a b bell"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Åse  Ø", "Åse Ø"),
        ("\x1b(B\x1bcplain", "plain"),
        ("\x1bP1;2|secret\x1b\\after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("open\x1b]0;never closed", "open"),
        ("[31m", "[31m"),
        ("\u2066\u2028\0\x85", ""),
    ],
)
def test_escape_sequences_are_taken_out_whole(text, expected):
    assert plain(text) == expected


def test_times_that_no_calendar_holds_are_left_out():
    head = b"a" * 40
    out = b"%s 1 1 1\nauthor M\nauthor-time %d\nauthor-tz +0200\nsummary s\nfilename f\n"
    assert read_incremental(out % (head, 10**18))[1].date == ""
    assert read_incremental(out % (head, 0))[1].date == "1970-01-01T02:00:00+02:00"


def test_what_git_says_is_read_group_by_group():
    """The facts of a commit come once; a summary that looks like a group is none."""
    one, two, none = b"1" * 40, b"2" * 40, b"0" * 40
    out = b"\n".join(
        [
            b"%s 1 5 2" % one,
            b"author A",
            b"author-time 0",
            b"author-tz +0000",
            b"summary %s 1 1 1" % two,
            b"previous %s f" % two,
            b"filename f",
            b"%s 1 1 1" % none,
            b"author Not Committed Yet",
            b"filename f",
            b"%s 9 9 1" % one,
            b"filename old name",
            b"",
        ]
    )
    found = read_incremental(out)
    assert sorted(found) == [1, 5, 6, 9]
    assert found[1] is None
    assert found[5] == found[6] == found[9]
    assert found[5].author == "A"
