"""Which decoder reads an instance's user data: its image decides, never the text itself."""

import base64
import binascii
from collections.abc import Callable, Mapping

from nodewright_local.kubelets.userdata import al2, bottlerocket, nodeconfig
from nodewright_local.kubelets.userdata.bootstrap import (
    Bootstrap,
    JoinProblem,
    UserDataError,
    bad,
)

DECODERS: Mapping[str, Callable[[bytes], Bootstrap]] = {
    "AL2023": nodeconfig.decode,
    "Bottlerocket": bottlerocket.decode,
    "AL2": al2.decode,
}


def decode_user_data(image_family: str, user_data_base64: str | None) -> Bootstrap:
    """Return what a machine of that image family makes of its user data.

    Raises UserDataError with the reason if it would not even try to join a cluster.
    """
    decoder = DECODERS.get(image_family)
    if decoder is None:
        raise UserDataError(
            JoinProblem.UNSUPPORTED_FAMILY,
            f"the laptop cluster boots {', '.join(DECODERS)}, not image family {image_family!r}",
        )
    if not user_data_base64:
        raise UserDataError(
            JoinProblem.NO_USER_DATA, f"a {image_family} machine without user data joins nothing"
        )
    try:
        user_data = base64.b64decode(user_data_base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise bad("user data is not base64") from error
    return decoder(user_data)
