#!/usr/bin/env bash
# Tests the recipes: installs the agent CLIs that are missing, then drives them where the only network is loopback, /tmp is
# empty and private, and every process is of this run. As root, or as a user who may make namespaces.
# CLIS names the recipes to test, the four of CI when absent. Arguments are passed on to vitest.
set -euo pipefail
cd "$(dirname "$0")/.."
export STEPSPAWN_CACHE="${STEPSPAWN_CACHE:-$HOME/.cache/stepspawn}"

packages=()
command -v ip >/dev/null || packages+=(iproute2)
command -v unshare >/dev/null || packages+=(util-linux)
if [ ${#packages[@]} -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi
node test/clis/install.ts

node=$(realpath "$(command -v node)")
as_root=()
[ "$(id -u)" = 0 ] || as_root=(--map-root-user)
# Process 1 of the namespace is the shell, which reaps; what it runs must not be hidden by the private /tmp.
# shellcheck disable=SC2016
exec unshare "${as_root[@]}" --net --mount --pid --fork --mount-proc --kill-child sh -eu -c '
  ip link set lo up
  private=$(mktemp -d)
  mount -t tmpfs tmpfs "$private"
  chmod 1777 "$private"
  for needed in "$PWD" "$(realpath node_modules)" "$STEPSPAWN_CACHE" "$(dirname "$1")"; do
    [ ! -e "$private/${needed#/tmp/}" ] || continue
    case $needed in /tmp/*)
      mkdir -p "$private/${needed#/tmp/}"
      mount --rbind "$needed" "$private/${needed#/tmp/}" ;;
    esac
  done
  mkdir -p "$private/tests"
  # in a user namespace it is done, and yet said to have failed in part
  mount --move "$private" /tmp 2>/dev/null || [ -d /tmp/tests ]
  cd "$PWD"
  shift
  TMPDIR=/tmp/tests "$@"
' sh "$node" "$node" node_modules/vitest/vitest.mjs run --config vitest.clis.config.ts "$@"
