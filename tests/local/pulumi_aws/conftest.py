"""The AWS stand-in of the laptop cluster, one for each test module, and a lab at it."""

import os
import threading
from collections.abc import Iterator

import pytest
from nodewright_local.aws import moto_access
from nodewright_local.aws.server import AwsServer
from nodewright_local.aws.settings import AwsSettings, Delays
from nodewright_local.pulumi_aws.aws import Aws, ProviderSettings
from nodewright_local.pulumi_aws.lifecycle import Live

from tests.local.pulumi_aws.lab import Lab

QUICK = Delays(
    pending=0.05, shutting_down=0.05, terminated_visible=0.2, cluster=0.05, nodegroup=0.05
)
PEM = "-----BEGIN CERTIFICATE-----\nlaptop\n-----END CERTIFICATE-----\n"


@pytest.fixture(scope="module")
def aws_url() -> Iterator[str]:
    """Start the stand-in; moto's state is the process's, so it is forgotten at the end."""
    kept = dict(os.environ)
    running = AwsServer(
        AwsSettings(api_server_url="https://127.0.0.1:6443", ca_pem=PEM, delays=QUICK)
    )
    moto_access.reset()
    running.start()
    os.environ["AWS_ENDPOINT_URL"] = running.url
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    yield running.url
    running.close()
    moto_access.reset()
    os.environ.clear()
    os.environ.update(kept)


def connect(**settings: object) -> Aws:
    """Return a connection to the stand-in with the provider settings given."""
    values: dict[str, object] = {
        "region": "us-west-2",
        "access_key": "AKIATEST",
        "secret_key": "secret",
        **settings,
    }
    return Aws(ProviderSettings(**values), threading.Event())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def aws(aws_url: str) -> Aws:
    """A connection without default tags."""
    return connect()


@pytest.fixture(scope="module")
def clusters() -> list[Live]:
    """The clusters that the tests of a module share; the stand-in ends with the module."""
    return []


@pytest.fixture
def lab(aws: Aws, clusters: list[Live]) -> Iterator[Lab]:
    """A lab that is cleared afterwards."""
    made = Lab(aws=aws, clusters=clusters)
    yield made
    made.clear()
