"""Templates are strict: a forgotten value is an error, and every value is quoted for its reader."""

from __future__ import annotations

import shlex

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from nodewright_templates import RenderError, render
from nodewright_templates.rendering import powershell_quote, to_yaml


def test_a_forgotten_value_is_an_error_that_names_it() -> None:
    with pytest.raises(RenderError, match=r"userdata/windows.ps1.j2.*'custom' is undefined"):
        render("userdata/windows.ps1.j2", cluster_name="demo")


def test_an_unknown_template_is_an_error_that_names_it() -> None:
    with pytest.raises(RenderError, match=r"userdata/none\.j2"):
        render("userdata/none.j2")


def test_nothing_is_escaped_for_html() -> None:
    text = render(
        "userdata/al2.sh.j2",
        cluster_name="demo",
        endpoint="https://x",
        ca_bundle="Q0E=",
        ipv6=False,
        dns_ip="",
        max_pods_known=False,
        raid0=False,
        kubelet_args='--eviction-hard="memory.available<5%"',
    )

    words = shlex.split(text.partition("/etc/eks/bootstrap.sh")[2].replace("\\\n", " "))
    assert words[-1] == '--eviction-hard="memory.available<5%"'
    assert words[:3] == ["demo", "--apiserver-endpoint", "https://x"]


@given(st.dictionaries(st.text(min_size=1, max_size=9), st.text(max_size=9) | st.integers()))
def test_yaml_survives_any_indentation(value: dict[str, object]) -> None:
    text = to_yaml({"a": value}, 4)

    assert yaml.safe_load(text) == {"a": value}


def test_powershell_literals_double_their_quotes() -> None:
    assert powershell_quote("it's") == "'it''s'"
