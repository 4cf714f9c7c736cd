#!/usr/bin/env bash
# What the CDK calls as `docker` (CDK_DOCKER) where there is no Docker engine: builds with buildah as .ci/image.sh does,
# and keeps images in podman's storage, which is the registry here: there is nothing to log in or push to.
set -euo pipefail

build() {
  local given=()
  while [ $# -gt 1 ]; do
    case $1 in
      --platform) shift 2 ;; # that of this machine; another would need emulation
      *) given+=("$1"); shift ;;
    esac
  done
  exec buildah build --isolation chroot --network host --layers --quiet \
    --secret id=ca,src="${NODE_EXTRA_CA_CERTS:-/dev/null}" "${given[@]}" "$1"
}

command=$1
shift
case $command in
  build) build "$@" ;;
  inspect) exec podman image inspect "$@" ;;
  tag) exec podman tag "$@" ;;
  login) cat >/dev/null ;;
  push) exec podman image exists "$@" ;;
  *) echo "docker-shim: $command is not known here" >&2; exit 64 ;;
esac
