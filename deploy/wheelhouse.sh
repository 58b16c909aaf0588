#!/bin/sh
# Collect what installs on a machine without a network: deploy/wheelhouse.sh PYTHON PROGRAMS DIRECTORY
#
# PYTHON decides for which version the libraries are; PROGRAMS has the build's own. docs/deploy-vm.md says how to install.
set -eu
python=$1 programs=$2 directory=$3
rm -rf "$directory"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
for role in server client; do
  mkdir -p "$directory/$role"
  cp "deploy/docker/$role.lock" "$directory/$role/requirements.lock"
  "$programs/python" -m pip download --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
    --python-version "$version" --requirement "deploy/docker/$role.lock" --dest "$directory/$role"
  "$programs/python" -m hatchling build --target wheel --directory "$directory/$role"
done
cp -r deploy/systemd deploy/trim.sh "$directory"
echo "in $directory, for Python $version: docs/deploy-vm.md says how to install it"
