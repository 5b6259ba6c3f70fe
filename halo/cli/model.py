"""`halo model`: the models that run inside this process."""

import os

import click

_DEFAULT = "smollm2-135m-instruct"


@click.group("model")
def command() -> None:
    """Fetch, list and remove the small models of provider `local`.

    Any other GGUF file works too: name its path as `model.id` in agent.yaml.
    """


@command.command("pull")
@click.argument("name", default=_DEFAULT)
def pull(*, name: str) -> None:
    """Fetch model NAME (by default smollm2-135m-instruct) into the cache, verified by SHA-256."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from halo.models.catalogue import cache_dir, known_model
    from halo.models.pull import pull as fetch

    size = known_model(name).size  # a mistyped name is answered before a progress bar is drawn
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=None)
        path = fetch(
            name,
            cache_dir(os.environ),
            lambda done, total: progress.update(task, completed=done, total=total),
        )
        progress.update(task, completed=size, total=size)
    click.echo(path)


@command.command("list")
def list_() -> None:
    """List the models that are known, and whether they are here."""
    from halo.models.catalogue import cache_dir, list_models

    for model in list_models(cache_dir(os.environ)):
        where = model.path if model.present else "not pulled"
        click.echo(f"{model.name}  {model.size / 1_000_000:.0f} MB  {model.license}  {where}")


@command.command("rm")
@click.argument("name")
def remove(*, name: str) -> None:
    """Remove model NAME from the cache."""
    from halo.models.catalogue import cache_dir
    from halo.models.catalogue import remove as remove_model

    removed = remove_model(name, cache_dir(os.environ))
    click.echo(f"{name}: {'removed' if removed else 'was not there'}")
