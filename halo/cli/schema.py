"""`halo schema`: the JSON Schema of a YAML file, for editors."""

import click


class _Names(click.Choice[str]):
    """The names, looked up when they are needed."""

    def __init__(self) -> None:
        from halo.workspace.yaml_schemas import FILES

        super().__init__(sorted(FILES))


@click.command("schema")
@click.argument("name", type=_Names(), metavar="NAME")
def command(*, name: str) -> None:
    """Print the JSON Schema of agent.yaml, config.yaml, models/<provider>.yaml (models) or settings.yaml.

    `halo init` writes them to .halo/schemas/, and the YAML files that it makes name them for editors with a
    YAML language server.
    """
    from halo.files.canonical import readable_json
    from halo.workspace.yaml_schemas import yaml_schema

    click.echo(readable_json(yaml_schema(name)).decode(), nl=False)
