"""Checksums by which damage to a result folder is noticed when it is read.

A JSON file of ours ends with a key `xxh3`: the XXH3 (64 bits) of all bytes before the line of that key. The data plane
writes `recording.json` in the same form. Other files have their checksum in one of these. A checksum tells accidental
damage; who changes a file on purpose can write a new one.
"""

from typing import Final

from tcpassay import _native

_END: Final = "\n}\n"
_LINE: Final = len(' "xxh3": "0123456789abcdef"\n}\n')

checksum = _native.checksum


def seal(text: str) -> str:
    """The text of a JSON object, whose closing brace stands in a line of its own, with its checksum as the last key."""
    body = text.removesuffix(_END) + ",\n"
    return body + _last(body.encode()).decode()


def unseal(text: str) -> str:
    """The text before it was sealed."""
    return text[:-_LINE].removesuffix(",\n") + _END


def is_whole(raw: bytes) -> bool:
    """Whether a sealed text is as it was when it was sealed; false for one that was never sealed."""
    return raw[-_LINE:] == _last(raw[:-_LINE])


def has_seal(raw: bytes) -> bool:
    """Whether the text ends as a sealed one does, with the right checksum or a wrong one."""
    return b'"xxh3"' in raw[-2 * _LINE :]


def _last(body: bytes) -> bytes:
    return b' "xxh3": "%s"\n}\n' % checksum(body).encode()
