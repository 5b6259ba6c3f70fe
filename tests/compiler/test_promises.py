"""The promises of docs/explanation/artifacts.md over generated workspaces: pure, portable, traceable, free of secrets."""

import os
import re
from unittest import mock

import pytest
from generated import FEW, all_targets, workspaces
from hypothesis import given
from hypothesis import strategies as st
from making import tree

from halo.compiler.assemble import fingerprint
from halo.compiler.compile import compile_target
from halo.errors import LayerError, UnknownNameError
from halo.files.canonical import canonical_text, readable_json
from halo.files.digests import sha256
from halo.files.roots import ConfinedRoot
from halo.files.tree import DiskTree


def compile_all(source):
    """The two files of every artifact of a workspace, by target."""
    results = {}
    for target in all_targets(source):
        try:
            results[target] = compile_target(source, target)
        except UnknownNameError:
            assert target.name.startswith("scopes/")  # its file is blank
    return results


def files_of(results):
    return {t.name: (r.prompt.encode(), readable_json(r.manifest)) for t, r in results.items()}


@FEW
@given(workspaces(), st.randoms(use_true_random=False))
def test_the_order_of_files_and_of_settings_does_not_matter(files, random):
    """Pure: the same bytes for whatever order a mapping or a settings file came in."""
    shuffled = list(files.items())
    random.shuffle(shuffled)
    assert files_of(compile_all(tree(dict(shuffled)))) == files_of(compile_all(tree(files)))


@FEW
@given(files=workspaces())
def test_the_disk_and_its_order_of_listing_do_not_matter(tmp_path_factory, files):
    """Pure and portable: two directories on disk, one of them listed backwards, give the bytes of memory."""
    expected = files_of(compile_all(tree(files)))
    places = [tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")]
    for place, order in zip(places, (1, -1), strict=True):
        for path, text in list(files.items())[::order]:
            root, _, relative = path.partition(":")
            target = place / root / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="")
        roots = {
            name: str(place / name) for name in ("workspace", "global", "secrets") if (place / name).is_dir()
        }
        with mock.patch.object(ConfinedRoot, "entries", _ordered(order)):
            found = files_of(compile_all(DiskTree(roots)))
        assert found == expected
        for output in found.values():
            assert str(place).encode() not in b"".join(output)


def _ordered(order, entries=ConfinedRoot.entries):
    """The real listing, in the order of the names or backwards: what another file system might do."""
    return lambda self, rel: sorted(entries(self, rel), reverse=order < 0)


@FEW
@given(workspaces())
def test_nothing_of_this_machine_is_in_an_artifact(files):
    """Portable: no working directory, home, user or host name."""
    machine = {
        "HOME": "/home/mara-q7",
        "USER": "mara-q7",
        "LOGNAME": "mara-q7",
        "HOSTNAME": "pc-q7",
        "HALO_HOME": "/q7",
    }
    with mock.patch.dict(os.environ, machine), mock.patch("socket.gethostname", return_value="pc-q7"):
        for prompt, manifest in files_of(compile_all(tree(files))).values():
            for text in (b"q7", os.getcwd().encode()):
                assert text not in prompt + manifest


class TestTraceable:
    @FEW
    @given(workspaces())
    def test_segments_and_spans_tile_every_byte(self, files):
        """Each byte lies in exactly one span of exactly one segment."""
        for result in compile_all(tree(files)).values():
            data = result.prompt.encode()
            spans = [span for segment in result.manifest.segments for span in segment.spans]
            for parts in (result.manifest.segments, spans):
                assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])]
                assert parts[-1].end == len(data)
                assert all(part.start < part.end for part in parts)
            for segment in result.manifest.segments:
                assert (segment.spans[0].start, segment.spans[-1].end) == (segment.start, segment.end)

    @FEW
    @given(workspaces())
    def test_verbatim_spans_are_the_bytes_of_their_source_lines(self, files):
        source = tree(files)
        for result in compile_all(source).values():
            data = result.prompt.encode()
            for segment in result.manifest.segments:
                for span in segment.spans:
                    if span.verbatim:
                        text = data[span.start : span.end].decode()
                        lines = canonical_text(source.read(span.source), span.source).split("\n")
                        assert _stands_at(text.split("\n"), lines[span.line - 1 :])

    @FEW
    @given(workspaces())
    def test_derived_spans_lead_to_a_line_that_exists(self, files):
        """A roster line, a filled placeholder, a heading: each has a source to look at."""
        source = tree(files)
        for result in compile_all(source).values():
            for segment in result.manifest.segments:
                for span in segment.spans:
                    if span.source == "halo:compiler" or source.kind(span.source) == "dir":
                        continue
                    text = canonical_text(source.read(span.source), span.source)
                    assert 1 <= span.line <= max(1, text.count("\n"))

    @FEW
    @given(workspaces())
    def test_digests_and_lines_are_right(self, files):
        for result in compile_all(tree(files)).values():
            data = result.prompt.encode()
            lines = result.prompt.split("\n")
            for segment in result.manifest.segments:
                own = data[segment.start : segment.end]
                assert segment.digest == sha256(own)
                assert segment.prefix_digest == sha256(data[: segment.end])
                start = segment.start
                if start:  # the divider is a span of its own
                    start = segment.spans[0].end
                    assert data[segment.start : start] in (b"\n\n", b"\n\n---\n\n")
                text = data[start : segment.end].decode().removesuffix("\n")
                assert "\n".join(lines[segment.first_line - 1 : segment.last_line]) == text
            assert result.manifest.fingerprint == fingerprint(
                result.prompt, result.manifest.tools, result.manifest.few_shots
            )

    @FEW
    @given(workspaces())
    def test_slots_are_spans_and_hold_their_placeholder(self, files):
        """Exactly these ranges are filled, and the static prefix ends before the first."""
        for result in compile_all(tree(files)).values():
            data = result.prompt.encode()
            manifest = result.manifest
            derived = {
                (s.start, s.end) for segment in manifest.segments for s in segment.spans if not s.verbatim
            }
            for slot in manifest.slots:
                assert (slot.start, slot.end) in derived
                text = data[slot.start : slot.end].decode()
                if "$" in text:
                    assert slot.name == text
                    continue
                name = re.fullmatch(r"\{\{\s*(\S+?)\s*\}\}", text)[1]
                assert slot.name in (name, f"{manifest.target.name.removeprefix('skills/')}.{name}")
            starts = [slot.start for slot in manifest.slots]
            assert starts == sorted(set(starts))
            prefix = data[: starts[0]] if starts else data
            assert (manifest.static_prefix.bytes, manifest.static_prefix.digest) == (
                len(prefix),
                sha256(prefix),
            )
            volatile = {s.id for s in manifest.segments if any(s.start <= at < s.end for at in starts)}
            assert volatile == {s.id for s in manifest.segments if s.stability == "volatile"}


def _stands_at(text, lines):
    """Say whether `text` begins within the first of `lines` and goes on, line by line, to the last."""
    if len(text) == 1:
        return text[0] in lines[0]
    return (
        lines[0].endswith(text[0])
        and text[1:-1] == lines[1 : len(text) - 1]
        and lines[len(text) - 1].startswith(text[-1])
    )


SECRETS = st.text(
    alphabet="bcdfghjkmnpqrstvwxyzBCDFGHJKLMNPQRSTVWXYZ0123456789+/=-", min_size=12, max_size=40
)


@FEW
@given(st.data(), SECRETS)
def test_a_secret_is_in_no_output(data, secret):
    """Wherever it stands: global settings, `secrets:` blocks, declared parameters, the environment."""
    files = data.draw(workspaces(secret=secret))
    with mock.patch.dict(os.environ, {"NAME": secret}):
        for prompt, manifest in files_of(compile_all(tree(files))).values():
            assert secret.encode() not in prompt + manifest


@FEW
@given(st.data(), SECRETS)
def test_nor_in_an_error(data, secret):
    """A broken settings file is an error at its line that does not repeat the value."""
    files = data.draw(workspaces(secret=secret))
    files["secrets:settings.yaml"] = f"a:\n  params:\n    k: {secret!r}\n  nonsense: {secret!r}\n"
    files["workspace:.halo/agents/a/AGENT.md"] = "{{a.params.none}}"
    files.setdefault("workspace:.halo/agents/a/agent.yaml", "model: {provider: openai, id: m}\n")
    with pytest.raises(LayerError) as caught:
        compile_all(tree(files))
    assert (caught.value.file, caught.value.line) == ("secrets:settings.yaml", 4)
    assert secret not in str(caught.value)


@FEW
@given(workspaces())
def test_no_stray_blank_lines_between_segments(files):
    """The text of a segment has no blank edges, whatever its file had."""
    for result in compile_all(tree(files)).values():
        lines = result.prompt.split("\n")
        for segment in result.manifest.segments:
            text = "\n".join(lines[segment.first_line - 1 : segment.last_line])
            assert text == text.strip("\n")
        assert result.prompt.endswith("\n")
        assert not result.prompt.endswith("\n\n")
