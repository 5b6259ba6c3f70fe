"""Halo for programs: agents of a workspace as objects. `from halo import Agent, Workspace, tool`."""
