"""Models h and their metrics, on arrays.

`ModelSpec` says what to train. The rest stands in its modules (`models`, `metrics`, `onnx_file`) and
is imported by those who compute: the libraries behind it take seconds to load and a server that only
serves does not need them.
"""

from analyst_server.training.spec import ModelSpec

__all__ = ["ModelSpec"]
