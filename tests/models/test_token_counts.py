"""Token counts: who counts for which model, what is remembered, and how far the estimate is off."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import REPOSITORY, agent, compiled

from halo.compiler.tokens import estimate
from halo.files.digests import sha256
from halo.models.count_cache import CountCache
from halo.models.prompt_counts import count_prompt, estimate_prompt, tool_text
from halo.models.token_counts import Counts, count
from halo.models.tokenizers import find_tokenizer, load
from halo.records.artifacts import Binding

GPT = Binding("openai", "gpt-5-mini")
O200K = "o200k_base@bpe-openai-0.1.4"
HELLO = sha256(b"hello")


@pytest.fixture
def cache(tmp_path):
    return CountCache(str(tmp_path))


@pytest.fixture
def ctok_in_sight(tmp_path, monkeypatch):
    """The package ctok as far as its version goes, also where Python is too old for it."""
    metadata = tmp_path / "site" / "ctok-9.9.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: ctok\nVersion: 9.9\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(metadata.parent.parent))


def counter(provider, model):
    found = find_tokenizer(Binding(provider, model))
    return found.name if found else None


class TestWhoCounts:
    @pytest.mark.parametrize(
        ("model", "vocabulary"),
        [
            ("gpt-5", "o200k_base"),
            ("gpt-5-mini-2025-08-07", "o200k_base"),
            ("gpt-5.6-terra", "o200k_base"),
            ("gpt-4o", "o200k_base"),
            ("gpt-4.1-nano", "o200k_base"),
            ("ft:gpt-4o-mini-2024-07-18:us::x", "o200k_base"),
            ("o3-mini", "o200k_base"),
            ("gpt-4", "cl100k_base"),
            ("gpt-4-turbo", "cl100k_base"),
            ("gpt-3.5-turbo-0125", "cl100k_base"),
            ("gpt-50", None),
            ("o33", None),
            ("gpt-6", None),
            ("llama-3.3-70b", None),
            ("my-model", None),
        ],
    )
    def test_models_of_openai_by_their_stem(self, model, vocabulary):
        assert counter("openai", model) == vocabulary

    @pytest.mark.usefixtures("ctok_in_sight")
    @pytest.mark.parametrize(
        ("model", "family"),
        [
            ("claude-3-opus-20240229", "3.0"),
            ("claude-3-5-sonnet-20241022", "3.0"),
            ("claude-3-7-sonnet-latest", "3.0"),
            ("claude-opus-4-20250514", "3.0"),
            ("claude-sonnet-4-5", "3.0"),
            ("claude-haiku-4-5-20251001", "3.0"),
            ("claude-opus-4-6", "3.0"),
            ("claude-opus-4-7", "4.7"),
            ("claude-opus-4-8", "4.8"),
            ("claude-sonnet-5", "4.8"),
            ("claude-opus-5-5", "4.8"),
            ("claude-2.1", None),
            ("claude-instant-1.2", None),
            ("claude", None),
            ("claude-opus-4-8-turbo", None),
            ("my-claude-opus-4-8", None),
        ],
    )
    def test_models_of_anthropic_by_their_version(self, model, family):
        assert counter("anthropic", model) == (f"ctok claude-{family}" if family else None)

    @pytest.mark.parametrize("model", ["smollm2-135m-instruct", "gpt-5.gguf", "/m/claude-opus-4-8.gguf"])
    def test_a_model_file_is_not_loaded_to_count(self, model):
        assert counter("local", model) is None

    def test_the_same_id_means_nothing_at_another_provider(self):
        assert counter("anthropic", "gpt-5") is None
        assert counter("openai", "claude-opus-4-8") is None

    def test_a_package_that_is_not_installed_does_not_count(self, monkeypatch, cache):
        hide_packages(monkeypatch)
        assert count(["hello"], GPT, cache) == Counts("estimate", False, (2,))


def hide_packages(monkeypatch):
    """Leave nothing on the path that says which packages are installed."""
    kept = [path for path in sys.path if not path.endswith("site-packages")]
    monkeypatch.setattr(sys, "path", kept)
    with pytest.raises(ModuleNotFoundError):
        __import__("importlib.metadata").metadata.version("bpe-openai")


class TestCounting:
    def test_known_texts(self, cache):
        """The newer vocabulary has longer words of languages other than English."""
        texts = ["hello world", "", "नमस्ते, दुनिया"]
        newer = count(texts, GPT, cache)
        older = count(texts, Binding("openai", "gpt-4"), cache)
        assert (newer.tokenizer, newer.exact, newer.numbers[:2]) == ("o200k_base", True, (2, 0))
        assert (older.tokenizer, older.exact, older.numbers[:2]) == ("cl100k_base", True, (2, 0))
        assert newer.numbers[2] < older.numbers[2]

    def test_marks_of_the_protocol_in_a_text_are_text(self, cache):
        (number,) = count(["<|endoftext|>"], GPT, cache).numbers
        assert number > 1

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="ctok needs Python 3.12")
    def test_claude_without_the_frame_of_a_message(self, cache):
        """The published examples of ctok: 10, 15 and 10 tokens, of which 7, 11 and 6 are the frame."""
        for model, name, number in (
            ("claude-opus-4-5", "ctok claude-3.0", 3),
            ("claude-opus-4-7", "ctok claude-4.7", 4),
            ("claude-opus-4-8", "ctok claude-4.8", 4),
        ):
            counted = count(["hello, world", ""], Binding("anthropic", model), cache)
            assert counted == Counts(name, True, (number, 0))

    def test_what_is_too_long_is_estimated_and_so_are_the_texts_beside_it(self, cache):
        counted = count(["hello world", "a" * 1_000_000], GPT, cache)
        assert (counted.tokenizer, counted.exact) == ("estimate", False)
        assert counted.numbers == (estimate(b"hello world"), estimate(b"a" * 1_000_000))
        assert counted.note == "1,000,000 characters are too many for bpe-openai"

    def test_a_tokenizer_that_cannot_be_loaded_is_named(self, cache, monkeypatch):
        monkeypatch.setitem(sys.modules, "bpe_openai", None)
        counted = count(["hello"], GPT, cache)
        assert (counted.tokenizer, counted.numbers) == ("estimate", (estimate(b"hello"),))
        assert counted.note.startswith("bpe-openai 0.")
        assert "failed: import of bpe_openai halted" in counted.note

    def test_what_was_counted_once_needs_no_tokenizer(self, tmp_path, monkeypatch):
        first = count(["hello world"], GPT, CountCache(str(tmp_path)))
        monkeypatch.setitem(sys.modules, "bpe_openai", None)
        assert count(["hello world"], GPT, CountCache(str(tmp_path))) == first

    def test_another_version_of_the_tokenizer_counts_anew(self, tmp_path):
        identity = find_tokenizer(GPT).identity
        assert re.fullmatch(r"o200k_base@bpe-openai-[0-9.]+", identity)
        CountCache(str(tmp_path)).put(f"{identity}.post1", {HELLO: 77})
        assert count(["hello"], GPT, CountCache(str(tmp_path))).numbers == (1,)

    def test_a_cache_that_cannot_be_kept_costs_nothing_but_time(self, tmp_path):
        (tmp_path / "file").write_text("")
        for place in (tmp_path / "file", tmp_path / "file" / "below"):
            assert count(["hello world"], GPT, CountCache(str(place))).numbers == (2,)


class TestCache:
    def test_it_outlives_its_process_and_is_private(self, tmp_path):
        CountCache(str(tmp_path / "new")).put(O200K, {HELLO: 1})
        CountCache(str(tmp_path / "new")).put(O200K, {sha256(b"more"): 2})
        again = CountCache(str(tmp_path / "new"))
        assert again.get(O200K, [HELLO, sha256(b"more"), sha256(b"other")]) == {HELLO: 1, sha256(b"more"): 2}
        assert again.get("cl100k_base@bpe-openai-0.1.4", [HELLO]) == {}
        if os.name == "posix":
            assert (tmp_path / "new" / "tokens.txt").stat().st_mode & 0o777 == 0o600

    def test_cut_anywhere_it_loses_what_is_cut_and_takes_new_counts(self, tmp_path):
        digests = [sha256(bytes([n])) for n in range(3)]
        for n, digest in enumerate(digests):
            CountCache(str(tmp_path)).put(O200K, {digest: n * 1000 + 7})
        whole = (tmp_path / "tokens.txt").read_bytes()
        for end in range(len(whole)):
            (tmp_path / "tokens.txt").write_bytes(whole[:end])
            CountCache(str(tmp_path)).put(O200K, {HELLO: 5})
            found = CountCache(str(tmp_path)).get(O200K, [*digests, HELLO])
            kept = [n for n, check in enumerate(whole.split()[3::4]) if check in whole[:end]]
            assert found == {**{digests[n]: n * 1000 + 7 for n in kept}, HELLO: 5}

    @given(st.binary(max_size=400), st.integers(0, 200), st.binary(min_size=1, max_size=4))
    def test_no_damage_makes_a_wrong_number(self, tmp_path_factory, junk, place, new):
        folder = tmp_path_factory.mktemp("cache")
        CountCache(str(folder)).put(O200K, {HELLO: 1204})
        data = (folder / "tokens.txt").read_bytes()
        place %= len(data)
        (folder / "tokens.txt").write_bytes(junk + data[:place] + new + data[place + len(new) :])
        cache = CountCache(str(folder))
        assert cache.get(O200K, [HELLO]) in ({}, {HELLO: 1204})
        cache.put(O200K, {HELLO: 1204})
        assert CountCache(str(folder)).get(O200K, [HELLO]) == {HELLO: 1204}

    def test_it_stays_small_and_keeps_the_newest(self, tmp_path):
        digests = [sha256(str(n).encode()) for n in range(400)]
        for n, digest in enumerate(digests):
            CountCache(str(tmp_path), limit=10_000).put(O200K, {digest: n})
            assert (tmp_path / "tokens.txt").stat().st_size <= 10_000
        found = CountCache(str(tmp_path), limit=10_000).get(O200K, digests)
        assert found == {d: n for n, d in enumerate(digests) if n >= 400 - len(found)}
        assert len(found) > 30

    @pytest.mark.skipif(os.name != "posix", reason="links need privileges elsewhere")
    def test_a_link_in_its_place_is_neither_read_nor_written_through(self, tmp_path):
        CountCache(str(tmp_path / "theirs")).put(O200K, {HELLO: 66})
        before = (tmp_path / "theirs" / "tokens.txt").read_bytes()
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "tokens.txt").symlink_to(tmp_path / "theirs" / "tokens.txt")
        cache = CountCache(str(tmp_path / "mine"))
        assert cache.get(O200K, [HELLO]) == {}
        cache.put(O200K, {HELLO: 1})
        assert CountCache(str(tmp_path / "mine")).get(O200K, [HELLO]) == {HELLO: 1}
        assert (tmp_path / "theirs" / "tokens.txt").read_bytes() == before

    def test_a_flood_is_replaced_not_read(self, tmp_path):
        with open(tmp_path / "tokens.txt", "wb") as file:
            file.truncate(1 << 30)  # sparse
        CountCache(str(tmp_path)).put(O200K, {HELLO: 1})
        assert (tmp_path / "tokens.txt").stat().st_size < 1000
        assert CountCache(str(tmp_path)).get(O200K, [HELLO]) == {HELLO: 1}

    def test_processes_that_write_at_once_lose_nothing(self, tmp_path):
        code = (
            "import sys\nfrom halo.files.digests import sha256\nfrom halo.models.count_cache import CountCache\n"
            "name, folder = sys.argv[1:]\n"
            "for n in range(300):\n"
            "    CountCache(folder).put('t@1', {sha256(f'{name} {n}'.encode()): n})\n"
        )
        environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        names = ("a", "b", "c")
        writers = [
            subprocess.Popen([sys.executable, "-c", code, name, str(tmp_path)], env=environ) for name in names
        ]
        assert [writer.wait(120) for writer in writers] == [0, 0, 0]
        digests = {sha256(f"{name} {n}".encode()): n for name in names for n in range(300)}
        assert CountCache(str(tmp_path)).get("t@1", digests) == digests


FILES = {
    ".halo/agents/a/agent.yaml": agent(
        model={"provider": "openai", "id": "gpt-5-mini"}, tools=["grep", "file_read"]
    ),
    ".halo/agents/a/AGENT.md": "You keep the tide tables of naïve 漢字 sailors.\n\nIt is {{now}}.",
    ".halo/agents/a/fewshots/tides.yaml": "- user: When is high water?\n- assistant: At 12:40.\n",
    ".halo/INSTRUCTIONS.md": "# Rules\n\n- Be brief.\n\n```sh\nls -l\n```\n",
    ".halo/USER.md": "Mira.",
}


class TestPrompts:
    def test_the_rows_add_up_to_the_tokens_of_the_whole_text(self, cache):
        """Segments one by one have more: a tokenizer joins a full stop with the line breaks behind it."""
        prompt, manifest = (made := compiled(FILES)).prompt, made.manifest
        counts = count_prompt(prompt, manifest, cache)
        number = load(find_tokenizer(GPT))
        assert (counts.tokenizer, counts.exact) == ("o200k_base", True)
        assert sum(counts.segments) == number(prompt)
        data = prompt.encode()
        alone = [number(data[s.start : s.end].decode()) for s in manifest.segments]
        assert sum(alone) > sum(counts.segments)
        assert all(abs(a - b) <= 2 for a, b in zip(alone, counts.segments, strict=True))
        assert counts.static_prefix == number(prompt[: prompt.index("{{now}}")])
        assert counts.few_shots == (number("When is high water?"), number("At 12:40."))
        assert counts.tools == number(tool_text(manifest)) > 50
        assert counts.total == sum(counts.segments) + sum(counts.few_shots) + counts.tools

    def test_the_whole_in_one_number(self, cache):
        made = compiled(FILES)
        parts = count_prompt(made.prompt, made.manifest, cache)
        whole = count_prompt(made.prompt, made.manifest, cache, parts=False)
        assert whole.segments == (sum(parts.segments),)
        assert whole.total == parts.total

    def test_the_manifest_has_estimates_whatever_is_installed(self, cache):
        made = compiled(FILES)
        before = made.manifest
        counts = count_prompt(made.prompt, before, cache)
        assert compiled(FILES).manifest == before
        estimates = estimate_prompt(made.prompt, before)
        assert estimates.segments == tuple(s.tokens for s in before.segments) != counts.segments
        assert estimates.tools == estimate(tool_text(before).encode())
        assert (estimates.tokenizer, estimates.exact) == ("estimate", False)

    def test_who_counted_is_said_with_the_figure(self, cache):
        made = compiled(FILES)
        counts = count_prompt(made.prompt, made.manifest, cache)
        assert counts.label == f"{counts.total:,} tokens (o200k_base)"
        estimates = estimate_prompt(made.prompt, made.manifest)
        assert estimates.label == f"about {estimates.total:,} tokens (estimate)"

    def test_tools_that_the_prompt_describes_are_not_counted_twice(self, cache):
        yaml = agent(model={"provider": "openai", "id": "gpt-5", "tool_mode": "schema"}, tools=["grep"])
        made = compiled({**FILES, ".halo/agents/a/agent.yaml": yaml})
        assert made.manifest.tools
        assert count_prompt(made.prompt, made.manifest, cache).tools == 0

    def test_what_only_the_access_of_a_tool_decides_is_not_sent(self):
        assert '"access"' not in tool_text(compiled(FILES).manifest)

    @given(texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=40), min_size=1, max_size=4))
    def test_rows_add_up_whatever_stands_at_the_seams(self, tmp_path_factory, texts):
        yaml = agent(model={"provider": "openai", "id": "gpt-5"})
        layers = {f".halo/prompts/all/{n}.md": text.replace("\0", "") for n, text in enumerate(texts)}
        made = compiled({".halo/agents/a/agent.yaml": yaml, ".halo/agents/a/AGENT.md": "BODY", **layers})
        cache = CountCache(str(tmp_path_factory.mktemp("cache")))
        counts = count_prompt(made.prompt, made.manifest, cache)
        assert sum(counts.segments) == load(find_tokenizer(GPT))(made.prompt)


def without_fences(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


SAMPLES = {
    "English prose": [
        without_fences(page.read_text("utf-8")) for page in (REPOSITORY / "docs/explanation").glob("*.md")
    ],
    "Markdown": [page.read_text("utf-8") for page in (REPOSITORY / "docs/reference").glob("*.md")],
    "Python": [page.read_text("utf-8") for page in (REPOSITORY / "halo").rglob("*.py")],
    "JSON": [page.read_text("utf-8") for page in (REPOSITORY / "docs/schemas").glob("*.json")],
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_estimate_is_near_and_is_called_one(kind, cache):
    text = "\n".join(SAMPLES[kind])[:400_000]
    assert len(text) > 5000
    exact = count([text], GPT, cache)
    guess = count([text], Binding("local", "smollm2-135m-instruct"), cache)
    assert (exact.tokenizer, guess.tokenizer) == ("o200k_base", "estimate")
    assert exact.exact
    assert not guess.exact
    assert 0.65 < guess.numbers[0] / exact.numbers[0] < 1.35


def test_a_warm_cache_imports_no_tokenizer(tmp_path):
    code = (
        "import sys\n"
        "from halo.models.count_cache import CountCache\nfrom halo.models.token_counts import count\n"
        "from halo.records.artifacts import Binding\n"
        f"counts = count(['hello world'], Binding('openai', 'gpt-5'), CountCache({str(tmp_path)!r}))\n"
        "print(counts.numbers[0], 'bpe_openai' in sys.modules)\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    said = [
        subprocess.run(
            [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert said == [["2", "True"], ["2", "False"]]
    assert Path(tmp_path, "tokens.txt").read_bytes().count(b"o200k_base@bpe-openai-") == 1
