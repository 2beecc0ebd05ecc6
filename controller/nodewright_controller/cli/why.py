"""`nodewright why pod|type`: how it stands with a pod, why a node is of its type; line and tree.

A running cluster is asked through its controller; a world in files, through the same functions. What
a code means (`why code`) is told without any cluster, by `cli.why_code`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec
from lightkube.core.exceptions import ConfigError

from nodewright_controller.cli.asking import (
    LEASE,
    NAMESPACES,
    CannotAsk,
    NoSuchSubject,
    Where,
    ask_controller,
)
from nodewright_controller.cli.live import Said, last_event
from nodewright_controller.cli.why_code import code
from nodewright_controller.kube.client import KubeClient
from nodewright_controller.ports.errors import KubeError
from nodewright_controller.scenario import why as in_files
from nodewright_controller.scenario.files import FilesError, read_folder
from nodewright_controller.scenario.loading import load_world
from nodewright_controller.scenario.session import Session, open_session
from nodewright_controller.scheduling.explanations import (
    Explanation,
    PodExplanation,
    TypeExplanation,
)
from nodewright_controller.scheduling.why_text import as_tree

T = TypeVar("T")
_Command = Callable[..., None]

_OPTIONS: Final = (
    click.option(
        "--world",
        type=click.Path(path_type=Path),
        help="A folder of manifests to look at, instead of the running cluster.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Choice(["all", "line", "tree", "json"]),
        default="all",
        help="What to print; all is the line and the tree.",
    ),
    click.option(
        "--controller-namespace",
        "namespace",
        default="",
        help=f"Where the controller runs; found by its lease in {' or '.join(NAMESPACES)}.",
    ),
    click.option("--lease", default=LEASE, show_default=True, help="Name of the leader's lease."),
    click.option("--port", default=8080, show_default=True, help="The controller's metrics port."),
)


def _options(command: _Command) -> _Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group()
def why() -> None:
    """Say why something is as it is."""


@why.command()
@click.argument("pod")
@_options
def pod(pod: str, world: Path | None, output: str, **where: Any) -> None:
    """Say why POD (NAMESPACE/NAME) has its place, or has none.

    The controller of the running cluster (KUBECONFIG) is asked, through the API server; where it
    cannot be, its last event is shown. With --world, the manifests in a folder are evaluated as the
    controller would.
    """
    if world is not None:
        _print(_from_files(world, lambda session: in_files.explain_pod(session, pod)), output)
        return
    namespace, slash, name = pod.rpartition("/")
    found = _run(_pod(namespace if slash else "default", name, Where(**where)))
    if isinstance(found, Said):
        _print_said(found, output)
    else:
        _print(found, output)


async def _pod(namespace: str, name: str, where: Where) -> PodExplanation | Said:
    async with _connect() as kube:
        try:
            return await ask_controller(kube, where, "pod", f"{namespace}/{name}", PodExplanation)
        except CannotAsk as error:
            click.echo(f"the controller cannot be asked, these are its events: {error}", err=True)
            return await last_event(kube, namespace, name)


@why.command("type")
@click.argument("nodeclaim")
@_options
def type_(nodeclaim: str, world: Path | None, output: str, **where: Any) -> None:
    """Say why NODECLAIM is, or will be, of its instance type, and what that costs.

    With --world, NODECLAIM may also be one that the next round makes, by the name that
    `nodewright scenario run` shows.
    """
    name = nodeclaim.rpartition("/")[2]
    if world is not None:
        _print(_from_files(world, lambda session: in_files.explain_claim(session, name)), output)
        return
    _print(_run(_type(name, Where(**where))), output)


why.add_command(type_, "claim")
why.add_command(code)


async def _type(name: str, where: Where) -> TypeExplanation:
    async with _connect() as kube:
        return await ask_controller(kube, where, "nodeclaim", name, TypeExplanation)


def _connect() -> KubeClient:
    try:
        return KubeClient.from_environment()
    except ConfigError as error:
        raise KubeError(f"{error}: name a kubeconfig in KUBECONFIG, or use --world") from error


def _run(question: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(question)
    except CannotAsk as error:
        raise click.ClickException(f"the controller cannot be asked: {error}") from error
    except (KubeError, NoSuchSubject) as error:
        raise click.ClickException(str(error)) from error


def _from_files(folder: Path, explain: Callable[[Session], T]) -> T:
    try:
        session = open_session(load_world(read_folder(folder), datetime.now(UTC)))
        explanation = explain(session)
    except (FilesError, in_files.NoSuchSubject) as error:
        raise click.ClickException(str(error)) from error
    for warning in session.outcome.warnings:
        click.echo(f"warning: {warning}", err=True)
    return explanation


def _print(found: Explanation, output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
        return
    if output in ("all", "line"):
        click.echo(found.line)
    if output == "tree" or (output == "all" and _has_tree(found)):
        for line in as_tree(found):
            click.echo(line)


def _has_tree(found: Explanation) -> bool:
    """Whether the tree says more than the line does."""
    return isinstance(found, TypeExplanation) or bool(found.needs or found.since)


def _print_said(said: Said, output: str) -> None:
    if output == "json":
        values = {"line": said.line, "since": said.since, "last": said.last, "times": said.times}
        click.echo(json.dumps(values, indent=2, ensure_ascii=False))
        return
    click.echo(said.line)
    if said.since and output != "line":
        click.echo(f"said {said.times} times since {said.since}, last {said.last}")
