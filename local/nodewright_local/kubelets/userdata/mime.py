"""The MIME envelope of EC2 user data: several documents, each with its content type."""

import email
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message

from nodewright_local.kubelets.userdata.bootstrap import bad

SHELL_SCRIPT = "text/x-shellscript"
NODE_CONFIG = "application/node.eks.aws"

_LARGEST_BYTES = 1 << 20  # unpacked; EC2 takes 16 KiB packed


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One document of the user data."""

    content_type: str
    text: str


def to_text(user_data: bytes) -> str:
    """Return user data as text; gzip, which cloud-init and nodeadm both take, is unpacked."""
    if user_data.startswith(b"\x1f\x8b"):
        try:
            user_data = zlib.decompressobj(wbits=31).decompress(user_data, _LARGEST_BYTES)
        except (zlib.error, gzip.BadGzipFile) as error:
            raise bad(f"user data begins like gzip but does not unpack: {error}") from error
    try:
        return user_data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise bad("user data is neither UTF-8 text nor gzip") from error


def is_mime(text: str) -> bool:
    """Tell whether the text begins with the headers of a MIME message."""
    start = text.lstrip().lower()
    return start.startswith(("mime-version:", "content-type:"))


def split_parts(text: str) -> tuple[Part, ...]:
    """Return the leaves of a MIME message in order; raise if it has no usable boundary."""
    message = email.message_from_string(text.lstrip().replace("\r\n", "\n"))
    if message.get_content_maintype() != "multipart":
        raise bad(f"user data is MIME of type {message.get_content_type()}, not multipart")
    parts = tuple(_leaves(message))
    if not parts:
        raise bad("user data is MIME multipart but its boundary separates no part")
    return parts


def _leaves(message: Message) -> Iterator[Part]:
    payload = message.get_payload()
    if not isinstance(payload, list):
        return
    for part in payload:
        if not isinstance(part, Message):
            continue
        if part.is_multipart():
            yield from _leaves(part)
            continue
        content = part.get_payload(decode=True)
        if isinstance(content, bytes):
            yield Part(
                content_type=part.get_content_type(), text=content.decode("utf-8", "replace")
            )
