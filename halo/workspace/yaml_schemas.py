"""JSON Schema of the YAML files that people write, for their editors."""

from typing import Any

import msgspec

from halo.records.artifacts import PROVIDERS
from halo.records.tools import LISTABLE_TOOLS
from halo.workspace.agents import AgentConfig
from halo.workspace.models.catalogue import Catalogue
from halo.workspace.settings.general import General
from halo.workspace.settings.params import ParamConfig

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

# name -> the file that it describes.
FILES = {
    "agent": "agents/<id>/agent.yaml",
    "config": "config.yaml of a skill or an agent",
    "models": "models/<provider>.yaml",
    "settings": "settings.yaml",
}


def yaml_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a file; `name` is a key of `FILES`."""
    kinds: dict[str, Any] = {
        "agent": AgentConfig,
        "config": ParamConfig,
        "models": Catalogue,
        "settings": General,
    }
    (schema,), components = msgspec.json.schema_components([kinds[name]], ref_template="#/$defs/{name}")
    if name == "settings":
        schema = _settings(schema)
    if name == "agent":
        properties = components["AgentConfig"]["properties"]
        properties["tools"]["items"] = {"enum": sorted(LISTABLE_TOOLS)}
    if "ModelConfig" in components:
        components["ModelConfig"]["properties"]["provider"]["enum"] = list(PROVIDERS)
    return {"$schema": _DIALECT, "title": FILES[name], **schema, "$defs": components}


def _settings(general: dict[str, Any]) -> dict[str, Any]:
    """Describe the top level: `general`, and an id for every agent, skill and provider with values."""
    values = {"type": ["object", "null"]}
    return {
        "type": ["object", "null"],
        "properties": {"general": general},
        "additionalProperties": {
            "type": ["object", "null"],
            "properties": {
                "params": {**values, "description": "values that texts may refer to"},
                "secrets": {**values, "description": "values for Halo itself, which no text can refer to"},
            },
            "additionalProperties": False,
        },
    }
