"""`python -m nodewright_local.aws`: AWS on 127.0.0.1 until SIGTERM."""

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from nodewright_local.aws.ec2 import catalogue
from nodewright_local.aws.server import AwsServer
from nodewright_local.aws.settings import SettingsError, load_settings

log = logging.getLogger("nodewright_local.aws")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nodewright_local.aws", description=__doc__)
    state = os.environ.get("NODEWRIGHT_LOCAL_DIR")
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=Path(state) if state else None,
        help="directory with cluster.json (default: $NODEWRIGHT_LOCAL_DIR); options win over it",
    )
    parser.add_argument("--port", type=int, help="port on 127.0.0.1; 0 chooses a free one")
    parser.add_argument("--account-id")
    parser.add_argument("--region")
    parser.add_argument("--api-server-url")
    parser.add_argument("--ca-file", type=Path, help="PEM of the cluster CA")
    parser.add_argument("--admin-kubeconfig", type=Path)
    parser.add_argument("--service-cidr")
    parser.add_argument("--kubernetes-version")
    return parser.parse_args()


def main() -> int:
    """Serve until SIGTERM or SIGINT; 2 when the settings can not be read."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    options = vars(_options())
    try:
        settings = load_settings(options.pop("state_dir"), options)
    except SettingsError as error:
        sys.stderr.write(f"nodewright_local.aws: {error}\n")
        return 2
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = AwsServer(settings)
    server.start()
    log.info("AWS answers at %s", server.url)
    threading.Thread(
        target=catalogue.warm, args=(settings.region,), name="warm", daemon=True
    ).start()
    stop.wait()
    server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
