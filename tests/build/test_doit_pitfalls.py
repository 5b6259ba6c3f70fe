"""What doit alone does wrong or leaves open (its version 0.37, measured), and Halo on top of it does not.

Each pitfall has a test, here or where it was tested already:

 1  a kill loses every record of the run      test_faults: TestKilled; test_processes
 2  two at once lose records, or die          test_faults: TestAtOnce; test_processes
 3  a torn database ends every later run      test_build_command: test_its_database_holds_nothing_of_value;
                                              test_faults: test_a_torn_database_…
 4  a target changed by hand is kept          test_build_command: test_an_artifact_changed_by_hand_is_built_anew;
                                              test_freshness: TestArtifacts; here: TestContent
 5  an equal mtime means unchanged            test_freshness: TestWhatIsNoticed, TestRacy; here: TestContent
 6  a touched tree is hashed for ever         test_freshness: TestTouched; here: TestTouched
 7  an input saved meanwhile counts as seen   test_freshness: TestChangedMeanwhile; here: TestMeanwhile;
                                              test_faults: test_while_layers_change_…
 8  dependencies come in the order of hashes  here: TestOrder; test_processes: test_two_machines_…
 9  a change of code is no change             here: TestCompiler; test_freshness
10  threads mix up captured output            here: TestProcesses
11  closures cannot be sent to workers        here: TestProcesses
12  a folder is no dependency                 test_freshness: a new file in a folder; here: TestContent
13  a failed task loses its record            here: TestFailures; test_freshness: TestFailedCompile
14  removed tasks leave rows and files        here: TestRemoved; test_garbage
15  an embedded doit obeys the folder's       here: TestStrangers
    pyproject.toml and doit.cfg
16  task creators need their source           here: TestStrangers
17  names beyond ASCII in a C locale          here: TestNames
18  `=` and command names in task names       here: TestNames
"""

import compileall
import multiprocessing
import os
import pickle
import shutil
import subprocess
import time

import pytest
from making import REPOSITORY, agent, skill

from halo.build.whole import passes, survey
from halo.cli.doit_run import _StaleTargets
from halo.dodo import StderrReporter, compile_action
from halo.records.targets import AgentTarget, ScopeTarget

FILES = {
    "dodo.py": "from halo.dodo import *\n",
    ".halo/USER.md": "USER\n",
    ".halo/prompts/all/one.md": "ONE\n",
    ".halo/agents/a/agent.yaml": agent(name="Ada", skills=["s"]),
    ".halo/agents/a/AGENT.md": "BODY\n",
    ".halo/agents/b/agent.yaml": agent(name="Bob"),
    ".halo/skills/s/SKILL.md": skill("STEPS"),
    "pkg/.halo/INSTRUCTIONS.md": "PKG\n",
}


@pytest.fixture(params=["halo build", "doit"])
def ws(make_workspace, request):
    """A workspace, built by one of the two commands; `ws.again()` runs it once more."""
    made = make_workspace(FILES)
    command = made.doit if request.param == "doit" else lambda *more: made.cli("build", *more)
    made.again = command
    first = command()
    assert first.returncode == 0, first.stderr
    return made


def built(result):
    assert result.returncode == 0, result.stdout + result.stderr
    return sorted(line.split()[1] for line in result.stderr.splitlines() if line.startswith("built "))


A = ["a/root", "a/sub"]


class TestContent:
    def test_nothing_is_built_twice(self, ws):
        assert built(ws.again()) == []

    @pytest.mark.parametrize("name", ["prompt.md", "manifest.json"])
    def test_an_artifact_edited_by_hand_is_noticed(self, ws, name):
        before = ws.artifacts()
        target = ws.builder.frozen(AgentTarget("a"))
        path = ws.halo / "artifacts" / target.id / name
        stat = path.stat()
        data = path.read_bytes()
        path.write_bytes(data.replace(b"BODY", b"EVIL") if b"BODY" in data else data[:-2] + b" \n")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert built(ws.again()) == ["a/root"]
        assert ws.artifacts() == before

    def test_other_content_with_an_equal_mtime_is_seen(self, ws):
        """One after the other, each in two ways: of the size of what was there before, and of another."""
        path = ws.path(".halo/agents/a/AGENT.md")
        stat = path.stat()
        other = ws.root / "other.md"
        for number, how in enumerate(["write", "cp -p", "mv", "touch -r"] * 2):
            text = f"BOD{number}\n" if number < 4 else f"OTHER SIZE {'.' * number}\n"
            assert (len(text) == path.stat().st_size) is (number < 4)
            other.write_text(text)
            os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            match how:
                case "cp -p":
                    subprocess.run(["cp", "-p", other, path], check=True)
                case "mv":
                    other.replace(path)
                case "touch -r":
                    path.write_text(text)
                    subprocess.run(["touch", "-r", other, path], check=True)
                case "write":
                    path.write_text(text)
                    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            assert path.stat().st_mtime_ns == stat.st_mtime_ns
            assert built(ws.again()) == A, how
            assert text in ws.builder.frozen(AgentTarget("a")).prompt

    def test_a_file_that_comes_or_goes_in_a_folder_is_seen(self, ws):
        """The folder is an input; its mtime alone is not asked."""
        folder = ws.path(".halo/prompts/all")
        stat = folder.stat()
        ws.write({".halo/prompts/all/two.md": "TWO\n"})
        os.utime(folder, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert {*A, "b/root", "b/sub"} <= set(built(ws.again()))
        ws.path(".halo/prompts/all/two.md").unlink()
        assert {*A, "b/root", "b/sub"} <= set(built(ws.again()))


# Runs a command some seconds from now, by its clock, and counts which files below the layers it opens.
COUNTING = """
import os, sys, time
real, ahead = time.time_ns, int(sys.argv[1]) * 10**9
time.time_ns = lambda: real() + ahead
opened = []
layers = os.path.join(os.getcwd(), "")
def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        name = os.fsdecode(arguments[0])
        # The confined walk opens names relative to a folder, one by one.
        if name.endswith((".md", ".yaml")) and "artifacts" not in name:
            opened.append(name)
sys.addaudithook(watch)
from halo.__main__ import main
sys.argv = ["halo", "build"]
try:
    main()
except SystemExit as end:
    code = end.code
print(len(opened), file=sys.stderr)
sys.exit(code)
"""


class TestTouched:
    def reads(self, ws, later):
        done = ws.run("-c", COUNTING, str(later))
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("all fresh\n"), done.stdout
        return int(done.stderr.splitlines()[-1])

    def test_a_touched_tree_is_read_once_and_then_told_by_stat(self, make_workspace):
        """doit would read it on every run from now on; a fresh clone with a restored cache is such a tree."""
        ws = make_workspace(FILES)
        for path in ws.root.rglob("*"):
            os.utime(path, (1_700_000_000, 1_700_000_000))
        assert ws.cli("build").returncode == 0
        # For four seconds a later write could carry the same stamp, and content is compared.
        assert self.reads(ws, 0) > 0
        assert self.reads(ws, 0) > 0
        self.reads(ws, 5)
        assert self.reads(ws, 5) == 0
        for path in [*ws.halo.rglob("*.md"), *ws.halo.rglob("*.yaml")]:
            if "artifacts" not in path.parts:
                os.utime(path, (1_700_000_001, 1_700_000_001))
        assert self.reads(ws, 10) > 0
        assert self.reads(ws, 10) == 0
        assert self.reads(ws, 10) == 0


class TestMeanwhile:
    """An input is saved while its task runs: what was seen of it is the old text."""

    # The command itself, in which the first compile of `a` is overtaken by an editor.
    OVERTAKEN = """
import sys
import halo.compiler.compile as room
real = room.compile_target
def overtaken(tree, target):
    result = real(tree, target)
    if target.name == "a/root":
        with open(".halo/agents/a/AGENT.md", "w") as file:
            file.write("SAVED MEANWHILE\\n")
    return result
room.compile_target = overtaken
if sys.argv[1] == "doit":
    from doit.doit_cmd import DoitMain
    sys.exit(DoitMain().run([]))
from halo.cli.main import run
sys.exit(run(["build"]))
"""

    @pytest.mark.parametrize("command", ["doit", "halo build"])
    def test_it_is_rebuilt_by_the_next_run(self, make_workspace, command):
        ws = make_workspace(FILES)
        ws.run("-c", self.OVERTAKEN, command)
        assert ws.builder.status(AgentTarget("a")).reason == "workspace:.halo/agents/a/AGENT.md changed"
        result = ws.doit() if command == "doit" else ws.cli("build")
        assert "a/root" in built(result)
        assert "SAVED MEANWHILE\n" in ws.builder.frozen(AgentTarget("a")).prompt

    def test_halo_build_says_that_it_is_stale_already(self, make_workspace):
        ws = make_workspace(FILES)
        done = ws.run("-c", self.OVERTAKEN, "halo build")
        assert done.returncode == 1
        assert "stale   a/root  changed while it was built\n" in done.stderr
        assert "failed " not in done.stderr


class TestOrder:
    def test_the_order_of_layers_never_comes_from_a_set(self, make_workspace):
        """Eight hash seeds gave doit's `dependencies` eight orders."""
        files = {
            **FILES,
            **{f".halo/prompts/all/p{i}.md": f"P{i}\n" for i in range(9)},
            ".halo/settings.yaml": "general: {prompt: {context_files: [Z.md, M.md, A.md]}}\n",
            **{f"{name}.md": f"{name}\n" for name in "ZMA"},
        }
        prompts = set()
        for seed in range(8):
            ws = make_workspace(files)
            assert ws.doit(PYTHONHASHSEED=str(seed)).returncode == 0
            prompts.add(ws.builder.frozen(AgentTarget("a")).prompt)
        assert len(prompts) == 1
        (prompt,) = prompts
        places = [prompt.index(f"P{i}\n") for i in range(9)]
        assert places == sorted(places)


class TestCompiler:
    # The command under another version of the rules of composition.
    OTHER = """
import sys
import halo.compiler.version
halo.compiler.version.COMPILER = "halo-compiler/999"
if sys.argv[1] == "doit":
    from doit.doit_cmd import DoitMain
    sys.exit(DoitMain().run([]))
from halo.__main__ import main
sys.argv = ["halo", "build"]
main()
"""

    def test_another_compiler_makes_everything_stale(self, make_workspace):
        """Twice, so that neither gate nor pointer of the one serves the other."""
        for command in ("doit", "halo build"):
            ws = make_workspace(FILES)
            every = sorted(target.name for target in survey(ws.builder).targets)
            again = ws.doit if command == "doit" else lambda ws=ws: ws.cli("build")
            assert built(again()) == every
            assert built(ws.run("-c", self.OTHER, command)) == every
            assert built(ws.run("-c", self.OTHER, command)) == []
            assert built(again()) == every
            assert built(again()) == []


class TestProcesses:
    def test_two_jobs_print_whole_lines_and_build_the_same(self, make_workspace):
        one = make_workspace(FILES)
        expected = sorted(one.cli("build").stderr.splitlines())
        assert len(expected) > 14
        for words in (("-n", "2"), ("-n", "2", "-P", "thread"), ()):
            ws = make_workspace(FILES)
            done = ws.doit(*words)
            assert (done.returncode, sorted(done.stderr.splitlines()), done.stdout) == (0, expected, "")
            assert ws.artifacts() == one.artifacts()
        ws = make_workspace(FILES)
        assert sorted(ws.cli("build", "-n", "2").stderr.splitlines()) == expected
        assert ws.artifacts() == one.artifacts()

    @pytest.mark.parametrize("method", ["spawn", "forkserver"])
    def test_workers_need_not_be_forks(self, make_workspace, method):
        """Python 3.14 starts them otherwise: what they are sent must be found by its name."""
        if method not in multiprocessing.get_all_start_methods():
            pytest.skip("not on this system")
        ws = make_workspace(FILES)
        script = ws.root / "start.py"
        script.write_text(
            "import multiprocessing, sys\n"
            "from halo.cli.main import run\n"
            "if __name__ == '__main__':\n"
            f"    multiprocessing.set_start_method({method!r})\n"
            "    sys.exit(run(['build', '-n', '2']))\n"
        )
        assert built(ws.run("start.py"))[:2] == A
        assert built(ws.cli("build")) == []

    def test_what_workers_are_sent_can_be_sent(self, make_workspace):
        ws = make_workspace(FILES)
        reporter = StderrReporter(None, {"failure_verbosity": 0})
        for task in _StaleTargets(ws.builder, survey(ws.builder).targets, reporter).load_tasks(None, []):
            ((action, arguments),) = [(a.py_callable, a.args) for a in task.actions]
            assert pickle.loads(pickle.dumps((action, arguments)))[0] is compile_action
            assert (task.file_dep, task.io.capture) == (set(), False)


class TestFailures:
    def test_a_reverted_input_does_not_run_its_task_again(self, ws):
        good = ws.path(".halo/agents/a/agent.yaml").read_text()
        ws.write({".halo/agents/a/agent.yaml": "x: ["})
        assert ws.again().returncode == 1
        ws.write({".halo/agents/a/agent.yaml": good})
        assert built(ws.again()) == []


class TestRemoved:
    def test_a_removed_agent_skill_or_directory_leaves_nothing(self, ws):
        shutil.rmtree(ws.halo / "agents" / "b")
        shutil.rmtree(ws.root / "pkg")
        done = ws.again()
        assert built(done) == []
        assert sorted(line.split()[1] for line in done.stderr.splitlines()) == [
            "b/root",
            "b/sub",
            "scopes/pkg",
        ]
        assert not {"b/root", "b/sub", "scopes/pkg"} & set(ws.pointers())
        listed = ws.doit("list", "--all", "-q")
        assert "build:b/root" not in listed.stdout
        assert "build:a/root" in listed.stdout
        stamp = time.time() - 7200
        for path in [*(ws.halo / "artifacts").rglob("*"), *(ws.halo / "build").rglob("*")]:
            os.utime(path, (stamp, stamp))
        swept = ws.cli("gc", HALO_CACHE=str(ws.home / "cache"))
        assert swept.returncode == 0, swept.stderr
        assert b"You are Bob" not in b"".join(ws.artifacts().values())
        assert not (ws.halo / "build" / "b").exists()

    def test_doit_writes_the_gate_as_halo_build_does(self, make_workspace):
        ws = make_workspace(FILES)
        for path in ws.root.rglob("*"):
            os.utime(path, (1_700_000_000, 1_700_000_000))
        assert ws.doit().returncode == 0
        assert passes(ws.builder)

    def test_one_target_alone_ends_nothing(self, make_workspace):
        """`doit build:a/root` is no build of everything: what has gone is said when everything is asked for."""
        ws = make_workspace(FILES)
        assert ws.doit().returncode == 0
        shutil.rmtree(ws.halo / "agents" / "b")
        assert ws.doit("build:a/root").stderr == ""
        assert "b/root" in ws.pointers()
        assert "gone    b/root\n" in ws.doit("build").stderr


HOSTILE = {
    "pyproject.toml": '[tool.doit]\nbackend = "sqlite3"\ndep_file = "stolen"\nreporter = "json"\nverbosity = 0\n'
    '[tool.doit.commands.run]\nreporter = "zero"\n[tool.doit.plugins.command]\nrun = "evil:Run"\n',
    "doit.cfg": "[GLOBAL]\nbackend = sqlite3\ndep_file = stolen\nreporter = zero\n[COMMAND]\nrun = evil:Run\n",
    "evil.py": "open('evil-ran', 'w')\n",
    "dodo.py": "open('dodo-ran', 'w')\n",
}


class TestStrangers:
    def test_halo_build_reads_no_configuration_and_no_dodo_of_the_workspace(self, make_workspace):
        ws = make_workspace({**FILES, **HOSTILE})
        first = ws.cli("build")
        assert set(A) <= set(built(first))
        assert not {"stolen", "evil-ran", "dodo-ran"} & {path.name for path in ws.root.iterdir()}
        assert built(ws.cli("build")) == []

    def test_nothing_of_doit_is_left_behind_by_it(self, make_workspace, tmp_path):
        """No database in the workspace, none among the temporary files."""
        ws = make_workspace(FILES)
        temporary = tmp_path / "tmp"
        temporary.mkdir()
        assert ws.cli("build", TMPDIR=str(temporary)).returncode == 0
        assert list(temporary.iterdir()) == []
        assert not list(ws.halo.rglob("*doit*"))

    def test_it_works_without_its_own_source(self, make_workspace, tmp_path):
        """doit's loader of modules asks for the source lines of task creators."""
        package = tmp_path / "installed" / "halo"
        shutil.copytree(REPOSITORY / "halo", package, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(REPOSITORY / "templates", package / "_templates")
        assert compileall.compile_dir(package, quiet=2, legacy=True)
        for path in package.rglob("*.py"):
            if "_templates" not in path.parts:
                path.unlink()
        ws = make_workspace(FILES)
        done = ws.run("-P", "-m", "halo", "build", PYTHONPATH=str(package.parent))
        assert set(A) <= set(built(done))


C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


class TestNames:
    FOLDERS = (
        "größe",
        "日本",
        "a=b",
        "a b",
        "x:y",
        "build",
        "prompt",
        "100%",
        "-n",
        "*",
        "it's",
        "Ünï/cödé",
        "[x]",
    )

    @pytest.mark.parametrize(
        ("command", "environ"),
        [
            ("doit", {}),
            ("doit", {"LC_ALL": "C"}),
            ("halo build", {}),
            ("halo build", {"LC_ALL": "C"}),
            ("halo build", C_LOCALE),
        ],
    )
    def test_directories_may_be_called_as_they_like(self, make_workspace, command, environ):
        ws = make_workspace(
            {**FILES, **{f"workspace:{name}/.halo/INSTRUCTIONS.md": f"In {name}\n" for name in self.FOLDERS}}
        )
        again = ws.doit if command == "doit" else lambda **more: ws.cli("build", **more)
        names = {ScopeTarget(name).name for name in self.FOLDERS}
        assert names <= set(built(again(**environ)))
        assert built(again(**environ)) == []
        ws.write({f"{self.FOLDERS[0]}/.halo/INSTRUCTIONS.md": "Other\n"})
        assert built(again(**environ)) == [ScopeTarget(self.FOLDERS[0]).name]
        assert "In 日本\n" in ws.builder.frozen(ScopeTarget("日本")).prompt
        prompts = {ws.cli("prompt", "-a", "a", "--dir", "größe", **e).stdout for e in ({}, environ, C_LOCALE)}
        assert len(prompts) == 1
        assert "Other\n" in prompts.pop()

    def test_doit_builds_nothing_rather_than_something_else(self, make_workspace):
        """Where its interpreter is told twice to read names as ASCII. Alone it ends in a UnicodeEncodeError."""
        ws = make_workspace({**FILES, "größe/.halo/INSTRUCTIONS.md": "R\n"})
        assert ws.doit().returncode == 0
        before = (ws.artifacts(), ws.pointers())
        ws.write({".halo/USER.md": "OTHER\n"})
        done = ws.doit(**C_LOCALE)
        assert done.returncode == 3
        assert "set PYTHONUTF8=1" in done.stderr
        assert "Traceback" not in done.stderr
        assert (ws.artifacts(), ws.pointers()) == before

    @pytest.mark.parametrize("environ", [{}, C_LOCALE], ids=["utf-8", "C"])
    def test_the_workspace_itself_too(self, make_workspace, environ):
        ws = make_workspace({})
        ws.root = ws.root / "höhle = 洞 %"
        ws.halo = ws.root / ".halo"
        ws.write(FILES)
        for again in (ws.doit, lambda **more: ws.cli("build", **more)):
            done = again(**environ)
            assert done.returncode == 0, done.stderr
        assert {*A, "skills/s"} <= set(ws.pointers())
        assert ws.cli("prompt", "-a", "a", **environ).stdout == ws.builder.frozen(AgentTarget("a")).prompt

    def test_every_target_can_be_asked_for_by_its_task(self, make_workspace):
        """No name holds a `=`, which doit would take for a variable, or ends as an option."""
        ws = make_workspace(
            {**FILES, **{f"workspace:{name}/.halo/INSTRUCTIONS.md": "x\n" for name in self.FOLDERS}}
        )
        for name in ("a=b", "a b", "*", "-n"):
            target = ScopeTarget(name).name
            assert "=" not in target
            assert built(ws.doit(f"build:{target}")) == [target]

    def test_agents_that_are_called_as_commands_of_doit(self, make_workspace):
        names = ("run", "list", "clean", "build", "prompt", "help")
        ws = make_workspace({**FILES, **{f".halo/agents/{n}/agent.yaml": agent() for n in names}})
        assert {f"{n}/root" for n in names} <= set(built(ws.doit()))
        assert built(ws.doit()) == []
