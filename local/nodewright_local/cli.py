"""The command group `nodewright local`.

Decides what a person types and reads; the work is `lifecycle.py`'s and `toolbox.py`'s.
"""

import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from nodewright_local import lifecycle
from nodewright_local.control_plane import PROCESS_NAMES
from nodewright_local.environment import render_exports
from nodewright_local.progress import ConsoleProgress
from nodewright_local.runtime import Phase, ProcessStatus, Runtime, load_runtime
from nodewright_local.state import ClusterState, StateError, state_directory
from nodewright_local.toolbox import ToolError, all_tools, ensure

WIDEST = 400

P = ParamSpec("P")
R = TypeVar("R")

_COLOURS = {
    Phase.READY: "green",
    Phase.STARTING: "yellow",
    Phase.RESTARTING: "red",
    Phase.FAILED: "red",
}

_dir_option = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="State directory  [default: $NODEWRIGHT_LOCAL_DIR or ~/.local/state/nodewright/local]",
)


def _plain_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the errors a person can act on into one message without a traceback."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (lifecycle.LifecycleError, ToolError, StateError) as error:
            raise click.ClickException(str(error)) from error

    return wrapper


def _directory(chosen: Path | None) -> Path:
    return chosen.expanduser().absolute() if chosen else state_directory()


@click.group()
def local() -> None:
    """Run a real Kubernetes control plane and an AWS stand-in on this machine."""


@local.command()
@_dir_option
@click.option("--foreground", is_flag=True, help="Stay, and take the cluster down on Ctrl-C.")
@click.option(
    "--only",
    hidden=True,
    default="",
    help=f"Comma-separated processes to start, of: {', '.join(PROCESS_NAMES)}",
)
@_plain_errors
def up(directory: Path | None, foreground: bool, only: str) -> None:
    """Start the cluster and wait until it is ready."""
    chosen = tuple(name for name in only.split(",") if name)
    if unknown := set(chosen) - set(PROCESS_NAMES):
        raise click.BadParameter(
            f"no such process: {', '.join(sorted(unknown))}; there are {', '.join(PROCESS_NAMES)}",
            param_hint="--only",
        )
    begun = time.monotonic()
    options = lifecycle.UpOptions(only=chosen, foreground=foreground)
    result = lifecycle.up(_directory(directory), ConsoleProgress(), options)
    if foreground and not result.was_running:
        return
    if result.was_running:
        click.echo("The laptop cluster is already running.")
    else:
        click.echo(f"The laptop cluster is up after {time.monotonic() - begun:.1f} s.")
    click.echo(_addresses(result.state))
    click.echo('Use it from a shell:  eval "$(nodewright local env)"')


@local.command()
@_dir_option
@click.option("--keep-data", is_flag=True, help="Let the next `up` continue with the same data.")
@_plain_errors
def down(directory: Path | None, keep_data: bool) -> None:
    """Stop what `up` started and remove its data; the logs stay."""
    chosen = _directory(directory)
    result = lifecycle.down(chosen, ConsoleProgress(), keep_data=keep_data)
    if not result.ended and not result.removed_data:
        click.echo("The laptop cluster is not running.")
        return
    kept = "Its data and logs are" if keep_data else "Its data is removed; its logs are"
    click.echo(f"The laptop cluster is down. {kept} in {chosen}.")


@local.command()
@_dir_option
@_plain_errors
def status(directory: Path | None) -> None:
    """Show the processes, their logs and the addresses; exit 1 when not all is ready."""
    chosen = _directory(directory)
    runtime = load_runtime(chosen)
    if runtime is None:
        raise click.ClickException(
            f"no laptop cluster runs in {chosen}; start one with `nodewright local up`"
        )
    _print_table(_table(runtime))
    click.echo(_addresses(ClusterState.load(chosen)))
    if not runtime.is_supervised():
        raise click.ClickException(
            "its supervisor is gone; `nodewright local up` clears up and starts anew"
        )
    sys.exit(0 if runtime.is_ready() else 1)


@local.command()
@_dir_option
@click.option("--path", "only_path", is_flag=True, help="Print the file's path instead.")
@_plain_errors
def kubeconfig(directory: Path | None, only_path: bool) -> None:
    """Print the administrator's kubeconfig."""
    state = ClusterState.load(_directory(directory))
    text = str(state.admin_kubeconfig) if only_path else state.admin_kubeconfig.read_text("utf-8")
    click.echo(text.rstrip("\n"))


@local.command()
@_dir_option
@_plain_errors
def env(directory: Path | None) -> None:
    """Print shell exports that lead kubectl, AWS tools and Pulumi to the cluster."""
    click.echo(render_exports(ClusterState.load(_directory(directory))))


@local.command()
@_plain_errors
def tools() -> None:
    """Find every binary the cluster and Pulumi need, and build what is missing."""
    binaries = ensure(all_tools(), ConsoleProgress())
    table = _borderless("binary", "version", "from", "path")
    for binary in binaries.values():
        table.add_row(binary.name, binary.version, binary.source.value, str(binary.path))
    _print_table(table)


@local.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="State directory of the demo  [default: ~/.local/state/nodewright/demo]",
)
@click.option(
    "--project-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=None,
    help="Checkout with Pulumi.yaml  [default: the one this command is installed from]",
)
@click.option("--keep", is_flag=True, help="Stop when the node is there, and leave all running.")
@_plain_errors
def demo(directory: Path | None, project_dir: Path | None, keep: bool) -> None:
    """Show the main job on a cluster of its own, from `pulumi up` to `destroy`."""
    # Pulumi's SDK takes a second to import, and no other command needs it.
    from nodewright_local.demo.main import demo_directory, run_demo
    from nodewright_local.engine import EngineError

    chosen = directory.expanduser().absolute() if directory else demo_directory()
    try:
        sys.exit(run_demo(chosen, project=project_dir, keep=keep))
    except EngineError as error:
        raise click.ClickException(str(error)) from error


def _addresses(state: ClusterState) -> str:
    rows = {
        "Kubernetes API": state.api_server_url,
        "AWS endpoint": f"{state.aws_url} (account {state.account_id}, {state.region})",
        "kubeconfig": str(state.admin_kubeconfig),
        "logs": str(state.logs_dir),
    }
    return "\n".join(f"{name + ':':<16}{value}" for name, value in rows.items())


def _borderless(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for header in headers:
        table.add_column(header, no_wrap=True)
    return table


def _print_table(table: Table) -> None:
    """Print a table at its full width: a path that is cut off helps nobody."""
    console = Console()
    needed = Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum
    console.width = max(console.width, needed)
    console.print(table, soft_wrap=True)


def _table(runtime: Runtime) -> Table:
    table = _borderless("process", "pid", "state", "up", "restarts", "version", "log")
    for row in runtime.processes:
        table.add_row(*_cells(row))
    return table


def _cells(row: ProcessStatus) -> tuple[Any, ...]:
    alive = row.identity is not None and row.identity.is_alive()
    claims_life = row.phase in (Phase.READY, Phase.STARTING)
    state = "dead" if claims_life and not alive else row.phase.value
    colour = "red" if state == "dead" else _COLOURS.get(row.phase, "white")
    shown = f"[{colour}]{state}[/{colour}]" + (f" ({row.detail})" if row.detail else "")
    since = time.time() - row.started_at if alive and row.started_at else None
    return (
        row.name,
        str(row.identity.pid) if row.identity and alive else "-",
        shown,
        duration(since) if since is not None else "-",
        str(row.restarts),
        row.version,
        row.log_file,
    )


def duration(seconds: float) -> str:
    """Return a span as a person reads it: 42s, 3m05s, 2h07m."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
