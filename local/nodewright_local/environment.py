"""The environment variables that lead programs on this machine to the laptop cluster.

Decides what a shell, the demo and the tests must set so that kubectl, the AWS tools and Pulumi use
the cluster and nothing else: no real account, no user's profile, no network.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nodewright_local.state import ClusterState, cache_directory, write_whole
from nodewright_local.toolbox import all_tools, search_path

ACCESS_KEY_ID: Final = "AKIANODEWRIGHTLAPTOP"
SECRET_ACCESS_KEY: Final = "laptop-only"  # the stand-in accepts any; it opens nothing elsewhere
PASSPHRASE: Final = "laptop-only"

FOREIGN: Final = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")
"""Variables of a user's own AWS account, which must not be set beside ours."""


def cluster_environment(
    state: ClusterState, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the variables to add to an environment; PATH continues the given one.

    A process environment should also lose the variables in `FOREIGN`; `clean_environment` does.
    """
    return {
        "NODEWRIGHT_LOCAL_DIR": str(state.state_dir),
        "KUBECONFIG": str(state.admin_kubeconfig),
        "AWS_ENDPOINT_URL": state.aws_url,
        "AWS_REGION": state.region,
        "AWS_DEFAULT_REGION": state.region,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "AWS_CONFIG_FILE": str(aws_config_file(state)),
        "AWS_SHARED_CREDENTIALS_FILE": str(aws_config_file(state).with_name("credentials")),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_PAGER": "",
        "PATH": search_path(
            state.binaries,
            first=(Path(sys.executable).parent, *_cached_folders(environ)),
            rest=environ.get("PATH", ""),
        ),
        "PULUMI_BACKEND_URL": f"file://{state.pulumi_dir}",
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_HOME": str(state.pulumi_home),
        "PULUMI_SKIP_UPDATE_CHECK": "1",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def clean_environment(
    state: ClusterState, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return a whole process environment: the given one, led to the cluster."""
    kept = {name: value for name, value in environ.items() if name not in FOREIGN}
    return {**kept, **cluster_environment(state, environ)}


def render_exports(state: ClusterState, environ: Mapping[str, str] = os.environ) -> str:
    """Return shell lines for `eval "$(nodewright local env)"`."""
    lines = [f"unset {' '.join(FOREIGN)}"]
    variables = cluster_environment(state, environ)
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return "\n".join(lines)


def aws_config_file(state: ClusterState) -> Path:
    """Return the AWS configuration that takes the place of the user's own."""
    return state.state_dir / "aws-config" / "config"


def prepare_environment(state: ClusterState) -> None:
    """Make the files and folders the variables name."""
    write_whole(aws_config_file(state), f"[default]\nregion = {state.region}")
    write_whole(aws_config_file(state).with_name("credentials"), "")
    state.pulumi_dir.mkdir(parents=True, exist_ok=True)
    state.pulumi_home.mkdir(parents=True, exist_ok=True)


def _cached_folders(environ: Mapping[str, str]) -> list[Path]:
    tools = cache_directory(environ) / "tools"
    folders = [tools / tool.directory for tool in all_tools()]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
