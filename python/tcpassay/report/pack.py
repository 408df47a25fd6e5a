"""Numbers in an HTML page: a JSON header and typed arrays, compressed and base64-encoded.

The bytes before compression are: the length of the header as a little-endian 32-bit number, the header, and each array
at the next multiple of eight. The header's `arrays` lists [type, offset, length] of each array; other parts of the
header refer to an array by its index in this list. `js/pack.js` is the reader.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

TYPES: Final[dict[str, np.dtype[np.generic]]] = {
    "f8": np.dtype("<f8"),
    "f4": np.dtype("<f4"),
    "u4": np.dtype("<u4"),
    "u2": np.dtype("<u2"),
}
_ALIGN: Final = 8


class Pack:
    """The arrays of a pack under construction."""

    def __init__(self) -> None:
        self._arrays: list[tuple[str, bytes, int]] = []

    def add(self, values: npt.ArrayLike, kind: str = "f8") -> int:
        """Adds an array and returns its index for the header. Absent values are NaN."""
        array = np.ascontiguousarray(values, dtype=TYPES[kind])
        self._arrays.append((kind, array.tobytes(), len(array)))
        return len(self._arrays) - 1

    def text(self, header: Mapping[str, object]) -> str:
        """The complete pack in base64."""
        offset, listed = 0, []
        for kind, raw, length in self._arrays:
            listed.append([kind, offset, length])
            offset += len(raw) + -len(raw) % _ALIGN
        head = json.dumps({**header, "arrays": listed}, allow_nan=False, separators=(",", ":")).encode()
        # Offsets are relative to the first array and do not depend on the length of the header.
        head += b" " * (-(4 + len(head)) % _ALIGN)
        body = [len(head).to_bytes(4, "little"), head]
        body += [raw + b"\0" * (-len(raw) % _ALIGN) for _, raw, _ in self._arrays]
        return base64.b64encode(gzip.compress(b"".join(body), compresslevel=6, mtime=0)).decode("ascii")


def read(text: str) -> tuple[dict[str, object], list[npt.NDArray[np.generic]]]:
    """The header and the arrays of a pack, for tests and other readers of the page."""
    raw = gzip.decompress(base64.b64decode(text))
    size = int.from_bytes(raw[:4], "little")
    header = json.loads(raw[4 : 4 + size])
    first = 4 + size
    arrays = [
        np.frombuffer(raw, TYPES[kind], count=length, offset=first + offset)
        for kind, offset, length in header["arrays"]
    ]
    return header, arrays
