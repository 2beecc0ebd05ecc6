"""The checkout's own Pulumi program, run on a laptop cluster as the stack `local`.

Works on a copy of the project's settings inside the cluster's state directory, so that nothing in
the checkout changes; the program itself is the checkout's.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nodewright_local
from nodewright_local.engine import EngineError, OnMessage, OnStep, PulumiEngine, program_from
from nodewright_local.environment import clean_environment
from nodewright_local.state import ClusterState

STACK: Final = "local"
PROGRAM: Final = "stacks"
PROJECT_FILE: Final = "Pulumi.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStack:
    """The stack `local` on one laptop cluster."""

    engine: PulumiEngine
    environ: Mapping[str, str]
    """Environment that leads kubectl, aws and pulumi to the cluster (as its administrator)."""
    project: Path
    """Folder with the copied settings."""


def find_checkout(given: Path | None = None) -> Path:
    """Return the folder that holds Pulumi.yaml and the program; raises `EngineError`.

    Without a given one: the checkout of the installed (editable) package, else the working folder.
    """
    installed = Path(nodewright_local.__file__).resolve().parents[2]
    candidates = [given.absolute()] if given else [installed, Path.cwd()]
    for folder in candidates:
        if (folder / PROJECT_FILE).is_file() and (folder / PROGRAM / "__main__.py").is_file():
            return folder
    looked = " and ".join(map(str, candidates))
    raise EngineError(
        f"no {PROJECT_FILE} beside {PROGRAM}/__main__.py in {looked}: "
        "name the checkout of Nodewright with --project-dir"
    )


def open_stack(
    state: ClusterState,
    checkout: Path,
    *,
    on_step: OnStep | None = None,
    on_message: OnMessage | None = None,
) -> LocalStack:
    """Return the stack, configured for this cluster; nothing is created yet."""
    project = _copy_project(checkout, state.pulumi_dir / "project")
    environ = clean_environment(state)
    engine = PulumiEngine(
        stack=STACK,
        program=program_from(checkout / PROGRAM),
        project_dir=project,
        environment=environ,
        on_step=on_step,
        on_message=on_message,
    )
    engine.set_config(laptop_config(state))
    return LocalStack(engine=engine, environ=environ, project=project)


def laptop_config(state: ClusterState) -> dict[str, str]:
    """Return what only this very cluster knows and the stack's file cannot say."""
    return {
        "nodewright:webhookUrl": f"https://127.0.0.1:{state.webhook_port}/convert",
        "aws:region": state.region,
    }


def output(outputs: Mapping[str, Any], name: str) -> str:
    """Return a text output of the stack; raises `EngineError` naming what there is instead."""
    value = outputs.get(name)
    if not isinstance(value, str) or not value:
        raise EngineError(
            f"the stack has no output {name!r}; it has {', '.join(sorted(outputs)) or 'none'}"
        )
    return value


def _copy_project(checkout: Path, project: Path) -> Path:
    """Copy the settings, once: Pulumi writes the stack's salt and configuration into them."""
    if project.exists():
        return project
    settings = [checkout / PROJECT_FILE, *(checkout / PROGRAM).glob("Pulumi.*.yaml")]
    for source in settings:
        target = project / source.relative_to(checkout)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return project
