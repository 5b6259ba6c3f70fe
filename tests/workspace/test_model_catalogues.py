"""models/<provider>.yaml: which file serves, what it may say, and what of it a compile rests on."""

import json
import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import REPOSITORY, agent, tree

from halo.errors import LayerError, TreeError
from halo.files.tree import RecordingTree
from halo.models.catalogue import KNOWN_MODELS
from halo.records.artifacts import PROVIDERS, Capabilities
from halo.workspace.models.catalogue import ModelFacts, catalogue_files, read_catalogue, read_facts
from halo.workspace.models.remarks import model_remarks
from halo.workspace.parts import projection

HERE = ".halo/models/openai.yaml"
HEAD = "name: O\nmodels:\n  m:\n    as_of: 2026-01-01\n"


def catalogue(**models):
    """A catalogue of models, each with what it says besides `as_of`."""
    lines = ["name: O", "models:"]
    for name, facts in models.items():
        lines += [
            f"  {name}:",
            "    as_of: 2026-01-01",
            *(f"    {key}: {value}" for key, value in facts.items()),
        ]
    return "\n".join(lines) + "\n"


def facts(files, model="m"):
    return read_facts(tree(files), "openai", model)


def broken(text):
    """The error that a catalogue with this text is."""
    with pytest.raises(LayerError) as caught:
        facts({HERE: text})
    assert caught.value.file == f"workspace:{HERE}"
    return caught.value


SCOPES = {
    HERE: catalogue(m={"window": 1}),
    "global:models/openai.yaml": catalogue(m={"window": 2}, n={"window": 2}),
    "builtin:models/openai.yaml": catalogue(m={"window": 3}, o={"window": 3}),
}


class TestServing:
    def test_the_first_scope_that_has_the_file_serves_it_whole(self):
        assert facts(SCOPES).window == 1
        assert facts(SCOPES, "n") is None
        rest = {key: text for key, text in SCOPES.items() if key != HERE}
        assert (facts(rest).window, facts(rest, "n").window, facts(rest, "o")) == (2, 2, None)
        assert facts({"builtin:models/openai.yaml": catalogue(m={"window": 3})}).window == 3

    def test_a_provider_without_a_catalogue_is_no_error(self):
        assert facts({"builtin:models/anthropic.yaml": catalogue(m={})}) is None
        assert read_catalogue(tree({}), "openai") is None

    def test_what_stands_there_and_is_no_file_does_not_let_another_scope_answer(self, make_workspace):
        ws = make_workspace({".halo/models/x": ""})
        ws.path(HERE).symlink_to(ws.root / "nowhere")
        with pytest.raises(TreeError, match="link"):
            read_facts(ws.places.tree(), "openai", "gpt-5")


class TestSchema:
    def test_everything_that_may_be_said(self):
        text = (
            "name: O\ndefault: m\nmodels:\n  m:\n    as_of: 2026-01-02\n    name: M\n    window: 9\n"
            "    max_output: 8\n    min_cacheable: 7\n    api: responses\n"
            "    capabilities: {tools: true, images: false, thinking: true, prompt_cache: false}\n"
            "    prices:\n"
            "      - {from: 2026-01-01, currency: USD, input: 1, output: 2.5}\n"
            "      - {from: 2026-02-01, currency: EUR, input: 1, output: 2, cache_read: 0.1, cache_write: 1.25,"
            " cache_write_1h: 2}\n"
        )
        source, found = read_catalogue(tree({HERE: text}), "openai")
        assert source == f"workspace:{HERE}"
        model = found.models["m"]
        assert (model.as_of, model.name, model.window) == (date(2026, 1, 2), "M", 9)
        assert [(p.since, p.currency, p.output) for p in model.prices] == [
            (date(2026, 1, 1), "USD", 2.5),
            (date(2026, 2, 1), "EUR", 2.0),
        ]
        assert facts({HERE: text}) == ModelFacts(
            "responses", 9, 8, 7, Capabilities(tools=True, images=False, thinking=True, prompt_cache=False)
        )

    def test_what_is_not_known_is_left_out(self):
        assert facts({HERE: HEAD}) == ModelFacts()

    @pytest.mark.parametrize(
        ("text", "line", "message", "hint"),
        [
            (HEAD + "    widow: 9\n", 5, "unknown key 'widow'", "'window'"),
            (HEAD + "    window: 0\n", 5, "models.m.window: expected a whole number of at least 1", None),
            (HEAD + "    capabilities: {image: true}\n", 5, "unknown key 'image'", "'images'"),
            (
                HEAD + "    prices:\n      - {form: 2026-01-01, currency: USD, input: 1, output: 1}\n",
                6,
                "'form'",
                "'from'",
            ),
            (
                HEAD + "    prices:\n      - {from: 2026-02-30, currency: USD, input: 1, output: 1}\n",
                6,
                "from: ",
                None,
            ),
            (
                HEAD + "    prices:\n      - {from: 2026-02-20, currency: USD, input: -1, output: 1}\n",
                6,
                "input",
                None,
            ),
            (
                HEAD + "    prices:\n      - {from: 2026-02-20, currency: USD, input: .nan, output: 1}\n",
                6,
                "input",
                None,
            ),
            (
                HEAD + "    prices:\n      - {from: 2026-02-20, currency: $, input: 1, output: 1}\n",
                6,
                "currency",
                None,
            ),
            (
                "name: O\nmodels:\n  a: {as_of: 2026-01-01}\n  m:\n    window: 9\n",
                4,
                "the key 'as_of' is missing",
                None,
            ),
            ("name: O\nmodls: {}\n", 2, "unknown key 'modls'", "'models'"),
            ("name: O\nmodels: {}\ndefault: m\n", 3, "default: there is no model 'm' here", None),
            (HEAD + "  m:\n", 5, "the key 'm' stands twice", None),
            ("", 1, "expected a map", None),
        ],
    )
    def test_a_fault_is_an_error_at_its_line(self, text, line, message, hint):
        """Wherever it is in the file: half a catalogue serves nobody."""
        error = broken(text)
        assert message in error.message
        assert error.line == line
        assert hint is None or hint in error.hint

    def test_a_fault_of_another_model_is_an_error_too(self):
        assert "widow" in broken(HEAD + "  n:\n    as_of: 2026-01-01\n    widow: 9\n").message

    @given(
        names=st.lists(
            st.from_regex(r"[a-z0-9.-]{1,8}", fullmatch=True), min_size=1, max_size=9, unique=True
        ),
        data=st.data(),
    )
    def test_the_line_is_that_of_the_model_that_is_wrong(self, names, data):
        wrong = data.draw(st.sampled_from(names))
        entries = [f'  "{n}": {{as_of: 2026-01-01, window: {-1 if n == wrong else 1}}}\n' for n in names]
        error = broken("name: O\nmodels:\n" + "".join(entries))
        assert error.line == 3 + names.index(wrong)
        assert error.message.startswith(f"models.{wrong}.window")


class TestWhatACompileRestsOn:
    def inputs(self, text, model="m"):
        recording = RecordingTree(tree({HERE: text}), lambda: 0)
        read_facts(recording, "openai", model)
        return {(i.path, i.part): i.digest for i in recording.inputs()}

    TEXT = catalogue(m={"window": 9}, n={"window": 9})

    def test_the_facts_of_its_model_alone(self):
        before = self.inputs(self.TEXT)
        assert list(before) == [(f"workspace:{HERE}", "model:m")]
        assert self.inputs(catalogue(m={"window": 9}, n={"window": 8})) == before
        assert self.inputs("# news\n" + self.TEXT) == before
        assert self.inputs(catalogue(m={"window": 8}, n={"window": 9})) != before
        assert self.inputs(catalogue(n={"window": 9})) != before

    def test_not_on_its_price(self):
        prices = "[{from: 2026-01-01, currency: USD, input: 1, output: 2}]"
        assert self.inputs(catalogue(m={"window": 9, "prices": prices})) == self.inputs(
            catalogue(m={"window": 9})
        )

    def test_a_file_of_another_scope_would_be_noticed(self):
        files = {"builtin:models/openai.yaml": self.TEXT}
        recording = RecordingTree(tree(files), lambda: 0)
        read_facts(recording, "openai", "m")
        absent = [i.path for i in recording.inputs() if i.kind == "absent"]
        for path in (f"workspace:{HERE}", "global:models/openai.yaml"):
            assert any(path == gone or path.startswith(f"{gone}/") for gone in absent)

    @given(st.text(min_size=1, max_size=20) | st.just("m"))
    def test_any_id_can_be_looked_up_again(self, model):
        """The part in an input names the model, whatever it is called."""
        part = projection(f"model:{model}")(catalogue(m={"window": 9}).encode())
        assert json.loads(part or b"null") == ({"capabilities": {}, "window": 9} if model == "m" else None)

    def test_a_part_that_nobody_knows_is_an_error(self):
        with pytest.raises(KeyError):
            projection("nonsense")


class TestPackaged:
    """What comes with Halo."""

    def read(self, provider):
        data = (REPOSITORY / "templates" / "models" / f"{provider}.yaml").read_bytes()
        return read_catalogue(tree({f"builtin:models/{provider}.yaml": data}), provider)[1]

    @pytest.mark.parametrize("provider", PROVIDERS)
    def test_every_provider_has_a_catalogue_with_a_model_to_begin_with(self, provider):
        found = self.read(provider)
        assert found.default in found.models
        assert all(model.name for model in found.models.values())

    def test_every_local_model_that_is_known_by_name_is_in_it(self):
        assert set(self.read("local").models) == set(KNOWN_MODELS)

    def test_the_window_of_the_local_model_is_the_one_in_its_file(self, model_file):
        from halo.models.gguf import check

        window = self.read("local").models["smollm2-135m-instruct"].window
        assert window == check(model_file).context_length

    @pytest.mark.parametrize("provider", PROVIDERS)
    def test_figures_fit_together(self, provider):
        for model in self.read(provider).models.values():
            assert model.max_output is None or model.window is None or model.max_output <= model.window
            days = [price.since for price in model.prices]
            assert days == sorted(set(days))
            assert all(day <= model.as_of for day in days)
            for price in model.prices:
                assert price.cache_read is None or price.cache_read < price.input < price.output
                writes = [price.input, price.cache_write, price.cache_write_1h]
                known = [amount for amount in writes if amount is not None]
                assert known == sorted(known)

    def test_the_models_that_templates_and_documents_name_are_in_them(self):
        names = re.findall(
            r"provider: (\w+), id: ([\w.-]+)",
            (REPOSITORY / "templates/agents/default/agent.yaml").read_text(),
        )
        assert len(names) > 1
        for provider, model in names:
            assert model in self.read(provider).models


TWO_MODELS = {"builtin:models/openai.yaml": catalogue(m={}, mini={})}


class TestRemarks:
    def remarks(self, files):
        return [(d.code, d.source, d.line) for d in model_remarks(tree(files))]

    def test_a_model_that_no_catalogue_has(self):
        files = {
            **TWO_MODELS,
            ".halo/agents/a/agent.yaml": "model:\n  provider: openai\n  id: minni\n",
            ".halo/agents/b/agent.yaml": agent(model={"provider": "openai", "id": "m"}),
            ".halo/settings.yaml": "general:\n  models:\n    aliases:\n      x: {provider: openai, id: y}\n",
        }
        assert self.remarks(files) == [
            ("unknown-model", "workspace:.halo/agents/a/agent.yaml", 3),
            ("unknown-model", "workspace:.halo/settings.yaml", 4),
        ]
        assert "did you mean 'mini'?" in next(iter(model_remarks(tree(files)))).message

    @pytest.mark.parametrize(
        "model",
        [
            {"provider": "openai", "id": "theirs", "endpoint": "http://127.0.0.1:1/v1"},
            {"provider": "local", "id": "x/any.gguf"},
            {"provider": "anthropic", "id": "no-catalogue-at-all"},
        ],
    )
    def test_names_that_a_catalogue_cannot_have(self, model):
        assert self.remarks({**TWO_MODELS, ".halo/agents/a/agent.yaml": agent(model=model)}) == []

    def test_profiles_that_name_nobody(self):
        text = (
            "general:\n  models:\n    profiles:\n      ci:\n        default: fast\n"
            "        agents:\n          a: {provider: openai, id: m}\n          reviewr: fast\n"
        )
        files = {**TWO_MODELS, ".halo/agents/a/agent.yaml": agent(), ".halo/settings.yaml": text}
        source = "workspace:.halo/settings.yaml"
        assert self.remarks(files) == [
            ("profile-without-agent", source, 8),
            ("unknown-alias", source, 5),
            ("unknown-alias", source, 8),
        ]

    def test_catalogues_that_nothing_reads_or_can_read(self):
        files = {
            ".halo/models/opnai.yaml": catalogue(m={}),
            HERE: "name: O\nmodls: {}\n",
            ".halo/models/x": "",
        }
        assert self.remarks(files) == [
            ("broken-catalogue", f"workspace:{HERE}", 2),
            ("unread-catalogue", "workspace:.halo/models", 0),
            ("unread-catalogue", "workspace:.halo/models", 0),
        ]

    def test_a_flood_is_cut_short_and_said_so(self):
        agents = "".join(f"          a{i}: fast\n" for i in range(500))
        text = f"general:\n  models:\n    profiles:\n      ci:\n        agents:\n{agents}"
        found = list(model_remarks(tree({".halo/settings.yaml": text})))
        assert len(found) == 21
        assert found[-1].message == "and more like these"


def test_files_are_named_by_provider():
    assert catalogue_files("local") == (
        "workspace:.halo/models/local.yaml",
        "global:models/local.yaml",
        "builtin:models/local.yaml",
    )
