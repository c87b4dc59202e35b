"""Find the pickle in a file: as it is, or in a tar archive, or compressed by gzip."""

from __future__ import annotations

import re
import zlib
from typing import Final

from caffe2_bridge import wire
from caffe2_bridge.bounds import current_limits, hint_of, unpacked_allowance
from caffe2_bridge.diagnostics import NetFormatError

# How the pickle of a dict begins: a version, or in protocols 0 and 1, which have none, the dict or its class.
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05]|\(dp\d+\n|\}[q(]|ccollections\nOrderedDict\n")
_GZIP: Final = b"\x1f\x8b"
_TAR: Final = 257, b"ustar"
_HEAD: Final = 4096
_BLOCK: Final = 512
_PIECE: Final = 1 << 20
_REGULAR: Final = b"0\0"


def holds_pickle(head: bytes) -> bool:
    """Whether a file that begins so may hold a pickle."""
    return _is_pickle_or_tar(_inflated_head(head) if head.startswith(_GZIP) else head)


def find_pickle(span: wire.Span) -> wire.Span:
    """Return the pickle in a file. Raises NetFormatError if there is none, several, or what is around it is damaged."""
    if span.view[:2].tobytes() == _GZIP:
        span = wire.Span.of(_inflated(span))
    if not _is_tar(span.view[:_HEAD].tobytes()):
        return span
    found = [member for member in _members(span) if _PICKLE.match(member.view[:_HEAD])]
    if len(found) != 1:
        raise NetFormatError(f"the tar archive has {len(found) or 'no'} pickles; it must have one")
    return found[0]


def _is_pickle_or_tar(head: bytes) -> bool:
    return _PICKLE.match(head) is not None or _is_tar(head)


def _is_tar(head: bytes) -> bool:
    return head[_TAR[0] :].startswith(_TAR[1])


def _inflated_head(data: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(data, _BLOCK)  # enough for a tar header
    except zlib.error:
        return b""


def _inflated(span: wire.Span) -> bytes:
    """Decompress, up to the limit."""
    allowed = unpacked_allowance(len(span))
    out = bytearray()
    inflate = zlib.decompressobj(wbits=31)
    try:
        for piece in span.pieces():
            pending = bytes(piece)
            while pending and not inflate.eof:
                out += inflate.decompress(pending, _PIECE)
                pending = inflate.unconsumed_tail
                if len(out) > allowed:
                    hint = hint_of("unpacked_bytes", 2 * current_limits().unpacked_bytes)
                    raise NetFormatError(f"the file unpacks to more than {allowed:,} bytes ({hint})")
    except zlib.error as error:
        raise NetFormatError(f"the gzip file is damaged: {error}") from None
    if not inflate.eof:
        raise NetFormatError("the gzip file is truncated")
    return bytes(out)


def _members(span: wire.Span) -> list[wire.Span]:
    """Return the regular files of a tar archive. Raises NetFormatError if it is damaged."""
    found = []
    at = 0
    while at + _BLOCK <= len(span):
        header = span.view[at : at + _BLOCK].tobytes()
        if not header.strip(b"\0"):
            break
        size = _size(header[124:136])
        start = span.start + at + _BLOCK
        if start + size > span.end:
            raise NetFormatError("the tar archive is truncated or damaged")
        if header[156] in _REGULAR:
            found.append(span.within(start, start + size))
        at += _BLOCK + -(-size // _BLOCK) * _BLOCK
    return found


def _size(field: bytes) -> int:
    """Return the size of a member: in octal digits, or in binary beyond 8 GB."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not re.fullmatch(rb"[0-7]*", digits):
        raise NetFormatError("the tar archive is truncated or damaged")
    return int(digits or b"0", 8)
