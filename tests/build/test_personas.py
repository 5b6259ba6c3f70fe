"""Personas: an installed entry point may replace context files, and what it is, is an input."""

import shutil

import pytest
from making import agent

from halo.build.freshness import check_inputs
from halo.build.whole import passes
from halo.errors import LayerError
from halo.files.tree import EXISTS
from halo.records.targets import AgentTarget

SETTINGS = """\
general:
  prompt:
    context_files: [SOUL.md, TOOLS.md, GONE.md]
    persona: pirate
"""

PIRATE = """\
class Pirate:
    identity = "{identity}"

    def replace(self, name, text):
        answers = {{"SOUL.md": "---\\nkey: LEAK\\n---\\nArr, " + text + "\\r\\n", "GONE.md": None}}
        return answers.get(name, {other})

instance = Pirate()
broken = object()

class Failing:
    identity = "f"

    def replace(self, name, text):
        raise ValueError("no wind")

class Numbers(Failing):
    def replace(self, name, text):
        return 3

class Half(Failing):
    def replace(self, name, text):
        return "\\ud800"
"""

POINTS = {
    "pirate": "pirate_pack:Pirate",
    "ready": "pirate_pack:instance",
    "broken": "pirate_pack:broken",
    "absent": "pirate_pack:nothing",
    "failing": "pirate_pack:Failing",
    "numbers": "pirate_pack:Numbers",
    "half": "pirate_pack:Half",
}


class Site:
    """A folder of installed packages, as pip leaves it."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def install(self, version="1.0", identity="a", other="None", package="pirate-pack"):
        for old in self.folder.glob("*.dist-info"):
            if old.name.startswith(package.replace("-", "_")):
                shutil.rmtree(old)
        info = self.folder / f"{package.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        points = "".join(f"{name} = {value}\n" for name, value in POINTS.items())
        (info / "entry_points.txt").write_text(f"[halo.personas]\n{points}")
        (self.folder / "pirate_pack.py").write_text(PIRATE.format(identity=identity, other=other))
        return self


@pytest.fixture
def ws(make_workspace):
    return make_workspace(
        {
            ".halo/agents/a/agent.yaml": agent(),
            ".halo/agents/a/AGENT.md": "BODY",
            ".halo/SOUL.md": "soul",
            ".halo/TOOLS.md": "tools",
            ".halo/USER.md": "USER",
            ".halo/settings.yaml": SETTINGS,
        }
    )


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path / "site").install()


def prompted(ws, site, *arguments):
    path = f"{ws.environ()['PYTHONPATH']}:{site.folder}"
    return ws.cli("prompt", "-a", "a", *arguments, PYTHONPATH=path)


def named(ws, name):
    return ws.write({".halo/settings.yaml": SETTINGS.replace("pirate", name)})


class TestReplacing:
    @pytest.mark.parametrize("name", ["pirate", "ready"])
    def test_it_replaces_what_it_answers_for_and_leaves_the_rest(self, ws, site, name):
        """A class or an object; front matter stays out; a missing file keeps its marker."""
        done = prompted(named(ws, name), site)
        assert done.returncode == 0, done.stderr
        assert (
            "# Project Context\n\n## SOUL.md\n\nArr, soul\n\n## TOOLS.md\n\ntools\n\n"
            "## GONE.md\n\n[MISSING] Expected at: .halo/GONE.md\n\n"
        ) in done.stdout
        assert "LEAK" not in done.stdout

    def test_an_empty_answer_takes_a_file_out_and_one_for_a_missing_file_puts_it_in(self, ws, site):
        site.install(other='"" if name == "TOOLS.md" else "new"')
        ws.write({".halo/settings.yaml": SETTINGS.replace("GONE", "NEW")})
        done = prompted(ws, site)
        assert "Arr, soul\n\n## NEW.md\n\nnew\n\n" in done.stdout

    def test_the_layers_show_where_the_text_comes_from(self, ws, site):
        rows = {line.split()[0]: line for line in prompted(ws, site, "--layers").stdout.splitlines() if line}
        assert "hook:halo.personas/pirate" in rows["context/SOUL.md"]
        assert "workspace:.halo/TOOLS.md" in rows["context/TOOLS.md"]

    def test_what_it_answers_is_held_to_the_caps(self, ws, site):
        site.install(other="'x' * 30000")
        done = prompted(ws, site)
        assert done.returncode == 1
        assert "hook:halo.personas/pirate: the context file TOOLS.md has 30,000 characters" in done.stderr


class TestIdentity:
    @pytest.mark.parametrize("change", [{"version": "1.1"}, {"identity": "b"}])
    def test_another_version_or_identity_makes_the_artifact_stale(self, ws, site, change):
        assert prompted(ws, site).returncode == 0
        assert prompted(ws, site, "--frozen").returncode == 0
        site.install(**change)
        stale = prompted(ws, site, "--frozen")
        assert stale.returncode == 1
        assert "hook:halo.personas/pirate changed" in stale.stderr
        assert prompted(ws, site).returncode == 0
        assert prompted(ws, site, "--frozen").returncode == 0

    def test_so_does_one_that_is_gone(self, ws, site, tmp_path):
        prompted(ws, site)
        empty = Site(tmp_path / "empty")
        assert "hook:halo.personas/pirate changed" in prompted(ws, empty, "--frozen").stderr

    def test_no_gate_answers_for_it(self, ws, site):
        """Nothing on disk that a gate could look at says whether the installed code is the same."""
        ws.cli("build", PYTHONPATH=f"{ws.environ()['PYTHONPATH']}:{site.folder}")
        assert not passes(ws.builder)
        assert not (ws.halo / "build" / "a" / "root.gate").exists()

    def test_it_is_recorded_without_a_stamp(self, ws, site, monkeypatch):
        monkeypatch.syspath_prepend(str(site.folder))
        builder = ws.builder
        builder.ensure(AgentTarget("a"))
        pointer = builder.pointers.read(AgentTarget("a"))
        (known,) = (i for i in pointer.inputs if i.path.startswith("hook:"))
        assert (known.kind, known.stamp) == ("file", None)
        assert known.digest != EXISTS
        assert check_inputs(pointer, ws.places.roots, builder.now_ns()).reason == ""


class TestMistakes:
    def test_an_unknown_one_is_answered_with_near_misses_at_its_line(self, ws, site):
        done = prompted(named(ws, "pirat"), site)
        assert done.returncode == 1
        assert done.stderr.startswith(
            "halo: workspace:.halo/settings.yaml:4: general.prompt.persona: unknown persona 'pirat'\n"
            "  did you mean 'pirate'?"
        )

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("broken", "has no text `identity` and no method `replace(name, text)`"),
            ("absent", "cannot be loaded: AttributeError"),
            ("failing", "it failed at SOUL.md: ValueError: no wind"),
            ("numbers", "its answer for SOUL.md is no text, but of type int"),
            ("half", "its answer for SOUL.md holds a lone surrogate"),
        ],
    )
    def test_one_that_does_not_work_is_an_error_that_names_it(self, ws, site, name, why):
        done = prompted(named(ws, name), site)
        assert done.returncode == 1
        assert f"halo: hook:halo.personas/{name}: this persona cannot be used: " in done.stderr
        assert why in done.stderr
        assert "Traceback" not in done.stderr

    def test_two_packages_with_one_name_are_not_guessed_between(self, ws, site):
        site.install(package="another-pack")
        done = prompted(ws, site)
        assert "more than one package offers it: another-pack, pirate-pack" in done.stderr

    def test_nothing_is_loaded_unless_settings_name_one(self, ws, site, monkeypatch):
        ws.write({".halo/settings.yaml": SETTINGS.replace("    persona: pirate\n", "")})
        (site.folder / "pirate_pack.py").write_text("raise SystemExit(9)")
        assert prompted(ws, site).returncode == 0
        monkeypatch.setattr("importlib.metadata.entry_points", None)
        ws.builder.ensure(AgentTarget("a", "sub"))

    def test_the_error_is_a_layer_error(self, ws, site, monkeypatch):
        monkeypatch.syspath_prepend(str(site.folder))
        with pytest.raises(LayerError):
            named(ws, "broken").builder.ensure(AgentTarget("a"))
