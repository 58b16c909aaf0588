#!/bin/sh
# Takes out of a virtual environment what no process of ours loads. `docs/deploy-compose.md` says what
# it saves. The build then imports every module of the role, so a part that is needed after all is
# missed here and not at a hospital.
set -eu
role=$1
cd /opt/odc/lib/python3*/site-packages

# every role: tests and headers of libraries, and the build tools of onnxruntime
find . -type d -name tests -prune -exec rm -rf {} +
find . -type f \( -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.pyi' -o -name '*.a' \) -delete
rm -rf numpy/_core/include
# the C library of onnxruntime, a second copy of what its Python module is linked with
rm -rf onnxruntime/capi/libonnxruntime.so*
rm -rf onnxruntime/backend onnxruntime/datasets onnxruntime/quantization onnxruntime/tools onnxruntime/transformers

if [ "$role" = analyst ]; then
  exit
fi

# an institution reads CSV and Parquet files: no Flight servers, no S3, no headers
(cd pyarrow && rm -rf include includes src _pyarrow_cpp_tests* _flight* libarrow_flight* \
  libarrow_python_flight* _s3fs* libarrow_s3*)
rm -rf pygments/lexers/[a-z]*
