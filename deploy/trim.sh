#!/bin/sh
# Remove from a virtual environment what none of our processes loads: deploy/trim.sh ROLE ENVIRONMENT
#
# ROLE is client or server. The images are built with it (and then import every module of the role, so that a file
# removed by mistake fails the build and not a hospital), and docs/deploy-vm.md offers it. `pip` upgrades and removes
# the libraries as before.
set -eu
role=$1
cd "$2"/lib/python3*/site-packages

# every role: tests and headers of libraries, and the build tools of onnxruntime
find . -type d -name tests -prune -exec rm -rf {} +
find . -type f \( -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.pyi' -o -name '*.a' \) -delete
rm -rf numpy/_core/include
# the C library of onnxruntime: its Python module contains a copy of the same code
rm -rf onnxruntime/capi/libonnxruntime.so*
rm -rf onnxruntime/backend onnxruntime/datasets onnxruntime/quantization onnxruntime/tools onnxruntime/transformers

if [ "$role" = server ]; then
  exit
fi

# an institution reads CSV and Parquet files: no Flight servers, no S3, no headers
(cd pyarrow && rm -rf include includes src _pyarrow_cpp_tests* _flight* libarrow_flight* \
  libarrow_python_flight* _s3fs* libarrow_s3*)
rm -rf pygments/lexers/[a-z]* pygments/lexers/__pycache__/[a-z]*
