"""Loopback addresses that stand for pod addresses: one per pod, distinct on the whole machine."""

import socket
from collections.abc import Iterator

_CLAIM_PORT = 10250
"""Held on each claimed address for as long as the pod lives, so that no other pod (or a second
laptop cluster on the same machine) takes it. On a real pod's address nobody listens there."""


class NoAddress(Exception):
    """No loopback address can be had; the text says what the machine lacks."""


class AddressClaim:
    """One pod's address, ours until released."""

    def __init__(self, address: str, holder: socket.socket) -> None:
        self.address = address
        self._holder = holder

    def release(self) -> None:
        """Give the address back."""
        self._holder.close()


def claim_address(preferred: str = "") -> AddressClaim:
    """Claim the preferred address if it is one of ours and free, else the next free one.

    Raises NoAddress if the machine accepts none.
    """
    refusal: OSError | None = None
    candidates = [preferred] if preferred.startswith("127.20.") else []
    for address in [*candidates, *_addresses()]:
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            holder.bind((address, _CLAIM_PORT))
        except OSError as error:
            holder.close()
            refusal = error
            continue
        return AddressClaim(address, holder)
    raise NoAddress(
        f"no address in 127.20.0.0/22 can be bound ({refusal}); "
        "on macOS add some with: sudo ifconfig lo0 alias 127.20.0.1"
    )


def _addresses() -> Iterator[str]:
    for third in range(4):
        for fourth in range(1, 255):
            yield f"127.20.{third}.{fourth}"
