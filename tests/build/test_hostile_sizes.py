"""Sizes that a stranger may choose: time and memory stay bounded, and what is too much is said with its file.

Commands run in a child whose address space is limited (`hostile`); none is timed. `doit soak` takes the sizes of
`SOAK` instead.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hostile import Child, Job
from making import agent, skill, tree

from halo.files.tree import DEFAULT_LIMIT, DiskTree
from halo.workspace.directories import find_directories
from halo.workspace.skills.reading import list_resources

pytestmark = pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")

SOAK = "HALO_SOAK" in os.environ

M = 1 << 20
YAML = ".halo/agents/default/agent.yaml"
BODY = ".halo/agents/default/AGENT.md"
RULES = ".halo/INSTRUCTIONS.md"
SETTINGS = ".halo/settings.yaml"
BASE = {YAML: agent(tools=["grep"], description="d"), BODY: "x", ".halo/USER.md": "u"}
FLAT = "[" + "a," * 400_000 + "]"
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)
MERGES = "a: &a {k: 1}\n" + "".join(f"m{i}:\n  <<: [{'*a, ' * 900}]\n" for i in range(60))
CURSOR = "general: {prompt: {instruction_files: {cursor_rules: true, claude_md: true}}}\n"
MODEL = "model: {provider: openai, id: m}\n"
SHOWN = "params: [{key: k, secret: false}]\n"


def a_skill(text):
    return {YAML: agent(skills=["s"], description="d"), ".halo/skills/s/SKILL.md": text}


def params(**values):
    return json.dumps({"default": {"params": values}})


BOMB = "too large or too deep"
LARGE = f"larger than the {DEFAULT_LIMIT:,} bytes"

# name: the files, and for each command line what it says.
CASES = {
    "a flood of nodes in agent.yaml": (
        {YAML: MODEL + f"tools: {FLAT}"},
        {"prompt": BOMB, "agent list": "too large"},
    ),
    "in settings.yaml": ({SETTINGS: f"x: {FLAT}"}, {"build": BOMB, "check": "", "settings": BOMB}),
    "in config.yaml": (
        {BODY: "{{default.params.k}}", ".halo/agents/default/config.yaml": FLAT},
        {"prompt": BOMB},
    ),
    "in a catalogue": ({".halo/models/openai.yaml": FLAT}, {"prompt": BOMB}),
    "in few-shots": ({".halo/agents/default/fewshots/a.yaml": FLAT}, {"prompt": BOMB}),
    "in front matter": ({".halo/USER.md": f"---\na: {FLAT}\n---\nx"}, {"prompt": BOMB}),
    "in a skill's front matter": (
        a_skill(f"---\nname: s\ndescription: {FLAT}\n---\nx"),
        {"prompt": "", "check": ""},
    ),
    "in a rule of an editor": (
        {SETTINGS: CURSOR, ".cursor/rules/a.mdc": f"---\nglobs: {FLAT}\n---\nx"},
        {"prompt": ""},
    ),
    "a flood of keys": ({SETTINGS: "".join(f"k{i}: {{}}\n" for i in range(250_000))}, {"settings": BOMB}),
    "aliases": ({SETTINGS: LAUGHS}, {"build": BOMB, "settings": BOMB}),
    "merges": ({YAML: MODEL + MERGES}, {"prompt": BOMB}),
    "depth": ({YAML: MODEL + "tools: " + "[" * 500_000}, {"prompt": "nesting"}),
    "depth in blocks": ({SETTINGS: "- " * 500_000}, {"settings": "nesting"}),
    "a long number": (
        {BODY: "{{default.params.k}}", SETTINGS: f"default: {{params: {{k: 0x{'f' * 9_000}}}}}"},
        {"prompt": "9,002 digits"},
    ),
    "a set, whose order is another in every process": (
        {".halo/USER.md": "---\nuser_name: !!set {a, b, c}\n---\n"},
        {"prompt": "set"},
    ),
    "a key of a megabyte": (
        {YAML: agent() + '? "' + "a -" * (M // 3) + '"\n: 1\n'},
        {"prompt": "unknown key"},
    ),
    "a name of a megabyte": ({YAML: agent(team=["x" * M])}, {"prompt": "not a name"}),
    "placeholders": (
        {BODY: "{{now}} {{nope}} {{default.params.k}}\n" * 20_000, SETTINGS: params(k="v")},
        {"prompt": "nope"},
    ),
    "values that placeholders repeat": (
        {BODY: "{{default.params.k}} " * 100_000, SETTINGS: params(k="v" * 100_000)},
        {"prompt": "16,777,216 bytes"},
    ),
    "slots that repeat a template": (
        {
            BODY: "{{default.params.k}} " * 50_000,
            SETTINGS: params(k="<<NAME>>" + "v" * 9_000),
            ".halo/agents/default/config.yaml": SHOWN,
        },
        {"prompt": "16,777,216 bytes"},
    ),
    "arguments of a skill": (
        a_skill(skill("$1 " * 50_000, name="s", description="d")),
        {"build": "built   skills/s"},
    ),
    "lines": (
        {RULES: "a\n" * (2 * M - 1)},
        {"prompt": "200,000 lines", "check": "200,000 lines", "why default a": "200,000 lines"},
    ),
    "a line of 4 MiB": ({RULES: "a " * (2 * M)}, {"prompt": "", "check": ""}),
    "a byte more": ({RULES: "a " * (2 * M) + "a"}, {"prompt": LARGE, "check": LARGE}),
    "declared parameters and values": (
        {
            ".halo/agents/default/config.yaml": "params:\n"
            + "".join(f"- {{key: k{i}}}\n" for i in range(8_000)),
            SETTINGS: params(**{f"z{i}": i for i in range(20_000)}),
        },
        {"settings": "default.params.z19999"},
    ),
    "values that nobody claims": (
        {SETTINGS: json.dumps({f"nobody{i}": {"params": {"k": 1}} for i in range(3_000)})},
        {"check": "nobody2999"},
    ),
    "links of an index": (
        {".halo/INDEX.md": "".join(f"- [a](docs/{i}.md)\n" for i in range(5_000))},
        {"check": "docs/4999.md"},
    ),
    "prompts": (
        {f".halo/prompts/all/{i:05}.md": f"rule {i}" for i in range(1_000)},
        {"prompt --layers": "00999.md"},
    ),
    "other files of a skill": (
        a_skill(skill("x", name="s", description="d")) | {f".halo/skills/s/{i}.md": "" for i in range(1_000)},
        {"build": "more than 200"},
    ),
    "few-shots": (
        {f".halo/agents/default/fewshots/{i}.yaml": "- user: q\n- assistant: a\n" for i in range(500)},
        {"prompt": "more than 100"},
    ),
    "a team": (
        {YAML: agent(team=[f"a{i}" for i in range(300)])}
        | {f".halo/agents/a{i}/agent.yaml": agent() for i in range(300)},
        {"prompt": "", "agent list": "a299"},
    ),
    "skills": (
        {YAML: agent(skills=[f"s{i}" for i in range(300)])}
        | {f".halo/skills/s{i}/SKILL.md": skill("x", name=f"s{i}", description="d") for i in range(300)},
        {"prompt": "", "skill list": "s299"},
    ),
    # Regular expressions that meet the text of strangers, and what makes each of them look twice.
    "suppressions that do not end": (
        {RULES: "<!-- halo: ignore H601" + ",H601" * 150_000 + "\n"},
        {"prompt": "", "check": ""},
    ),
    "suppressions that do not begin": ({RULES: ("<!--" + " " * 1_000) * 1_000 + " halo:\n"}, {"prompt": ""}),
    "suppressions in YAML": (
        {YAML: agent() + "# halo: ignore H601" + " , H601" * 150_000 + "x\n"},
        {"check": ""},
    ),
    "names of credentials": ({RULES: "password-" * (M // 9)}, {"check": ""}),
    "assignments": ({RULES: "token token_" * (M // 12) + "token" + " " * M}, {"check": ""}),
    "halves of a web token": ({RULES: "-eyJaaaaaaaaaaaa" * (M // 16) + ".eyJ"}, {"check": ""}),
    "keys that do not end": ({RULES: "-----BEGIN " * (M // 11) + "A" * M}, {"check": ""}),
    "open placeholders": ({BODY: "{{" * (M // 2) + "{{" + " " * M + "{{a." * (M // 4)}, {"prompt": ""}),
    "a front of blank lines": ({RULES: "---\n" + " \t\n" * 20_000 + "x\n---\n"}, {"prompt": "", "check": ""}),
    "keys of a skill": (a_skill("---\nname: s\n" + "a: 'x\n\n" * 20_000 + "---\nx"), {"prompt": ""}),
    "tools of a skill": (
        a_skill(f'---\nname: s\ndescription: d\nallowed-tools: "{"(a" * 30_000}"\n---\nx'),
        {"prompt": "", "check": ""},
    ),
    "quotes in globs": (
        {SETTINGS: CURSOR, ".cursor/rules/a.mdc": "---\nglobs: a" + "'" * M + "\n---\nx"},
        {"prompt": "globs"},
    ),
    "references": (
        {SETTINGS: CURSOR, "CLAUDE.md": "@a " * 100_000 + "<!--" * 50_000 + "`a``b" * 50_000},
        {"prompt": ""},
    ),
    "hidden characters": (
        {RULES: "\u202e" * 100_000 + "\U0001f3f4\U000e0067\U000e007f" * 50_000},
        {"check": "hidden-characters"},
    ),
    "brackets of an index": (
        {".halo/INDEX.md": "[" * 10_000 + "[a](" * 5_000 + "**" * 5_000 + "<a " * 10_000},
        {"check": ""},
    ),
    "quotes of an index": (
        {".halo/INDEX.md": "> " * 50_000 + "\n\n" + (">" * 15 + "a\n") * 3_000},
        {"check": ""},
    ),
}

if SOAK:
    CASES |= {
        "20,000 prompts": (
            {f".halo/prompts/all/{i:05}.md": f"rule {i}" for i in range(20_000)},
            {"prompt": "", "check": ""},
        ),
        "20,000 files": ({f"p/{i}": "" for i in range(20_000)}, {"build": "", "check": ""}),
        "20,000 folders": (
            {f"p/{i}/x": "" for i in range(20_001)},
            {"build": "more than 20,000 directories"},
        ),
        "3,000 directories with rules": (
            {f"p/{i}/.halo/INSTRUCTIONS.md": f"r{i}" for i in range(3_000)},
            {"build": "", "check": ""},
        ),
        "5,000 agents": (
            {f".halo/agents/a{i}/agent.yaml": agent() for i in range(5_000)},
            {"agent list": "a4999", "build": "targets: 100"},
        ),
        "a team of 2,000": (
            {YAML: agent(team=[f"a{i}" for i in range(2_000)])}
            | {f".halo/agents/a{i}/agent.yaml": agent() for i in range(2_000)},
            {"prompt": "a1999"},
        ),
        "2,000 skills": (
            {YAML: agent(skills=[f"s{i}" for i in range(2_000)])}
            | {
                f".halo/skills/s{i}/SKILL.md": skill("x", name=f"s{i}", description="d") for i in range(2_000)
            },
            {"prompt": "s1999"},
        ),
        "an index of 50,000 links": (
            {".halo/INDEX.md": "".join(f"- [a](docs/{i}.md)\n" for i in range(50_000))},
            {"check": "docs/49999.md"},
        ),
        "100,000 placeholders": ({BODY: "{{now}} {{nope}}\n" * 50_000}, {"prompt": "nope", "check": "nope"}),
        "49,000 values": (
            {SETTINGS: params(**{f"z{i}": i for i in range(49_000)})},
            {"settings": "", "check": ""},
        ),
        "40,000 names that are disabled": (
            {SETTINGS: json.dumps({"general": {"disabled": {"agents": [f"x{i}" for i in range(40_000)]}}})}
            | {f".halo/agents/a{i}/agent.yaml": agent() for i in range(500)},
            {"agent list": "a499"},
        ),
    }


def write(folder: Path, files) -> tuple[Path, Path]:
    root, home = folder / "ws", folder / "user" / ".halo"
    home.mkdir(parents=True)
    for key, text in {**BASE, **files}.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root, home


GROUPS = [[*CASES][at : at + 9] for at in range(0, len(CASES), 9)]  # of cases that share a child


@pytest.mark.timeout(3600 if SOAK else 300)
@pytest.mark.parametrize("names", GROUPS, ids=" · ".join)
def test_what_is_too_much_is_said(tmp_path, names):
    with Child() as child:
        for name in names:
            files, lines = CASES[name]
            root, home = write(tmp_path / "it", files)
            for line, words in lines.items():
                said = child.run(Job(root, home, tuple(line.split())), seconds=900 if SOAK else 120)
                assert said.well, (name, said.text[-2_000:])
                assert words in said.text, (name, said.text[-2_000:])
                if said.code != 0 and said.arguments[0] not in ("check", "why"):
                    assert len(said.err) < 10_000, name  # a message, not the file
            shutil.rmtree(tmp_path / "it")


def test_a_gigabyte_is_not_read(tmp_path):
    """A sparse file of any size; what may be read is read to its last byte."""
    root, _ = write(tmp_path, {})
    disk = DiskTree({"workspace": str(root)})
    (root / "f").write_bytes(b"x" * DEFAULT_LIMIT)
    assert len(disk.read("workspace:f")) == DEFAULT_LIMIT
    for size in (DEFAULT_LIMIT + 1, 1 << 30, 1 << 40):
        os.truncate(root / "f", size)
        with pytest.raises(Exception, match="larger than"):
            disk.read("workspace:f")


@pytest.fixture
def apart():
    """A folder that is removed by what can: pytest's own way of removing folders is a recursion."""
    folder = tempfile.mkdtemp()
    yield Path(folder)
    subprocess.run(["rm", "-rf", folder], check=True, timeout=60)


def test_folders_deeper_than_descriptors(apart):
    """Each folder on the way is open during a walk: it ends, with a remark, before the system refuses."""
    root, home = write(apart, {})
    here = os.open(root, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    found = find_directories(DiskTree({"workspace": str(root)}))
    assert found.complete
    ((path, why),) = found.closed
    assert "500 folders deep" in why
    assert path.count("/d") > 400
    with Child() as child:
        built, checked = (child.run(Job(root, home, (line,))) for line in ("build", "check"))
    assert built.code == 0
    assert "500 folders deep" in built.err
    assert checked.well


def test_a_skill_of_folders_without_files_is_not_walked_to_its_end():
    """In git a tree may hold itself a thousand times over, ten deep, and take no room."""
    looks = 0
    inner = tree({f".halo/skills/s/{i}/.keep": "" for i in range(1_500)})

    class Counting:
        def list(self, path):
            nonlocal looks
            looks += 1
            return inner.list(path)

    names, more = list_resources(Counting(), "workspace:.halo/skills/s")
    assert (names, more) == ((), True)
    assert looks == 1_000


def test_a_full_address_space_is_noticed(tmp_path):
    """The bound that the cases above are held to is one."""
    root, home = write(tmp_path, {})
    (root / RULES).write_text("a " * M)
    job = Job(root, home, ("check",))
    with Child() as child:
        assert child.run(job).well
    with Child(memory=60_000_000) as child, pytest.raises(AssertionError):
        assert child.run(job).well
