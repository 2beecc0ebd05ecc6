"""The one loader of Nodewright's templates: strict, so that a forgotten value is an error.

Templates are text for machines, so nothing is escaped for HTML; what must be quoted says so with
one of the filters `shell`, `powershell`, `json` and `yaml`.
"""

from __future__ import annotations

import functools
import json
import shlex
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined, TemplateError


class RenderError(Exception):
    """A template and its values do not fit; the message names the template and what is wrong."""


def render(name: str, **context: Any) -> str:
    """Return the template `name` (a path inside this package) filled with `context`.

    Raises:
        RenderError: there is no such template, or it asks for a value that is not in `context`.

    """
    try:
        return _environment().get_template(name).render(**context)
    except TemplateError as error:
        raise RenderError(f"template {name}: {error.message or type(error).__name__}") from error


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("nodewright_templates", ""),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "shell": shlex.quote,
        "powershell": powershell_quote,
        "json": lambda value: json.dumps(value, sort_keys=True),
        "yaml": to_yaml,
    }
    return environment


def powershell_quote(text: str) -> str:
    """Return the text as a PowerShell literal."""
    return "'" + text.replace("'", "''") + "'"


def to_yaml(value: Any, indent: int = 0) -> str:
    """Return block YAML with sorted keys, indented, without a trailing newline."""
    text: str = yaml.safe_dump(value, default_flow_style=False, sort_keys=True, width=10_000)
    pad = " " * indent
    return "\n".join(pad + line if line else line for line in text.rstrip("\n").split("\n"))
