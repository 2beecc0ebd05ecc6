"""`nodewright scenario run|check`: worlds in files, taken through the controller's decisions."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

import click

from nodewright_controller.scenario.cases import Checked, case_folders, check_case, run_folder
from nodewright_controller.scenario.compare import Difference
from nodewright_controller.scenario.files import FilesError
from nodewright_controller.scenario.report import as_lines, as_words

_FOLDER = click.Path(path_type=Path)


@click.group()
def scenario() -> None:
    """Take a world given as files through the controller's real decisions."""


@scenario.command()
@click.argument("folder", type=_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="Print JSON in the words of the vocabulary.")
def run(folder: Path, as_json: bool) -> None:
    """Run the scenario in FOLDER and print what happened."""
    try:
        outcome = run_folder(folder)
    except FilesError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps(as_words(outcome), indent=2, default=str))
        return
    for line in as_lines(outcome):
        click.echo(line)


@scenario.command()
@click.argument("folders", type=_FOLDER, nargs=-1, required=True)
@click.option("--traceback", "with_traceback", is_flag=True, help="Show where a case broke down.")
def check(folders: tuple[Path, ...], with_traceback: bool) -> None:
    """Compare what happens in each FOLDER with its expected.md.

    A folder without an input.yaml stands for the cases in it. Files beside the folders, such as a
    README that a shell's pattern matched, are passed over. Exits 1 if any case failed.
    """
    passed = failed = 0
    given = [folder for folder in folders if not folder.is_file()]
    if given:
        for path in folders:
            if path.is_file():
                click.echo(f"passed over {path}: a case is a folder", err=True)
    for folder in [case for one in given or folders for case in case_folders(one)]:
        checked = _check(folder, with_traceback)
        click.echo(checked.line)
        if checked.passed:
            passed += 1
        else:
            failed += 1
    click.echo(f"{passed} passed, {failed} failed")
    if failed:
        raise SystemExit(1)


def _check(folder: Path, with_traceback: bool) -> Checked:
    """Check one case; a defect of ours fails that case, and the others are still checked."""
    try:
        return check_case(folder)
    except Exception as error:
        if with_traceback:
            click.echo(traceback.format_exc(), err=True)
        text = f"the run broke down: {type(error).__name__}: {error}"
        return Checked(name=folder.resolve().name, differences=(Difference("run", text),))
