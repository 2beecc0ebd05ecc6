"""The plugin process: serves the provider on a free loopback port and prints it for the engine."""

import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from types import FrameType

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from nodewright_local.pulumi_aws.service import AwsProvider

_WORKERS = 32  # a resource that waits holds one
_MAX_MESSAGE_BYTES = 400 * 1024 * 1024  # what the engine itself allows


def sdk_version() -> str:
    """Return the version of the pulumi-aws SDK that programs here are written against."""
    return version("pulumi-aws")


def start(provider: AwsProvider) -> tuple[grpc.Server, int]:
    """Serve on 127.0.0.1; returns the running server and its port."""
    server = grpc.server(
        ThreadPoolExecutor(max_workers=_WORKERS),
        options=[
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
        ],
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def main() -> None:
    """Run until the engine ends us."""
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)  # how the engine ends a plugin; it kills after five seconds
    server, port = start(AwsProvider(sdk_version()))
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    stopped.wait()
    server.stop(grace=1).wait()


if __name__ == "__main__":
    main()
