"""Downloads the sources of another version of lwIP, as Debian distributes them.

Run as `python version.py VERSION` in a copy of this folder.

Debian's patches of 2.1.3 concern its sockets, PPP, and the build; none changes TCP. They are not applied.
"""

import hashlib
import io
import sys
import tarfile
import urllib.request
from pathlib import Path

VERSIONS = {
    "2.1.3": (
        "http://deb.debian.org/debian/pool/main/l/lwip/lwip_2.1.3+dfsg1.orig.tar.xz",
        "0a8276d09fc4e97bbba2f953d74af2388fc2195ea156be9d7589e297a68fde24",
    ),
}
LIMIT = 64 << 20

version = sys.argv[1]
if version not in VERSIONS:
    sys.exit(f"lwIP {version}: there are {', '.join(VERSIONS)}")
address, wanted = VERSIONS[version]
with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - an address of this file
    archive = answer.read(LIMIT)
found = hashlib.sha256(archive).hexdigest()
if found != wanted:
    sys.exit(f"{address} has the SHA-256 {found}; {wanted} was expected")
with tarfile.open(fileobj=io.BytesIO(archive)) as sources:
    sources.extractall("unpacked", filter="data")
Path("vendor").mkdir()
next(Path("unpacked").iterdir()).rename("vendor/lwip")
