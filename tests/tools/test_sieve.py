"""grep gives the same with ripgrep as without; it only gets there sooner."""

import os
import shutil
import stat
import subprocess

import pytest
import regex
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from making import examples

from halo.files.roots import ConfinedRoot
from halo.tools import grep, sieve
from halo.tools.base import Surroundings
from halo.tools.rust_patterns import translate
from halo.tools.sieve import Sieve

RG = shutil.which("rg")
needs_rg = pytest.mark.skipif(RG is None, reason="ripgrep is not installed")


@pytest.fixture
def early(monkeypatch):
    """Ask ripgrep from the first file on, a few files at a time."""
    monkeypatch.setattr(grep, "_AT_ONCE", 0)
    monkeypatch.setattr(grep, "_BATCH_FILES", 3)


@pytest.fixture
def judged(monkeypatch):
    """What ripgrep was asked, as lists of verdicts."""
    verdicts = []
    may_match = Sieve.may_match

    def kept(self, files, seconds):
        verdicts.append(may_match(self, files, seconds))
        return verdicts[-1]

    monkeypatch.setattr(Sieve, "may_match", kept)
    return verdicts


# patterns

ATOMS = st.one_of(
    st.text(st.sampled_from("abAB01_ -./,:=<>\"'#@%&~`!;é日"), min_size=1, max_size=3).map(regex.escape),
    st.sampled_from([".", "\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "\\b", "^", "$", "\\t", "\\.", "}", "]"]),
    st.sampled_from(
        [
            "[ab]",
            "[^a]",
            "[a-z]",
            "[^\\w]",
            "[\\d.]",
            "[]a]",
            "[^]a]",
            "[a-]",
            "[-a]",
            "[é-ü]",
            "[\\s\\-]",
            "[^\\n]",
        ]
    ),
)
QUANTIFIERS = st.sampled_from(
    ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{,2}", "{0,2}?", "{1,2}"]
)


def _joined(inner):
    return st.one_of(
        st.tuples(inner, QUANTIFIERS).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        st.tuples(st.sampled_from(["(", "(?:", "(?P<n>"]), inner, st.just(")"), QUANTIFIERS).map("".join),
    )


PATTERNS = st.tuples(st.sampled_from(["", "", "", "(?i)"]), st.recursive(ATOMS, _joined, max_leaves=6)).map(
    "".join
)
LINES = st.text(
    st.sampled_from("abAB01_ -./\té日\xa0\u017f\u212a\r\0\u2028") | st.characters(codec="utf-8"), max_size=12
)
DATA = st.one_of(
    st.lists(LINES, max_size=5).map(lambda lines: "\n".join(lines).encode()),
    st.binary(max_size=20),
    st.sampled_from(
        [b"", b"\n", b"\n\n", b"a", b"\xef\xbb\xbfa\n", b"\xff\xfea\0", b"a\xffb\n", b"\r\n", b"a\r\n"]
    ),
)


@needs_rg
@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(PATTERNS, st.lists(DATA, min_size=1, max_size=7), st.integers(1, 4))
@example("^$", [b"", b"\n", b"a"], 4)
@example("a$", [b"a", b"b\na", b"a\r\n", b"a\n"], 4)
@example("(?i)k", [b"k", "\u212a".encode(), b"x"], 4)
@example(".", [b"\n", b"\0" * 600, b"\xff"], 4)
def test_equal_output_with_and_without(tmp_path_factory, early, monkeypatch, pattern, contents, most):
    _valid(pattern)
    folder = tmp_path_factory.mktemp("tree")
    for number, data in enumerate(contents):
        (folder / f"{number}.txt").write_bytes(data)
    around = Surroundings(ConfinedRoot(str(folder)), {}, lambda _skill, _arguments: None)
    arguments = {"pattern": pattern, "max_results": most}
    with_it = grep.grep(arguments, around)
    with monkeypatch.context() as without:
        without.setattr(grep, "find_program", lambda *_: None)
        assert grep.grep(arguments, around) == with_it


@needs_rg
@settings(max_examples=examples(150), deadline=None)
@given(PATTERNS, st.lists(DATA, min_size=1, max_size=30))
def test_no_file_that_matches_is_held_back(pattern, contents):
    compiled = _valid(pattern)
    likely = Sieve(RG, pattern).may_match(contents, 10)
    for data, passes in zip(contents, likely, strict=True):
        lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n") if data else []
        assert passes or not any(compiled.search(line) for line in lines)


def _valid(pattern):
    try:
        compiled = regex.compile(pattern)
    except regex.error:
        assume(False)
    assume(translate(pattern) is not None)
    return compiled


@needs_rg
@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "import",
            r"^def \w+\(",
            r"TODO|FIXME",
            r"\bclass\b",
            "(?i)error",
            r"[A-Z]{2,}_\d+",
            r"foo\(.*\)$",
            "a.b",
        ),
        *(
            r"\s+$",
            "x{3}",
            "(ab)+c",
            "(?P<year>[0-9]{4})",
            "[^,]*,[^,]*$",
            r"https?://[^\s\"']+",
            "naïve",
            "",
        ),
    ],
)
def test_common_patterns_are_sieved(pattern):
    """Each holds back a file that it does not match, where there is one."""
    files = [b"nothing here\n", b"import x\n", "naïve\n".encode(), b"abcabc 2024, x\n"]
    compiled = regex.compile(pattern)
    expected = [bool(compiled.search(data.decode().rstrip("\n"))) for data in files]
    found = Sieve(RG, pattern)
    likely = found.may_match(files, 10)
    assert found.works
    for passes, matches, data in zip(likely, expected, files, strict=True):
        assert passes == matches or (passes and not data.isascii())


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(?=a)b",
            "(?<=a)b",
            "(?!a)",
            r"(a)\1",
            "(?P<n>a)(?P=n)",
            "(?s)a.b",
            "(?x) a b",
            "a(?i)b",
            "(?>a)",
            "a*+",
        ),
        *(
            "a++",
            "(?R)",
            r"\pL",
            r"\p{L}",
            r"\X",
            r"\A",
            r"\Z",
            r"\B",
            r"\n",
            r"\x41",
            r"\u0041",
            r"\N{BULLET}",
            r"\0",
        ),
        *(
            "(?:a){e<=1}",
            "a{",
            "a{e}",
            "a{,}",
            "a{2000}",
            "^*",
            r"\b+",
            "[[:alpha:]]",
            "[a--b]",
            "[a&&b]",
            "[a||b]",
        ),
        *(
            "[[a]b]",
            "[a~~b]",
            r"[\W]",
            r"[\w-z]",
            r"[\b]",
            "(?#x)a",
            "(?|a|b)",
            "(?<n>a)",
            "(?i)é",
            "(?b)a",
            "a\nb",
        ),
        *("[\n]", "\ud800", "(?L)a", r"\m", r"\K"),
    ],
)
def test_patterns_that_only_one_side_understands_are_left_to_it(pattern):
    assert translate(pattern) is None
    assert not Sieve("rg", pattern).works


def test_no_character_is_spelt():
    """Beside the operators all that the other side reads are numbers."""
    text = translate(r"a.b\.c[x-z\]]|(d)").text
    assert text == r"\x{61}.\x{62}\x{2e}\x{63}[\x{78}-\x{7a}\x{5d}]|(?:\x{64})"


# the search


def tree(bench, count=40, text="nothing\n"):
    bench.write({f"{n:03}.txt": text for n in range(count)})


@needs_rg
def test_few_files_are_searched_at_once(bench, judged):
    tree(bench, 30)
    assert bench.text("grep", pattern="needle") == "no match for 'needle'"
    assert judged == []


@needs_rg
def test_what_it_holds_back_is_not_searched(bench, judged, monkeypatch):
    tree(bench, 600)
    bench.write({"500.txt": "needle\n", "z.txt": "needle\n"})
    searched = []
    matches = grep.Search.matches
    monkeypatch.setattr(
        grep.Search, "matches", lambda self, data, most: searched.append(data) or matches(self, data, most)
    )
    assert bench.text("grep", pattern="need.e") == "500.txt:1:needle\nz.txt:1:needle"
    assert [len(verdicts) for verdicts in judged] == [500, 69]
    assert len(searched) == 32 + 2


@needs_rg
def test_it_sees_no_file_and_no_setting(bench, early, tmp_path, monkeypatch):
    """It is started with contents on stdin alone: what names files or programs in its settings is not read."""
    config = tmp_path / "ripgreprc"
    config.write_text("--pre=/bin/false\n--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    started, fed = [], []
    run = subprocess.run

    def watched(command, **named):
        started.append((command, named))
        fed.append(named["stdin"].read())
        named["stdin"].seek(0)
        return run(command, **named)

    monkeypatch.setattr(sieve.subprocess, "run", watched)
    bench.write(
        {"a.txt": "needle\n", ".halo/settings.yaml": "needle\n", "b.bin": b"\0needle", "c.txt": "x\n"}
    )
    os.symlink(bench.secret, bench.root / "out")
    assert bench.text("grep", pattern="needle|top secret") == "a.txt:1:needle\n1 entry could not be read"
    ((command, named),) = started
    assert command[-1] == "-"
    assert not any(str(bench.root) in argument for argument in command)
    assert fed == [b"\nneedle\nx\n"]
    assert "RIPGREP_CONFIG_PATH" not in named["env"]


@needs_rg
def test_masked_files_are_not_fed_either(bench, early, judged):
    bench.write(
        {".halo/settings.yaml": "needle\n", ".halo/INDEX.md": "needle\n", ".halo/sessions/s/x": "needle\n"}
    )
    assert bench.text("grep", pattern="needle", path=".halo") == ".halo/INDEX.md:1:needle"
    assert judged == [[True]]


@needs_rg
def test_what_could_not_be_read_is_counted_up_to_the_last_match(bench, early, monkeypatch):
    """Reading ahead for ripgrep does not change the count."""
    bench.write({"a": "x\nx\n", "c": "x\n"})
    os.symlink(bench.secret, bench.root / "b")
    os.symlink(bench.secret, bench.root / "d")
    first = [bench.text("grep", pattern="x", max_results=n) for n in (1, 2, 3)]
    monkeypatch.setattr(grep, "find_program", lambda *_: None)
    assert [bench.text("grep", pattern="x", max_results=n) for n in (1, 2, 3)] == first
    assert first[0].endswith("narrow the search")
    assert first[1].endswith("1 entry could not be read")
    assert first[2].endswith("2 entries could not be read")


@needs_rg
def test_more_matches_than_it_counts(monkeypatch):
    monkeypatch.setattr(sieve, "_MATCHES", 3)
    monkeypatch.setattr(sieve, "_OPTIONS", (*sieve._OPTIONS[:-3], "--max-count=3", "--max-columns=1"))
    files = [b"y\n", b"x\nx\n", b"y\n", b"x\n", b"y\n", b"x\n"]
    assert Sieve(RG, "x").may_match(files, 10) == [False, True, False, True, True, True]


@needs_rg
def test_a_long_line_does_not_come_back():
    """Eight megabytes that match are named, not sent."""
    data = b"x" * (8 * 1024 * 1024)
    assert Sieve(RG, "x$").may_match([b"y\n", data, b"y\n"], 10) == [False, True, False]


@pytest.mark.skipif(os.name == "nt", reason="a script as a program")
@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\nexit 2\n",
        "#!/bin/sh\necho nonsense\n",
        "#!/bin/sh\nkill -9 $$\n",
        "#!/bin/sh\nexec sleep 60\n",
        "#!/nowhere\n",
    ],
)
def test_a_ripgrep_that_fails_changes_nothing(bench, early, judged, script, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "rg"
    program.parent.mkdir()
    program.write_text(script)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setattr(grep.Search, "left", 0.3)
    tree(bench, 20)
    bench.write({"015.txt": "needle\n"})
    assert bench.text("grep", pattern="needle") == "015.txt:1:needle"
    assert judged == [[True] * 3], "asked once, and then no more"


def test_verdicts_keep_their_order():
    if RG is None:
        pytest.skip("ripgrep is not installed")
    files = [b"x\n" if n % 7 == 0 else b"y" * n for n in range(100)]
    likely = Sieve(RG, "x").may_match(files, 10)
    assert [n for n, passes in enumerate(likely) if passes] == list(range(0, 100, 7))
