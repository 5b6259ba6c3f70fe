"""Which adapter speaks for a binding, and what stops it before it begins."""

import asyncio
import subprocess
import sys

import pytest
from test_gguf import small

from halo.errors import MissingKeyError, ModelFileError, StartError, UnknownNameError
from halo.models.opening import open_adapter
from halo.models.schema_calls import SchemaCalls
from halo.records.artifacts import Binding


def opened(
    provider, endpoint="", *, model="m", key=None, trusted=False, tool_mode="native", cache="/nowhere"
):
    adapter = open_adapter(
        Binding(provider, model, endpoint),
        tool_mode=tool_mode,
        key=key,
        trusted=trusted,
        context_tokens=512,
        cache=cache,
        base_dir="/",
    )
    asyncio.run(adapter.close())
    return adapter


def test_each_provider_has_its_adapter(tmp_path):
    (tmp_path / "m.gguf").write_bytes(small())
    assert opened("local", model=str(tmp_path / "m.gguf"), cache=str(tmp_path)).provider == "local"
    assert opened("openai", key="k").provider == "openai"
    assert opened("anthropic", key="k").provider == "anthropic"
    assert opened("openai", "http://127.0.0.1:1/").endpoint == "http://127.0.0.1:1/v1"


def test_tool_mode_schema_wraps_any_of_them():
    adapter = opened("anthropic", key="k", tool_mode="schema")
    assert isinstance(adapter, SchemaCalls)
    assert adapter.provider == "anthropic"


@pytest.mark.parametrize(
    ("provider", "variable"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")]
)
def test_a_missing_key_names_the_setting_and_the_variable(provider, variable):
    with pytest.raises(MissingKeyError) as error:
        opened(provider)
    assert f"{provider}.secrets.api_key" in str(error.value)
    assert variable in str(error.value)


def test_loopback_and_trusted_servers_need_no_key():
    opened("openai", "http://localhost:8080/v1")
    opened("openai", "https://llm.example.com/v1", trusted=True)


@pytest.mark.parametrize("key", [None, "sk-secret"])
def test_other_endpoints_need_trust(key):
    with pytest.raises(StartError) as error:
        opened("openai", "https://llm.example.com/v1", key=key)
    assert "halo trust" in str(error.value)
    assert "sk-secret" not in str(error.value)


def test_a_damaged_or_missing_model_is_told_before_a_turn_begins(tmp_path):
    path = tmp_path / "m.gguf"
    with pytest.raises(ModelFileError, match="no such model file"):
        opened("local", model=str(path))
    path.write_bytes(small()[:-1])
    with pytest.raises(ModelFileError, match="cut short"):
        opened("local", model=str(path))


def test_unknown_providers_and_odd_endpoints():
    with pytest.raises(UnknownNameError) as error:
        opened("antropic")
    assert "anthropic" in str(error.value)
    with pytest.raises(StartError, match="no endpoint"):
        opened("local", "http://127.0.0.1:8080")
    with pytest.raises(StartError, match="plain http"):
        opened("openai", "localhost:8080")


def test_opening_imports_no_client():
    code = (
        "import sys, halo.models.opening, halo.models.pull, halo.models.gguf, halo.models.adapter\n"
        "heavy = {'openai', 'anthropic', 'httpx2', 'xllamacpp', 'jiter'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "import halo.models.adapter\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    light = "import sys, halo.models.adapter, halo.models.catalogue; assert 'asyncio' not in sys.modules"
    subprocess.run([sys.executable, "-c", light], check=True)
