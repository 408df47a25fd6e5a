"""Checksums that detect damage to a result folder.

A JSON file ends with a key `xxh3`: the XXH3 (64 bits) of all bytes before the line of that key. The data plane writes
`recording.json` in the same format. Checksums of other files are stored in one of these files. A checksum detects
accidental damage, not deliberate changes.
"""

from typing import Final

from tcpassay import _native

_END: Final = "\n}\n"
_LINE: Final = len(' "xxh3": "0123456789abcdef"\n}\n')

checksum = _native.checksum


def seal(text: str) -> str:
    """Adds the checksum to the text of a JSON object as its last key; the closing brace must be on a separate line."""
    body = text.removesuffix(_END) + ",\n"
    return body + _last(body.encode()).decode()


def unseal(text: str) -> str:
    """The text without its checksum."""
    return text[:-_LINE].removesuffix(",\n") + _END


def is_whole(raw: bytes) -> bool:
    """Whether a text with a checksum is unchanged; false for a text without checksum."""
    return raw[-_LINE:] == _last(raw[:-_LINE])


def has_seal(raw: bytes) -> bool:
    """Whether the text ends with a checksum, correct or not."""
    return b'"xxh3"' in raw[-2 * _LINE :]


def _last(body: bytes) -> bytes:
    return b' "xxh3": "%s"\n}\n' % checksum(body).encode()
