"""The CRD files are what the API models say; `NODEWRIGHT_GOLDEN=write` rewrites them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nodewright_templates.crds
import pytest
import yaml
from nodewright_controller.api.crds import crds
from nodewright_templates.crds import FILES, load
from typing_extensions import override

FOLDER = Path(nodewright_templates.crds.__file__).parent
HEADER = "# Generated from the controller's API models by `make golden`: edit those instead.\n"


def file_name(definition: dict[str, Any]) -> str:
    spec = definition["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"


def render(definition: dict[str, Any]) -> str:
    class Plain(yaml.SafeDumper):
        @override
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return HEADER + yaml.dump(
        definition, Dumper=Plain, sort_keys=True, width=100, allow_unicode=True
    )


@pytest.fixture(scope="module", autouse=True)
def _rewrite_when_asked() -> None:
    if os.environ.get("NODEWRIGHT_GOLDEN") == "write":
        for definition in crds():
            (FOLDER / file_name(definition)).write_text(render(definition), encoding="utf-8")


@pytest.mark.parametrize("definition", crds(), ids=file_name)
def test_the_file_is_what_the_models_say(definition: dict[str, Any]) -> None:
    path = FOLDER / file_name(definition)

    assert render(definition) == path.read_text("utf-8"), "run `make golden` and review the diff"


def test_all_definitions_are_packaged_in_a_stable_order() -> None:
    assert tuple(map(file_name, crds())) == FILES
    assert [definition["metadata"]["name"] for definition in crds()] == list(load())


def test_loading_gives_what_was_generated() -> None:
    assert tuple(load().values()) == crds()
