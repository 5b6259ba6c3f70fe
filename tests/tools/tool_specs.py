"""The tools that the tests of tools have."""

from halo.records.tools import DRAFT, SESSION_TOOLS, STATUS, WORKSPACE_TOOLS, activate_skill

SPECS = (*WORKSPACE_TOOLS, *SESSION_TOOLS, DRAFT, STATUS, activate_skill(("notes",)))
