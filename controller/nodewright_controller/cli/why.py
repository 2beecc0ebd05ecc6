"""`nodewright why pod`: the reason that a pod has no node, in one line and as a tree."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import click

from nodewright_controller.cli.live import Said, ask_cluster
from nodewright_controller.ports.errors import KubeError
from nodewright_controller.scenario.files import FilesError, read_folder
from nodewright_controller.scenario.loading import load_world
from nodewright_controller.scenario.session import open_session
from nodewright_controller.scenario.why import NoSuchPod, PodExplanation, explain_pod
from nodewright_controller.scenario.why_text import as_tree, as_values


@click.group()
def why() -> None:
    """Say why something is as it is."""


@why.command()
@click.argument("pod")
@click.option(
    "--world",
    type=click.Path(path_type=Path),
    help="A folder of manifests to look at, instead of the running cluster.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["all", "line", "tree", "json"]),
    default="all",
    help="What to print; all is the line and the tree.",
)
def pod(pod: str, world: Path | None, output: str) -> None:
    """Say why POD (NAMESPACE/NAME) has its place, or has none.

    With --world, the manifests in a folder are evaluated as the controller would. Without it, the
    running cluster is asked (KUBECONFIG) for what the controller said last.
    """
    if world is not None:
        _print_explanation(_from_files(world, pod), output)
        return
    namespace, slash, name = pod.rpartition("/")
    try:
        said = asyncio.run(ask_cluster(namespace if slash else "default", name))
    except KubeError as error:
        raise click.ClickException(str(error)) from error
    _print_said(said, output)


def _from_files(folder: Path, pod: str) -> PodExplanation:
    try:
        loaded = load_world(read_folder(folder), datetime.now(UTC))
        session = open_session(loaded)
        explanation = explain_pod(session, pod)
    except (FilesError, NoSuchPod) as error:
        raise click.ClickException(str(error)) from error
    for warning in session.outcome.warnings:
        click.echo(f"warning: {warning}", err=True)
    return explanation


def _print_explanation(found: PodExplanation, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(as_values(found), indent=2, default=str, ensure_ascii=False))
        return
    if output in ("all", "line"):
        click.echo(found.line)
    if output == "tree" or (output == "all" and found.needs):
        for line in as_tree(found):
            click.echo(line)


def _print_said(said: Said, output: str) -> None:
    if output == "json":
        values = {"line": said.line, "since": said.since, "last": said.last, "times": said.times}
        click.echo(json.dumps(values, indent=2, ensure_ascii=False))
        return
    click.echo(said.line)
    if said.since and output != "line":
        click.echo(f"said {said.times} times since {said.since}, last {said.last}")
