#!/usr/bin/env bash
# Unpacks moto (an S3 server with conditional writes) and its Python from Debian packages into a cache folder.
# Nothing is installed on the machine and no privileges are needed. About 20 s cold; at once when it is there already.
# Prints the Python that runs it, which the tests find by the same rule: <cache>/moto/python.
set -euo pipefail
[ $# -eq 0 ] || { echo "usage: $0" >&2; exit 64; }

cache=${STEPSPAWN_CACHE:-$HOME/.cache/stepspawn}
moto=$cache/moto
stamp=$(sha256sum <"$0")
# moto and botocore from sid (S3 as it is today), everything else from trixie; flask-cors and what follows it
# are dependencies that the package does not declare.
packages=(
  python3-moto/sid python3-botocore/sid
  python3-flask-cors python3-joserfc python3-jsonpath-ng python3-jsondiff python3-yaml python3-pyparsing
  python3-multipart python3-aws-xray-sdk python3-docker python3-openapi-spec-validator python3-graphql-core
)

mkdir -p "$cache"
exec 9>"$cache/moto.lock"
flock 9
if [ "$(cat "$moto/stamp" 2>/dev/null)" = "$stamp" ]; then
  echo "$moto/python"
  exit
fi

work=$(mktemp -d "$cache/moto.XXXXXX")
trap 'rm -rf "$work"' EXIT
apt=$work/apt new=$work/moto
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$new"
: >"$apt/status"

# the mirror that this machine uses
mirror=$(find /etc/apt/sources.list /etc/apt/sources.list.d -type f -exec cat {} + 2>/dev/null |
  awk '!/^#/ { for (i = 1; i <= NF; i++) if ($i ~ /^https?:.*\/debian\/?$/ && !found) found = $i } END { print found }') || true
: "${mirror:=http://deb.debian.org/debian}"
for suite in trixie sid; do
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
done >"$apt/sources.list"
# An apt of its own beside the machine's: its own sources and an empty list of installed packages.
# A mirror that is frozen in time serves indexes past their date.
private_apt() {
  apt-get -qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
    -o Dir::State="$apt" -o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" \
    -o Dir::Cache="$apt" -o Dir::Cache::Archives="$apt/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
    -o APT::Default-Release=trixie -o APT::Install-Recommends=false -o APT::Sandbox::User= \
    -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false \
    -o Acquire::Retries=3 -o Debug::NoLocking=true "$@"
}
private_apt update >&2
private_apt install --yes --download-only "${packages[@]}" >&2
for package in "$apt"/archives/*.deb; do dpkg -x "$package" "$new"; done
rm -rf "$new"/usr/share/{doc,man,locale,info,lintian,bash-completion}

# Debian's Python with its own loader and libraries, whatever the machine's are.
cat >"$new/python" <<'PYTHON'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
lib=$(echo "$here"/usr/lib/*-linux-gnu)
exec env -u PYTHONPATH -u LD_LIBRARY_PATH LC_ALL=C.UTF-8 PYTHONHOME="$here/usr" PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1 \
  "$lib"/ld-linux-*.so.? --library-path "$lib" --argv0 "$here/usr/bin/python3" "$here/usr/bin/python3" "$@"
PYTHON
chmod +x "$new/python"
"$new/python" -m compileall -qq -s "$new" -p "$moto" "$new"/usr/lib/python3*
version=$("$new/python" -c 'import moto, moto.server; print(moto.__version__)')

echo "$stamp" >"$new/stamp"
rm -rf "$moto"
mv "$new" "$moto"
echo "moto $version in $moto" >&2
echo "$moto/python"
