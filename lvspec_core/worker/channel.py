"""Pickled messages over a pair of pipes: the border between the page and the processes that work for it.

A message is its length (8 bytes, little-endian) and its pickle. Both ends are started by the same program from the same
files, which is why pickle is safe here.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any, BinaryIO

LENGTH = struct.Struct("<Q")


def send(stream: BinaryIO, message: Any) -> None:
    """Writes one message whole; raises OSError when the other end is gone."""
    data = pickle.dumps(message, protocol=5)
    stream.write(LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """The next message; raises EOFError when the other end is gone."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    (length,) = LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)
