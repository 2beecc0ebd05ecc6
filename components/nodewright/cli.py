"""The `nodewright` command for people.

A bare group: every installed distribution adds its own commands through the entry-point group
`nodewright.commands`, so that the components need not know what else is installed.
"""

from importlib import metadata
from typing import Final

import click
from typing_extensions import override

COMMANDS: Final = "nodewright.commands"


class InstalledCommands(click.Group):
    """A group whose commands come from entry points, loaded when they are asked for."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the group's own and of the installed commands."""
        installed = {point.name for point in metadata.entry_points(group=COMMANDS)}
        return sorted(installed | set(super().list_commands(ctx)))

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command; an entry point that is not a command is an error that names it."""
        if own := super().get_command(ctx, cmd_name):
            return own
        for point in metadata.entry_points(group=COMMANDS, name=cmd_name):
            command = point.load()
            if not isinstance(command, click.Command):
                raise click.ClickException(
                    f"the entry point {COMMANDS}:{cmd_name} ({point.value}) is not a command; "
                    f"reinstall the distribution that brings it"
                )
            return command
        return None


@click.group(cls=InstalledCommands)
@click.version_option(package_name="nodewright")
def main() -> None:
    """Node autoscaling for Amazon EKS."""
