"""What commands in bubblewrap cannot do, tried with a real bubblewrap: reach out, raise their rights, or stay."""

import asyncio
import http.server
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from halo.files.roots import ConfinedRoot
from halo.tools.base import ToolFailure
from halo.tools.sandbox import processes
from halo.tools.sandbox.bubblewrap import boxed, find_bubblewrap, installed, probe
from halo.tools.sandbox.commands import SandboxedCommands
from halo.tools.sandbox.entering import entering
from halo.tools.sandbox.mounts import Opening
from halo.tools.sandbox.nested import MOST_FOUND, find_nested
from halo.tools.sandbox.system import TMP_BYTES

PROBLEM = find_bubblewrap().problem
if PROBLEM and os.environ.get("CI") == "true":
    raise RuntimeError(f"the escape suite must run in CI: {PROBLEM}")
pytestmark = pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM or "bubblewrap works")

SECRET = "hunter2-correct-horse"
PYTHON = "/usr/bin/python3"
needs_python = pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason=f"{PYTHON} is not installed")
needs_git = pytest.mark.skipif(
    shutil.which("git", path="/usr/bin:/bin") is None, reason="git is not installed"
)


class Sandbox:
    """A workspace in a home with secrets, and commands in it."""

    def __init__(self, folder):
        self.user = folder / "user"
        self.root = self.user / "projects" / "ws"
        self.halo_home = self.user / ".halo"
        self.write(
            {
                "../../.ssh/id_ed25519": SECRET,
                "../../.halo/secrets/settings.yaml": f"openai: {{secrets: {{api_key: {SECRET}}}}}\n",
                "../../.halo/trust.yaml": "format: 1\n",
                "../other/notes.txt": SECRET,
                ".halo/USER.md": "Mira.\n",
                ".halo/settings.yaml": f"post: {{secrets: {{token: {SECRET}}}}}\n",
                ".halo/agents/a/agent.yaml": "model: {provider: openai, id: m}\ntools: [file_read]\n",
                ".halo/agents/a/AGENT.md": "You are a.\n",
                ".halo/build/a/root.json": "{}\n",
                ".halo/artifacts/x/prompt.md": "x\n",
                ".halo/sessions/2026-10/s1/events.jsonl": SECRET,
                ".halo/traces/t.jsonl": SECRET,
                ".halo/evo/runs/r.md": SECRET,
                "example/.halo/settings.yaml": SECRET,
                "example/.halo/sessions/s/events.jsonl": SECRET,
                "example/.halo/agents/b/agent.yaml": "x\n",
                "a.txt": "one\n",
            }
        )

    def write(self, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def opening(self, **more):
        return Opening(str(self.root), str(self.user), str(self.halo_home))._replace(**more)

    def execute(self, command, seconds=30.0, environment=None, **more):
        commands = SandboxedCommands(self.opening(**more), os.environ)
        return asyncio.run(commands.execute(command, environment or {}, seconds))

    def succeeds(self, command, **more):
        done = self.execute(command, **more)
        assert done.code == 0, done
        return done.output

    def fails(self, command, **more):
        """The command does not do what it tries, and no secret shows."""
        done = self.execute(command, **more)
        assert done.code != 0, done
        assert SECRET not in done.output + done.errors
        return done.errors


@pytest.fixture
def sandbox(tmp_path):
    return Sandbox(tmp_path)


def everything(folder):
    return {str(p): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


# What works


def test_a_command_works_in_the_workspace(sandbox):
    assert sandbox.succeeds("pwd; cat a.txt; echo two >> a.txt; mkdir d; echo x > d/new; ls") == (
        f"{sandbox.root}\none\na.txt\nd\nexample\n"
    )
    assert (sandbox.root / "a.txt").read_text() == "one\ntwo\n"
    assert (sandbox.root / "d/new").read_text() == "x\n"


def test_a_workspace_below_tmp_or_home_is_still_there(sandbox):
    assert sandbox.succeeds("cat a.txt; echo t > /tmp/t; cat /tmp/t; echo h > ~/h; cat ~/h") == "one\nt\nh\n"
    assert not os.path.exists("/tmp/t")
    assert not (sandbox.user / "h").exists()


def test_exit_code_and_errors_come_back(sandbox):
    done = sandbox.execute("echo out; echo err >&2; exit 7")
    assert (done.code, done.output, done.errors) == (7, "out\n", "err\n")


def test_layers_can_be_read_inside(sandbox):
    assert sandbox.succeeds("cat .halo/USER.md .halo/agents/a/AGENT.md") == "Mira.\nYou are a.\n"


def test_at_readonly_the_workspace_cannot_be_changed(sandbox):
    sandbox.fails("echo x > a.txt", write=False)
    sandbox.fails("rm -r example", write=False)
    assert sandbox.succeeds("cat a.txt", write=False) == "one\n"


def test_a_folder_that_the_user_opened_can_be_written_to(sandbox):
    cache = sandbox.user / "cache"
    cache.mkdir()
    sandbox.succeeds(f"echo x > {cache}/x", writable=(str(cache),))
    assert (cache / "x").read_text() == "x\n"
    sandbox.fails(f"echo x > {cache}/y")


def test_what_the_user_opened_in_the_home_lies_in_the_home_of_commands_too(sandbox):
    """Programs keep their caches at `~/.cache`; there, `~` is another folder."""
    real = sandbox.user.parent / "disk"
    for folder in (sandbox.user / ".cache" / "pip", sandbox.user / "own" / "below", real):
        folder.mkdir(parents=True)
    (sandbox.user / "linked").symlink_to(real)
    names = ("own/below", ".cache/pip", "linked", "own", "own-not", "missing")
    opened = tuple(f"{sandbox.user}/{name}" for name in (*names, "own/"))
    sandbox.succeeds(
        "for d in .cache/pip own own/below linked; do echo x > ~/$d/made || exit 1; done", writable=opened
    )
    for folder in (".cache/pip", "own", "own/below", "../disk"):
        assert (sandbox.user / folder / "made").read_text() == "x\n"
    assert sandbox.succeeds("ls -A ~", writable=opened) == ".cache\nlinked\nown\n"
    sandbox.succeeds("echo x > ~/elsewhere; rm ~/linked ~/own", writable=opened)
    assert (sandbox.user / "linked").is_symlink()
    assert not (sandbox.user / "elsewhere").exists()


# Reading what is not the workspace's


@pytest.mark.parametrize(
    "path",
    ["{user}/.ssh/id_ed25519", "{halo}/secrets/settings.yaml", "{halo}/trust.yaml", "{user}/projects/other/notes.txt",
     "../other/notes.txt", "/proc/self/root{user}/.ssh/id_ed25519", "/proc/1/root{user}/.ssh/id_ed25519",
     "/proc/1/cwd/../other/notes.txt", "/oldroot{user}/.ssh/id_ed25519", "/newroot/../{user}/.ssh/id_ed25519",
     ".halo/settings.yaml", ".halo/sessions/2026-10/s1/events.jsonl", ".halo/traces/t.jsonl", ".halo/evo/runs/r.md",
     "example/.halo/settings.yaml", "example/.halo/sessions/s/events.jsonl"],
)  # fmt: skip
def test_what_lies_elsewhere_or_is_private_cannot_be_read(sandbox, path):
    full = path.format(user=sandbox.user, halo=sandbox.halo_home)
    sandbox.fails(f"cat {full}")
    sandbox.fails(f"ln -s {full} link && cat link")
    sandbox.fails(f"ln {full} hard")
    sandbox.fails(f"cp {full} copy")
    sandbox.fails(f"cat {full}", write=False)


def test_nothing_of_the_machine_has_a_name_inside(sandbox):
    assert set(sandbox.succeeds("ls -A /").split()) <= {
        "bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "sbin", "tmp", "usr",
        sandbox.root.parts[1],
    }  # fmt: skip
    home = sandbox.succeeds(f"ls -A {sandbox.user} {sandbox.user}/projects").split()
    assert home == [f"{sandbox.user}:", "projects", f"{sandbox.user}/projects:", "ws"]


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssl/private/x"])
def test_passwords_of_the_machine_cannot_be_read(sandbox, path):
    sandbox.fails(f"cat {path}")


def test_what_of_etc_not_everybody_may_read_nobody_may_read(sandbox):
    """Root may read all of it, and root inside owns what root owns."""
    find = "find -H /etc ! -type l ! -perm -004 ! -path '/etc/ssl/private' -size +0 2>/dev/null; true"
    assert sandbox.succeeds(find) == ""


@pytest.mark.skipif(not os.access("/opt", os.W_OK), reason="/opt cannot be written")
def test_a_home_among_programs_is_as_empty_as_any():
    """Accounts of services have theirs in /opt, say."""
    with tempfile.TemporaryDirectory(dir="/opt", prefix="halo-test-") as folder:
        sandbox = Sandbox(Path(folder))
        assert sandbox.succeeds(f"ls {sandbox.user} {sandbox.user}/projects; cat a.txt").split() == [
            f"{sandbox.user}:", "projects", f"{sandbox.user}/projects:", "ws", "one",
        ]  # fmt: skip
        sandbox.fails(f"cat {sandbox.user}/.ssh/id_ed25519")
        sandbox.fails(f"cat {sandbox.halo_home}/secrets/settings.yaml")


def test_host_keys_cannot_be_read(sandbox):
    assert sandbox.succeeds("cat /etc/ssh/ssh_host_*_key 2>/dev/null; true") == ""


def test_a_private_folder_that_is_made_later_is_not_seen(sandbox):
    """Another process of Halo may begin a batch while the command runs."""
    thread = threading.Timer(0.5, lambda: sandbox.write({".halo/batch/b.json": SECRET, ".halo/late.md": "x"}))
    thread.start()
    done = sandbox.execute("sleep 1.5; cat .halo/batch/b.json")
    thread.join()
    assert done.code != 0
    assert SECRET not in done.output


def test_what_the_user_hides_is_hidden(sandbox):
    sandbox.write({"private/k": SECRET, "one.env": SECRET})
    hidden = (str(sandbox.root / "private"), str(sandbox.root / "private/k"), str(sandbox.root / "one.env"),
              str(sandbox.root / ".halo/secrets"), str(sandbox.root / "absent"))  # fmt: skip
    sandbox.fails("cat private/k", hidden=hidden)
    sandbox.fails("cat one.env", hidden=hidden)
    sandbox.fails("echo x > one.env && cat one.env", hidden=hidden)
    sandbox.fails("mv private p && cat p/k", hidden=hidden)


def test_what_is_hidden_stays_hidden_when_the_folder_above_it_is_moved(sandbox):
    sandbox.write({"conf/deep/one.env": SECRET, "conf/b.txt": "b\n"})
    hidden = (str(sandbox.root / "conf/deep/one.env"),)
    for command in ("mv conf moved", "mv conf/deep conf/moved", "rm -rf conf"):
        sandbox.fails(command, hidden=hidden)
    sandbox.fails("cat conf/deep/one.env moved/deep/one.env conf/moved/one.env", hidden=hidden)
    assert (sandbox.root / "conf/deep/one.env").read_text() == SECRET
    sandbox.succeeds("echo more >> conf/c.txt; mkdir conf/deep/new; mv conf/c.txt a.txt", hidden=hidden)


def test_a_link_in_halo_leads_nowhere_outside(sandbox):
    """A link that a repository carries is a link inside as well, not what it leads to."""
    (sandbox.root / ".halo/skills").symlink_to(sandbox.user / ".ssh")
    sandbox.fails("cat .halo/skills/id_ed25519")


def test_the_home_of_halo_is_hidden_where_a_folder_above_is_opened(sandbox):
    opened = (str(sandbox.user),)
    assert SECRET in sandbox.succeeds(
        f"cat {sandbox.user}/.ssh/id_ed25519", writable=opened
    )  # as the user said
    sandbox.fails(f"cat {sandbox.halo_home}/secrets/settings.yaml", writable=opened)
    sandbox.fails("cat .halo/settings.yaml", writable=opened)
    sandbox.fails("echo x > .halo/USER.md", writable=opened)


# Processes, environment, descriptors


def test_the_environment_is_clean(sandbox, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    output = sandbox.succeeds(
        "env; cat /proc/self/environ /proc/1/environ; cat /proc/*/environ", environment={"GIVEN": "g"}
    )
    assert SECRET not in output
    assert "GIVEN=g" in output
    names = {line.partition("=")[0] for line in sandbox.succeeds("env").split("\n") if line}
    assert names <= {"PATH", "HOME", "TMPDIR", "TERM", "LANG", "TZ", "PWD", "OLDPWD", "SHLVL", "_"}


def test_no_descriptor_is_inherited(sandbox, tmp_path):
    secret = tmp_path / "open-secret"
    secret.write_text(SECRET)
    with secret.open() as file:
        os.set_inheritable(file.fileno(), True)  # as some library may do
        output = sandbox.succeeds(
            "ls -l /proc/self/fd /proc/1/fd /proc/$$/fd; for n in 3 4 5 6 7 8 9 10 11 12 13 14; do cat <&$n; done; true"
        )
    assert SECRET not in output
    assert "open-secret" not in output


def test_processes_of_the_machine_are_neither_seen_nor_reached(sandbox):
    victim = subprocess.Popen(["sleep", "60"])
    try:
        assert "sleep" not in sandbox.succeeds("cat /proc/[0-9]*/comm")
        sandbox.fails(f"kill -9 {victim.pid}")
        sandbox.fails(f"kill -9 {os.getpid()}")
        sandbox.execute("kill -9 -1")
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


@needs_python
def test_nothing_outside_can_be_traced(sandbox):
    """Halo is no process of the sandbox's own namespace, so there is no such process."""
    script = (
        "import ctypes, errno\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"print(libc.ptrace(16, {os.getpid()}, 0, 0), errno.errorcode[ctypes.get_errno()])\n"
    )
    sandbox.write({"trace.py": script})
    assert sandbox.succeeds(f"{PYTHON} trace.py") == "-1 ESRCH\n"


@needs_python
def test_no_key_can_be_typed_into_a_terminal(sandbox):
    """TIOCSTI needs a controlling terminal: the command has none, whatever Halo was started from."""
    script = (
        "import fcntl, os, sys\n"
        "try:\n"
        "    tty = os.open('/dev/tty', os.O_RDWR)\n"
        "except OSError as error:\n"
        "    print(error.errno)\n"
        "else:\n"
        "    fcntl.ioctl(tty, 0x5412, b'x')\n"
    )
    sandbox.write({"type.py": script})
    assert sandbox.succeeds(f"{PYTHON} type.py") == "6\n"  # ENXIO


def test_no_capability_is_left_even_for_root(sandbox):
    status = dict(
        line.split(":\t", 1)
        for line in sandbox.succeeds("cat /proc/self/status").splitlines()
        if ":\t" in line
    )
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"


@pytest.mark.parametrize(
    "command",
    ["mount -t tmpfs none /mnt", "mount -o remount,rw /usr", "umount .halo", "umount -l .git", "umount /proc/sys",
     "chroot . /bin/true", "unshare -m true", "unshare -r true", "unshare -rm umount .halo", "mknod d b 254 0",
     "nsenter -t 1 -m cat /etc/hostname && false"],
)  # fmt: skip
def test_no_mount_no_root_no_namespace(sandbox, command):
    sandbox.write({".git/config": "[core]\n"})
    if not shutil.which(command.split()[0], path="/usr/sbin:/usr/bin:/sbin:/bin"):
        pytest.skip(f"{command.split()[0]} is not installed")
    sandbox.fails(command)


def test_a_user_namespace_cannot_be_made(sandbox):
    if "--disable-userns" not in find_bubblewrap().options:
        pytest.skip("this bubblewrap cannot forbid user namespaces")
    assert "failed" in sandbox.fails("unshare --user true")


@pytest.mark.parametrize("path", ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches",
                                  "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity"])  # fmt: skip
def test_the_kernel_cannot_be_reconfigured(sandbox, path):
    """Root owns these files, and inside root may be who it is outside: rights alone would not keep it out."""
    before = (
        Path(path).read_bytes()
        if os.path.exists(path) and "trigger" not in path and "drop" not in path
        else b""
    )
    sandbox.fails(f"echo core > {path}")
    assert not before or Path(path).read_bytes() == before


# Changing what is not the workspace's


@pytest.mark.parametrize(
    "path", ["/etc/x", "/usr/x", "/usr/bin/ls", "/bin/x", "/lib/x", "/x", "/dev/x", "/proc/x", "/opt/x"]
)
def test_the_system_cannot_be_written_to(sandbox, path):
    sandbox.fails(f"echo x > {path}")


def test_what_is_written_beside_the_workspace_is_written_nowhere(sandbox):
    before = everything(sandbox.user)
    sandbox.execute(
        f"echo x > {sandbox.user}/x; echo x > ../x; mkdir -p {sandbox.user}/.ssh; echo x > {sandbox.user}/.ssh/k"
    )
    assert everything(sandbox.user) == before


@pytest.mark.parametrize(
    "command",
    [
        "echo 'general: {tools: {access: full}}' > .halo/settings.yaml",
        "rm -f .halo/settings.yaml; echo x > .halo/settings.yaml && ls .halo/settings.yaml",
        "mv a.txt .halo/settings.yaml",
        "echo 'tools: [shell_exec]' > .halo/agents/a/agent.yaml",
        "sed -i s/file_read/shell_exec/ .halo/agents/a/agent.yaml",
        "mkdir -p .halo/agents/evil && echo x > .halo/agents/evil/agent.yaml",
        "mv .halo/agents .halo/old",
        "mv .halo old",
        "rm -rf .halo",
        "mkdir .halo2 && mv -T .halo2 .halo",
        "echo x > .halo/build/a/root.json",
        "rm -r .halo/build",
        "echo x > .halo/artifacts/x/prompt.md",
        "echo x > .halo/mcp.lock.json",
        "echo x > .halo/bundle.json",
        "ln -s /tmp .halo/sessions",
        "mkdir .halo/sessions",
        "ln .halo/agents/a/agent.yaml other && echo x > other",
        "chmod 777 .halo/agents/a/agent.yaml",
        "echo x > example/.halo/agents/b/agent.yaml",
    ],
)
def test_nobody_raises_the_own_access(sandbox, command):
    before = everything(sandbox.root / ".halo")
    sandbox.fails(command)
    assert everything(sandbox.root / ".halo") == before


# Git


@pytest.fixture
def repository(sandbox):
    subprocess.run(["git", "init", "-q", str(sandbox.root)], check=True)
    git = ["git", "-c", "user.name=M", "-c", "user.email=m@example.org", "-C", str(sandbox.root)]
    subprocess.run([*git, "add", "a.txt"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    return sandbox


EVIL_GIT = [
    "mv .git x",
    "rm -rf .git",
    "mkdir g && mv -T g .git",
    "echo x > .git/hooks/pre-commit",
    "mv .git/hooks .git/h",
    "mkdir -p .git/hooks2 && mv -T .git/hooks2 .git/hooks",
    "echo x >> .git/config",
    "rm .git/config; echo '[core]' > .git/config && ls .git/config",
    "git config core.hooksPath evil",
    "git config core.fsmonitor evil",
    "git config --file .git/config core.editor evil",
    "ln .git/config c && echo x > c",
]


@needs_git
@pytest.mark.parametrize("command", [*EVIL_GIT, "echo .. > .git/commondir", "echo x > .git/config.worktree"])
def test_git_cannot_be_made_to_run_something(repository, command):
    before = everything(repository.root / ".git")
    repository.fails(command)
    assert everything(repository.root / ".git") == before


@needs_git
def test_settings_without_a_secret_are_there_so_that_git_does_not_take_them_for_deleted(repository):
    repository.write({".halo/settings.yaml": "general: {tools: {network: false}}\n"})
    git = ["git", "-c", "user.name=M", "-c", "user.email=m@example.org", "-C", str(repository.root)]
    subprocess.run([*git, "add", "-f", ".halo/settings.yaml"], check=True)
    subprocess.run([*git, "commit", "-qm", "settings"], check=True)
    assert " D .halo/settings.yaml" in repository.succeeds("git status --short")
    assert ".halo/settings.yaml" not in repository.succeeds("git status --short", settings=True)
    assert "network: false" in repository.succeeds("cat .halo/settings.yaml", settings=True)
    for change in ("echo x >> .halo/settings.yaml", "rm -f .halo/settings.yaml", "mv .halo/settings.yaml s"):
        repository.fails(change, settings=True)


def test_git_can_be_read(repository):
    (repository.root / "a.txt").write_text("two\n")
    output = repository.succeeds("git log --oneline; git diff; git status --short")
    assert "first" in output
    assert "+two" in output


@needs_git
@pytest.mark.parametrize("command", EVIL_GIT)
def test_where_commits_are_allowed_hooks_and_settings_are_still_kept(repository, command):
    shutil.rmtree(repository.root / ".git/hooks")  # what is not there could be made
    opened = (str(repository.root / ".git"),)
    before = (repository.root / ".git/config").read_bytes()
    repository.fails(command, writable=opened)
    assert (repository.root / ".git/config").read_bytes() == before
    assert everything(repository.root / ".git/hooks") == {}


@needs_git
def test_where_the_user_allows_it_commands_commit(repository):
    repository.succeeds(
        "echo b > b.txt && git add b.txt && git -c user.name=M -c user.email=m@example.org commit -qm second",
        writable=(str(repository.root / ".git"),),
    )
    log = subprocess.run(
        ["git", "-C", str(repository.root), "log", "--oneline"], capture_output=True, text=True, check=True
    )
    assert "second" in log.stdout


@needs_git
def test_a_git_that_is_a_link_is_refused(sandbox):
    """A link cannot be a mount point, so another repository could be put in its place."""
    sandbox.write({"elsewhere/config": "[core]\n"})
    (sandbox.root / ".git").symlink_to("elsewhere")
    for opened in ((), (str(sandbox.root / ".git"),)):
        with pytest.raises(ToolFailure, match="symbolic link"):
            sandbox.execute("rm .git; mkdir .git", writable=opened)


@needs_git
@pytest.mark.parametrize("name", ["hooks", "config", "modules"])
def test_in_a_git_that_is_written_to_a_link_in_the_place_of_what_git_runs_is_refused(repository, name):
    git = repository.root / ".git"
    (repository.root / "tracked").mkdir()
    if (git / name).exists():
        shutil.move(git / name, repository.root / "tracked" / name)
    (git / name).symlink_to(f"../tracked/{name}")
    with pytest.raises(ToolFailure, match=f"[.]git/{name} is a symbolic link"):
        repository.execute("true", writable=(str(git),))
    repository.fails(f"rm .git/{name}")


@needs_git
def test_a_git_elsewhere_that_the_user_opened_keeps_its_hooks_and_settings(sandbox):
    """For the workspace that is a worktree: its git folder lies in another project."""
    other = sandbox.user / "projects" / "main"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    subprocess.run(["git", "init", "-q", "--bare", str(sandbox.user / "bare")], check=True)
    for git in (other / ".git", sandbox.user / "bare"):
        opened = (str(git),)
        sandbox.succeeds(f"echo x > {git}/x", writable=opened)
        for command in (
            f"echo x > {git}/hooks/pre-commit",
            f"echo x >> {git}/config",
            f"mv {git}/hooks {git}/h",
        ):
            sandbox.fails(command, writable=opened)


@needs_git
def test_a_submodules_git_and_a_worktrees_file_are_kept_too(sandbox):
    sandbox.write({"lib/.git/config": "[core]\n", ".git": "gitdir: /elsewhere/.git/worktrees/ws\n"})
    sandbox.fails("echo x >> lib/.git/config")
    sandbox.fails("rm -f .git; mkdir .git && ls .git/.")
    assert (sandbox.root / ".git").read_text().startswith("gitdir:")


@pytest.mark.parametrize("kept", ["lib/.git", "libs/deep/er/.git", "libs/deep/.halo"])
def test_a_folder_with_a_project_in_it_cannot_be_swapped_for_another(sandbox, kept):
    """`git status` in the root looks into submodules, and runs what their settings say."""
    sandbox.write({f"{kept}/config": "[core]\n", "libs/deep/code.txt": "x\n"})
    top = kept.split("/")[0]
    sandbox.fails(f"mv {top} old && mkdir -p {kept} && echo evil > {kept}/config")
    sandbox.fails(f"mv {os.path.dirname(kept)} old2 && mkdir -p {kept} && echo evil > {kept}/config")
    sandbox.fails(f"rm -rf {top}")
    assert (sandbox.root / kept / "config").read_text() == "[core]\n"
    sandbox.succeeds(
        f"echo y > {os.path.dirname(kept)}/new.txt; mkdir -p libs/deep/d; rm -f libs/deep/code.txt"
    )


def test_projects_in_a_folder_that_the_user_opened_are_kept_too(sandbox):
    other = sandbox.user / "projects" / "other"
    sandbox.write({"../other/.halo/settings.yaml": SECRET, "../other/.halo/agents/b/AGENT.md": "b\n",
                   "../other/.git/config": "[core]\n"})  # fmt: skip
    opened = (str(other),)
    sandbox.succeeds(f"echo x > {other}/new.txt", writable=opened)
    for command in (f"cat {other}/.halo/settings.yaml", f"echo x > {other}/.halo/agents/b/AGENT.md",
                    f"echo x >> {other}/.git/config", f"mv {other}/.git {other}/g"):  # fmt: skip
        sandbox.fails(command, writable=opened)


# Links


@pytest.mark.parametrize("name", ["cache", ".git", "a/b/cache"])
@pytest.mark.parametrize("target", ["{user}/.ssh", "{up}/../../.ssh"])
def test_a_link_in_the_place_of_what_the_user_opened_opens_nothing_else(sandbox, name, target):
    """A folder of `general.tools.writable` in the workspace may be absent, or a command's to replace."""
    opened = (str(sandbox.root / name),)
    up = "/".join([".."] * name.count("/")) or "."
    sandbox.succeeds(f"mkdir -p {os.path.dirname(name) or '.'}; ln -s {target.format(user=sandbox.user, up=up)} {name}",
                     writable=opened)  # fmt: skip
    if name == ".git":
        with pytest.raises(ToolFailure, match="symbolic link"):
            sandbox.execute("true", writable=opened)
        return
    sandbox.fails(f"cat {name}/id_ed25519", writable=opened)
    sandbox.fails(f"echo x > {name}/authorized_keys", writable=opened)
    assert not (sandbox.user / ".ssh/authorized_keys").exists()


def test_nor_does_one_in_another_folder_that_is_open(sandbox):
    cache = sandbox.user / "cache"
    (cache / "deep").mkdir(parents=True)
    (sandbox.user / "short").symlink_to(cache / "deep")
    opened = (str(cache), str(cache / "deep"), str(sandbox.user / "short"))
    sandbox.succeeds(f"rmdir {cache}/deep; ln -s {sandbox.user}/.ssh {cache}/deep", writable=opened)
    for order in (opened, opened[::-1]):
        sandbox.fails(f"cat {sandbox.user}/.ssh/id_ed25519 {cache}/deep/id_ed25519", writable=order)


@pytest.mark.parametrize("opened", ["{halo}", "{halo}/secrets", "/etc", "/etc/ssl", "/proc", "/dev", "/sys"])
def test_some_folders_are_never_opened(sandbox, opened):
    path = opened.format(halo=sandbox.halo_home)
    with pytest.raises(ToolFailure, match="lies in"):
        sandbox.execute("true", writable=(path,))


def test_layers_that_a_link_brings_in_from_the_workspace_are_kept(sandbox):
    sandbox.write({"shared/skills/s/SKILL.md": "skill\n", "shared/old/events.jsonl": SECRET})
    (sandbox.root / ".halo/skills").symlink_to("../shared/skills")
    (sandbox.root / ".halo/traces/t.jsonl").unlink()
    (sandbox.root / ".halo/traces").rmdir()
    (sandbox.root / ".halo/traces").symlink_to("../shared/old")
    assert sandbox.succeeds("cat .halo/skills/s/SKILL.md") == "skill\n"
    for command in ("echo x > shared/skills/s/SKILL.md", "mv shared s", "mv shared/skills shared/s",
                    "cat shared/old/events.jsonl", "mkdir .halo/skills/new"):  # fmt: skip
        sandbox.fails(command)
    sandbox.succeeds("echo x > shared/free.txt")


@pytest.mark.parametrize(
    ("target", "why"),
    [("../absent.yaml", "not there"), ("../way/settings.yaml", "through a link"), ("..", "lies in")],
)
def test_a_link_in_halo_whose_end_commands_could_change_is_refused(sandbox, target, why):
    sandbox.write({"real/settings.yaml": "x: 1\n"})
    (sandbox.root / "way").symlink_to("real")
    (sandbox.root / ".halo/settings.yaml").unlink()
    (sandbox.root / ".halo/settings.yaml").symlink_to(target)
    with pytest.raises(ToolFailure, match=f"[.]halo/settings.yaml leads .*{why}"):
        sandbox.execute("true")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_folder_that_is_swapped_for_a_link_while_a_sandbox_is_set_up_opens_nothing(sandbox, tmp_path):
    """Two programs at once in a workspace: one swaps, thousands of times a second, the other looks."""
    (tmp_path / "swap.c").write_text(
        "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
        'int main(void) { for (;;) syscall(SYS_renameat2, AT_FDCWD, "sub/.git", AT_FDCWD, "sub/x", 2); }\n'
    )
    subprocess.run(["cc", "-O1", "-o", str(sandbox.root / "swap"), str(tmp_path / "swap.c")], check=True)
    swap = "mkdir -p sub/.git && ln -s ../../../.ssh sub/x && exec ./swap"

    async def race():
        commands = SandboxedCommands(sandbox.opening(), os.environ)
        swapping = asyncio.create_task(commands.execute(swap, {}, 60))
        while not (sandbox.root / "sub/x").is_symlink():  # another process
            await asyncio.sleep(0.02)
        seen, ran = "", 0
        for _ in range(100):
            try:
                done = await commands.execute("cat sub/.git/id_ed25519 sub/x/id_ed25519", {}, 10)
                seen, ran = seen + done.output, ran + 1
            except ToolFailure:
                continue
        swapping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await swapping
        return seen, ran

    seen, ran = asyncio.run(race())
    assert SECRET not in seen
    assert ran > 0


# Links


def test_a_link_that_a_command_plants_is_not_followed_by_a_file_tool(sandbox):
    sandbox.succeeds(
        f"ln -s {sandbox.user}/.ssh/id_ed25519 key; ln -s {sandbox.user}/.ssh d; ln -s .halo/settings.yaml s"
    )
    files = ConfinedRoot(str(sandbox.root))
    for path in ("key", "d/id_ed25519"):
        with pytest.raises(Exception) as failure:  # noqa: PT011  # refused, in whatever words
            files.read(path, 1000)
        assert SECRET not in str(failure.value)
    assert files.resolve("s") == ".halo/settings.yaml"  # and so the tools know that it is masked


def test_a_linked_workspace_is_run_where_it_really_is(sandbox, tmp_path):
    (tmp_path / "link").symlink_to(sandbox.root)
    assert sandbox.succeeds("pwd", workspace=str(tmp_path / "link")) == f"{sandbox.root}\n"


def test_a_halo_folder_that_is_a_link_is_refused(sandbox):
    shutil.move(sandbox.root / ".halo", sandbox.user / "elsewhere")
    (sandbox.root / ".halo").symlink_to(sandbox.user / "elsewhere")
    with pytest.raises(ToolFailure, match="symbolic link"):
        sandbox.execute("true")


def test_a_workspace_that_holds_the_home_is_refused(sandbox):
    with pytest.raises(ToolFailure, match="the workspace holds"):
        sandbox.execute("true", workspace=str(sandbox.user))
    with pytest.raises(ToolFailure, match="the workspace holds"):
        sandbox.execute("true", workspace="/")
    with pytest.raises(ToolFailure, match="writable"):
        sandbox.execute("true", writable=("/",))


# Network


@pytest.fixture
def server():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"reached")

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield serving.server_address[1]
        serving.shutdown()
        thread.join()


def fetch(port):
    return f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"


def test_there_is_no_network(sandbox, server):
    sandbox.fails(fetch(server))
    assert sandbox.succeeds("cat /proc/net/dev").count(":") == 1  # the loopback device of its own


def test_a_network_that_the_user_granted_is_there(sandbox, server):
    assert sandbox.succeeds(fetch(server), network=True).endswith("reached")


@needs_python
def test_an_abstract_socket_of_the_machine_is_not_reached(sandbox):
    import socket

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0halo-test-{os.getpid()}")
        listening.listen()
        sandbox.fails(
            f"{PYTHON} -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\0halo-test-{os.getpid()}')\""
        )


@needs_python
def test_no_family_of_sockets_is_there_but_those_of_namespaces(sandbox):
    """A socket to the hypervisor knows no network namespace; nor does Bluetooth."""
    if not find_bubblewrap().filter:
        pytest.skip("no filter for this machine")
    script = (
        "import socket\n"
        "for family in (1, 2, 10, 16, 17, 31, 38, 40):\n"
        "    try:\n"
        "        socket.socket(family, socket.SOCK_DGRAM).close(); print(family)\n"
        "    except OSError as error:\n"
        "        print(family, error.errno)\n"
        "a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))\n"
    )
    sandbox.write({"families.py": script})
    for network in (False, True):
        output = sandbox.succeeds(f"{PYTHON} families.py", network=network)
        assert output == "1\n2\n10\n16\n17 97\n31 97\n38 97\n40 97\nb'x'\n"


@needs_python
def test_keyrings_and_what_goes_past_the_filter_are_not_there(sandbox):
    if platform.machine() != "x86_64" or not find_bubblewrap().filter:
        pytest.skip("the numbers are those of x86_64")
    script = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for number in (248, 249, 250, 425, 0x40000000 + 41):\n"
        "    print(libc.syscall(number, 0, 0, 0, 0, 0), ctypes.get_errno())\n"
    )
    sandbox.write({"keys.py": script})
    assert sandbox.succeeds(f"{PYTHON} keys.py") == "-1 38\n" * 5


# Staying, flooding, filling


def count_of(mark):
    """How many processes of the machine carry a mark in their command line."""
    found = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found += mark.encode() in Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
    return found


def none_left(mark, seconds=5.0):
    until = time.monotonic() + seconds
    while count_of(mark) and time.monotonic() < until:
        time.sleep(0.05)
    return count_of(mark) == 0


@pytest.mark.parametrize(
    "stay",
    ["sleep {n} & true", "setsid sleep {n} & true", "(setsid sh -c 'setsid sleep {n} & exit 0' &) ; sleep 0.2",
     "nohup sleep {n} > /dev/null 2>&1 & true"],
)  # fmt: skip
def test_nothing_outlives_a_command(sandbox, stay):
    mark = f"6{os.getpid()}.5"
    began = time.monotonic()
    assert sandbox.execute(stay.format(n=mark) + "; echo done").output == "done\n"
    assert time.monotonic() - began < 10
    assert none_left(mark)


def test_a_fork_bomb_dies_whole_when_its_time_is_over(sandbox):
    """This one doubles every tenth of a second, so that the machine of the test survives it."""
    mark = f"halo-bomb-{os.getpid()}"
    done = sandbox.execute(f": {mark}; b() {{ sleep 0.1; b & b & trap '' TERM; wait; }}; b", seconds=0.8)
    assert done.ending == "timeout"
    assert none_left(mark)


def test_processes_are_bounded_unless_root_runs_them(sandbox):
    argv = entering(["true"], [])
    assert ("ulimit -u 4096" in " ".join(argv)) == (os.getuid() != 0)
    if os.getuid() != 0:
        assert sandbox.succeeds("ulimit -u") == "4096\n"


def test_cancelling_ends_a_command_and_all_it_started(sandbox):
    mark = f"7{os.getpid()}.5"

    async def cancelled():
        commands = SandboxedCommands(sandbox.opening(), os.environ)
        task = asyncio.create_task(commands.execute(f"setsid sleep {mark} & sleep {mark}", {}, 60))
        while count_of(f"sleep\0{mark}") < 2:  # other processes
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert none_left(mark)


def test_when_halo_is_killed_its_commands_die_too(sandbox):
    mark = f"8{os.getpid()}.5"
    code = (
        "import asyncio, os, sys\n"
        "from halo.tools.sandbox.commands import SandboxedCommands\n"
        "from halo.tools.sandbox.mounts import Opening\n"
        f"commands = SandboxedCommands(Opening(*{(str(sandbox.root), str(sandbox.user), str(sandbox.halo_home))!r}), os.environ)\n"
        f"asyncio.run(commands.execute('setsid sleep {mark} & sleep {mark}', {{}}, 60))\n"
    )
    halo = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    until = time.monotonic() + 20
    while count_of(f"sleep\0{mark}") < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert count_of(f"sleep\0{mark}") == 2
    halo.kill()
    halo.wait()
    assert none_left(mark)


def test_a_flood_of_output_is_stopped(sandbox, monkeypatch):
    monkeypatch.setattr(processes, "FLOOD", 1 << 20)
    done = sandbox.execute("yes halo-flood", seconds=60)
    assert done.ending == "output"
    assert none_left("yes\0halo-flood")


def test_memory_cannot_be_filled_through_tmp(sandbox):
    assert "No space left" in sandbox.fails(f"fallocate -l {TMP_BYTES + (1 << 20)} /tmp/x")
    sandbox.fails(f"fallocate -l {TMP_BYTES + (1 << 20)} /dev/shm/x")
    assert sandbox.succeeds("df -P .halo | tail -1 | awk '{print $2}'") == "1024\n"


def test_no_core_is_dumped_and_files_have_a_bound(sandbox):
    assert sandbox.succeeds("ulimit -c; ulimit -f") == "0\n8388608\n"
    sandbox.fails("ulimit -f unlimited")


def test_when_memory_runs_out_commands_are_killed_first(sandbox):
    assert sandbox.succeeds("cat /proc/self/oom_score_adj") == "1000\n"
    sandbox.execute("echo -1000 > /proc/self/oom_score_adj")
    assert (
        sandbox.succeeds("(echo 0 > /proc/self/oom_score_adj) 2>/dev/null; cat /proc/$$/oom_score_adj")
        == "1000\n"
    )


# Finding bubblewrap


def test_a_bubblewrap_of_the_workspace_is_not_used(sandbox, monkeypatch):
    """PATH leads into it where a virtual environment is activated, and a command could leave one there."""
    sandbox.write({".venv/bin/bwrap": "#!/bin/sh\nexit 0\n"})
    (sandbox.root / ".venv/bin/bwrap").chmod(0o755)
    monkeypatch.chdir(sandbox.root / ".venv/bin")
    monkeypatch.setenv("PATH", f"{sandbox.root}/.venv/bin:.::{os.environ['PATH']}")
    assert installed() == find_bubblewrap().program
    sandbox.fails(f"cat {sandbox.user}/.ssh/id_ed25519")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_programs_environment_loads_nothing_into_bubblewrap(sandbox, tmp_path):
    """It begins outside the sandbox, and an MCP server may be given any variable."""
    (tmp_path / "evil.c").write_text(
        "#include <stdio.h>\n__attribute__((constructor)) static void at_start(void) {\n"
        f'    FILE *mark = fopen("{tmp_path}/mark", "w"); if (mark) fclose(mark);\n'
        '    puts("loaded");\n}\n'
    )
    library = sandbox.root / "evil.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "evil.c")], check=True)
    given = {
        "LD_PRELOAD": str(library),
        "PLAIN": "p",
        "BASH_ENV": "a.txt",
        "halo_n": "7",
        "PATH": "/usr/bin:/bin",
    }
    made = boxed(sandbox.opening(), ["/usr/bin/env"], given)
    with made.started_with() as (argv, handed):
        done = subprocess.run(
            argv, env=made.environment, pass_fds=handed, capture_output=True, text=True, check=True
        )
    assert not (tmp_path / "mark").exists()
    assert "loaded" in done.stdout  # the program itself gets what its definition says
    assert {"PLAIN=p", f"LD_PRELOAD={library}", "BASH_ENV=a.txt"} <= set(done.stdout.splitlines())
    assert done.stderr == ""


def test_without_bubblewrap_it_says_what_to_install():
    assert probe(None).problem == "bubblewrap is not installed: install your system's package bubblewrap"


def test_a_bubblewrap_that_may_not_make_namespaces_says_so(tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    problem = probe(str(fake)).problem
    assert "No permissions to create new namespace" in problem
    assert "user namespaces" in problem


def test_an_older_bubblewrap_is_used_without_what_it_lacks(tmp_path, sandbox, monkeypatch):
    fake = tmp_path / "bwrap"
    real = find_bubblewrap().program
    fake.write_text(
        f'#!/bin/sh\nfor a in "$@"; do case "$a" in --size|--disable-userns) echo "Unknown option $a" >&2; exit 1;; esac; '
        f'done\nexec {real} "$@"\n'
    )
    fake.chmod(0o755)
    found = probe(str(fake))
    assert (found.problem, found.sized, "--disable-userns" in found.options) == ("", False, False)
    monkeypatch.setattr("halo.tools.sandbox.bubblewrap.find_bubblewrap", lambda: found)
    assert sandbox.succeeds("cat a.txt") == "one\n"
    sandbox.fails("unshare -rm umount .halo")


def test_the_search_for_nested_workspaces_is_bounded_and_follows_no_link(tmp_path):
    for number in range(MOST_FOUND + 10):
        (tmp_path / f"p{number:03}" / ".halo").mkdir(parents=True)
    (tmp_path / ".halo").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path)
    found = find_nested(str(tmp_path))
    assert len(found) == MOST_FOUND
    assert str(tmp_path / ".halo") not in found


def test_a_halo_folder_with_too_much_in_it_is_refused_and_says_why(sandbox):
    for number in range(501):
        (sandbox.root / f".halo/n{number}.md").touch()
    with pytest.raises(ToolFailure, match=r"\.halo holds 50\d files and folders.*into folders"):
        sandbox.execute("true")
