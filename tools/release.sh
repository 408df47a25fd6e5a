#!/bin/sh
# Puts the files of a release into a folder (docs/install.md): the newest wheel, the documentation, the pinned Python
# packages, the bill of materials, the notes of the version from CHANGELOG.md, and hashes of all.
#
#     tools/release.sh PYTHON WHEELS FOLDER
set -eu
python=$1 wheels=$2 out=$3
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
wheel=$(ls -t "$wheels"/tcpassay-"$version"-*.whl | head -n 1)
rm -rf "$out"
mkdir -p "$out"
cp "$wheel" "$out/"
cp requirements.lock "$out/requirements.txt"
tar --create --gzip --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-0}" \
    --transform="s,^html,tcpassay-$version-docs," --directory=python/tcpassay/docs --file="$out/tcpassay-$version-docs.tar.gz" html
"$python" tools/sbom.py > "$out/sbom.cdx.json"
# Links are relative to the repository: they lead to its address, or are plain text without one.
if [ -n "${TCPASSAY_REPOSITORY:-}" ]; then
    links="s,](\\([A-Za-z][^):]*\\)),]($TCPASSAY_REPOSITORY/\\1),g"
else
    links='s,\[\([^]]*\)\]([A-Za-z][^):]*),\1,g'
fi
sed -n "/^## $version/,/^## /p" CHANGELOG.md | sed "1d;/^## /d;$links" > "$out/NOTES.md"
test -s "$out/NOTES.md" || { echo "CHANGELOG.md has no section $version" >&2; exit 1; }
(cd "$out" && sha256sum -- * > ../SHA256SUMS && mv ../SHA256SUMS .)
echo "$out: $(ls "$out" | tr '\n' ' ')"
