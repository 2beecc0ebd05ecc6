"""Multipart user data: the user's parts first, ours after them. Pure."""

from __future__ import annotations

import email
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nodewright_templates import render

SHELL: Final = 'text/x-shellscript; charset="us-ascii"'
NODE_CONFIG: Final = "application/node.eks.aws"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a multipart message."""

    content_type: str
    body: str


def is_mime(text: str) -> bool:
    """Whether user data is a MIME message already."""
    return text.strip().startswith(("MIME-Version:", "Content-Type:"))


def parse_parts(text: str) -> tuple[Part, ...]:
    """Return the parts of a MIME message.

    Raises:
        ValueError: the message has no parts (a boundary is wrong, or it is not multipart).

    """
    message = email.message_from_string(text.strip().replace("\r", ""))
    if not message.is_multipart():
        raise ValueError("userData begins like a MIME message but has no parts: check its boundary")
    parts = []
    for found in message.walk():
        if found.is_multipart():
            continue
        payload = found.get_payload(decode=True)
        body = payload.decode(errors="replace") if isinstance(payload, bytes) else ""
        parts.append(Part(found.get("Content-Type", SHELL), body.strip("\n")))
    return tuple(parts)


def assemble(parts: Sequence[Part]) -> str:
    """Return one message of all parts."""
    return render(
        "userdata/mime.txt.j2",
        parts=[Part(part.content_type, part.body.replace("\r", "").rstrip("\n")) for part in parts],
    )
