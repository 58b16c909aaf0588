#!/bin/sh
# Print the build arguments that pin the image which all others are built on, and that record it in them.
# An image of a registry is pinned by its digest; one that was only ever built or loaded here has none.
set -eu
name=$1
docker image inspect "$name" >/dev/null 2>&1 || docker pull --quiet "$name" >&2
pinned=$(docker image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$name" | sed -n 1p)
if [ -n "$pinned" ]; then
  digest=${pinned#*@}
else
  pinned=$name
  digest=$(docker image inspect --format '{{.Id}}' "$name")
  echo "warning: $name has no digest of a registry; built on the local image $digest" >&2
fi
case $digest in
  sha256:*) ;;
  *) echo "error: $name: the engine names no digest, but '$digest'" >&2; exit 1 ;;
esac
echo "--build-arg PYTHON_IMAGE=$pinned --build-arg BASE_NAME=$name --build-arg BASE_DIGEST=$digest"
